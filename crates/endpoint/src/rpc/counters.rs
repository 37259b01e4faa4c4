//! Counters of both ends.

use rackweave_base::counters;

counters! {
    /// Counters of a client since it was created.
    ClientCounters {
        /// Requests begun.
        requests,
        /// Requests answered with success.
        answered,
        /// Requests answered with another status.
        refused,
        /// Requests given up because no answer came in time.
        timed_out,
        /// Requests given up because the connection broke.
        disconnected,
        /// Replies to requests that had been given up.
        late_replies,
        /// Replies that match no pending request.
        unknown_replies,
        /// Replies from another incarnation of the server.
        foreign_replies,
        /// Invalid messages, and messages whose calls are incomplete.
        malformed_messages,
        /// Messages sent.
        messages_sent,
        /// Messages sent that were short enough to be inlined.
        messages_inline,
        /// Doorbells rung: batches of messages posted.
        doorbells,
        /// Messages received.
        messages_received,
        /// Times that sending stopped until the server granted more messages.
        grant_waits,
        /// Probes sent to ask whether the server is alive.
        probes,
    }
}

counters! {
    /// Counters of a server since it was created.
    ServerCounters {
        /// Requests passed to the service.
        requests,
        /// Requests for a method that the service does not have.
        unknown_methods,
        /// Replies that were too large and were replaced by an error.
        replies_too_large,
        /// Requests whose call is incomplete.
        malformed_requests,
        /// Invalid messages, messages that are no requests, and messages with invalid data after
        /// their calls.
        malformed_messages,
        /// Messages of another protocol version.
        other_versions,
        /// Messages for another incarnation of the server.
        other_incarnations,
        /// Messages sent.
        messages_sent,
        /// Messages sent that were short enough to be inlined.
        messages_inline,
        /// Doorbells rung: batches of messages posted.
        doorbells,
        /// Messages received.
        messages_received,
        /// Messages that were not handled at once because earlier replies to their client could not
        /// be sent yet, or were deferred.
        messages_held,
        /// Requests whose reply was deferred.
        deferred,
        /// Probes received.
        probes,
        /// Clients accepted.
        accepted,
        /// Clients whose connection broke.
        lost,
        /// Completions for clients that no longer exist.
        stray_completions,
    }
}
