//! What both ends have seen.

use rackweave_base::counters;

counters! {
    /// Counters of a client since it was made.
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
        /// Answers to requests that had been given up.
        late_replies,
        /// Replies to nothing that is under way.
        unknown_replies,
        /// Replies of another incarnation of the server.
        foreign_replies,
        /// Messages that are none, or whose calls are not all there.
        malformed_messages,
        /// Messages sent.
        messages_sent,
        /// Of those: short enough to be inlined.
        messages_inline,
        /// Doorbells rung: batches of messages posted.
        doorbells,
        /// Messages received.
        messages_received,
        /// Times that nothing could be sent until the server grants more.
        grant_waits,
        /// Messages sent to ask whether the server is alive.
        probes,
    }
}

counters! {
    /// Counters of a server since it was made.
    ServerCounters {
        /// Requests handed to the service.
        requests,
        /// Requests for a method that the service does not have.
        unknown_methods,
        /// Replies that were too large, and replaced by an error.
        replies_too_large,
        /// Requests whose call is not all there.
        malformed_requests,
        /// Messages that are none, are no requests, or have something wrong behind their calls.
        malformed_messages,
        /// Messages of another version.
        other_versions,
        /// Messages for another incarnation.
        other_incarnations,
        /// Messages sent.
        messages_sent,
        /// Of those: short enough to be inlined.
        messages_inline,
        /// Doorbells rung: batches of messages posted.
        doorbells,
        /// Messages received.
        messages_received,
        /// Messages that were left lying because earlier replies to their client could not be sent
        /// yet.
        messages_held,
        /// Questions whether the server is alive.
        probes,
        /// Clients accepted.
        accepted,
        /// Clients whose connection broke.
        lost,
        /// Completions for clients that are gone.
        stray_completions,
    }
}
