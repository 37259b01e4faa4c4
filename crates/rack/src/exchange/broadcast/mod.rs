//! Broadcasts: the same messages for streams of several nodes, each sent once.
//!
//! A node that broadcasts has one replicated flow, whose consumers are the nodes that it has
//! broadcast to. It carries the messages of any number of broadcasts at a time: each names the
//! streams that get it. Credit, cancellation and errors stay those of the streams. A thread makes
//! the flow when it is needed first ([`set_up`]); until a node has joined it, its streams are left
//! to the caller.

mod ends;
mod set_up;

use super::handles::Handle;
use super::link::Link;
use super::{Exchange, Shared, StreamSender, held};
use core::task::{Context, Poll};
use rackweave_endpoint::exchange::{Broadcast, StreamError};
use rackweave_endpoint::flow::Producer;
use rackweave_wire::fabric::exchange::broadcast::Member;
use rackweave_wire::fabric::exchange::{ErrorCode, FrameKind, StreamNumber};
use set_up::Worker;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

pub(super) use ends::{Inlet, Outlet};
pub(super) use set_up::{Joining, Membership};

/// The flow of a node's broadcasts.
#[derive(Default)]
pub(super) struct Broadcasts(Mutex<State>);

#[derive(Default)]
struct State {
    /// The number of flows so far. What belongs to an earlier one is void.
    generation: u64,
    /// Whether the latest one runs.
    is_running: bool,
    /// Its producing end, until the exchange's thread takes it.
    producer: Option<Producer>,
    /// What is to go into its ring.
    outgoing: VecDeque<Outgoing>,
    /// The thread that sets it up.
    worker: Option<Worker>,
    is_closed: bool,
}

/// A broadcast, and what is to be done when all up to it have been delivered.
struct Outgoing {
    broadcast: Option<Broadcast>,
    then: Vec<Consequence>,
}

/// What becomes of a stream.
#[derive(Clone, Copy)]
enum Then {
    /// It was the last broadcast.
    Ended,
    /// The stream continues alone.
    Resumed,
}

/// What becomes of a stream, by its connection and number.
type Consequence = (Then, Arc<Link>, StreamNumber);

impl Broadcasts {
    fn runs(&self, generation: u64) -> bool {
        let state = held(&self.0);
        state.is_running && state.generation == generation
    }

    /// Whether the exchange's thread has something to do.
    pub fn has_news(&self) -> bool {
        let state = held(&self.0);
        state.producer.is_some() || !state.outgoing.is_empty()
    }
}

/// Sends messages to the streams of several nodes at once. See [`Exchange::broadcast`]. One that is
/// dropped without [`Self::finish`] ends them with [`StreamError::Dropped`].
pub struct BroadcastSender {
    shared: Arc<Shared>,
    generation: u64,
    members: Vec<(u32, Handle)>,
    is_ended: bool,
}

impl Exchange {
    /// Broadcasts to streams of several nodes: takes those out of `streams` that can be sent to
    /// together, if there are at least two. What is left has to be sent to one by one: streams on
    /// which messages have been sent, a second stream of a node, and those of nodes that do not
    /// take this node's broadcasts yet. Such a node is asked to, so the next broadcast may reach
    /// it.
    pub fn broadcast(&self, streams: &mut Vec<StreamSender>) -> Option<BroadcastSender> {
        let shared = &self.0.shared;
        if !shared.options.broadcasts || streams.len() < 2 {
            return None;
        }
        let mut generation = None;
        let mut consumers: Vec<(usize, u32)> = Vec::new();
        for (at, stream) in streams.iter().enumerate() {
            let link = &stream.handle().link;
            let membership = *held(&link.membership);
            match membership {
                // A broadcast names a consumer once.
                Membership::Joined(found)
                    if *generation.get_or_insert(found.generation) == found.generation
                        && consumers.iter().all(|&(_, known)| known != found.consumer) =>
                {
                    consumers.push((at, found.consumer));
                }
                Membership::None => shared.set_up(link),
                _ => {}
            }
        }
        let generation = generation?;
        if consumers.len() < 2 {
            return None;
        }
        let mut members = Vec::new();
        // From the last on, so that positions stay right.
        for &(at, consumer) in consumers.iter().rev() {
            let stream = &streams[at];
            let Handle {
                link,
                stream: number,
                ..
            } = stream.handle();
            if link.multiplexer().join_broadcast(*number) {
                members.push((consumer, streams.remove(at).into_handle()));
            }
        }
        if members.is_empty() {
            return None;
        }
        members.reverse();
        let sender = BroadcastSender {
            shared: shared.clone(),
            generation,
            members,
            is_ended: false,
        };
        if !shared.broadcasts.runs(generation) {
            // It may have ended before these streams had joined.
            sender.lose();
        }
        Some(sender)
    }
}

impl BroadcastSender {
    /// The number of streams that it sends to.
    pub fn members(&self) -> usize {
        self.members.len()
    }

    /// Sends a message: waits until the window of every stream has space, and returns when it is
    /// queued here. Streams that their peers have cancelled, or whose peers are gone, are left out.
    ///
    /// # Errors
    /// If no stream is left, or the message is too long.
    pub async fn send(&mut self, message: impl Into<Vec<u8>>) -> Result<(), StreamError> {
        let mut message = Some(message.into());
        core::future::poll_fn(|context| self.poll_send(context, &mut message)).await
    }

    /// As [`Self::send`], but the thread waits.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub fn send_wait(&mut self, message: impl Into<Vec<u8>>) -> Result<(), StreamError> {
        let mut message = Some(message.into());
        let sent = super::wait_for(super::FOREVER, |context| {
            self.poll_send(context, &mut message)
        });
        sent.expect("there is no time limit")
    }

    /// As [`Self::send`], for the caller's own futures: takes the message out of `message` when it
    /// is accepted. Without a message, nothing happens.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        message: &mut Option<Vec<u8>>,
    ) -> Poll<Result<(), StreamError>> {
        let Some(bytes) = message.as_ref().map(|it| it.len() as u64) else {
            return Poll::Ready(Ok(()));
        };
        let max = self.shared.options.streams.message_max;
        if bytes > max {
            return Poll::Ready(Err(StreamError::TooLong { bytes, max }));
        }
        if let Poll::Ready(error) = self.poll_stopped(context) {
            return Poll::Ready(Err(error));
        }
        let has_credit = |(_, handle): &(u32, Handle)| {
            let mut multiplexer = handle.link.multiplexer();
            multiplexer.has_credit(handle.stream)
        };
        if !self.members.iter().all(has_credit) {
            return Poll::Pending;
        }
        for (_, handle) in &self.members {
            handle.link.multiplexer().use_credit(handle.stream, bytes);
        }
        let payload = message.take().expect("it is there");
        self.shared.counts.broadcast(bytes);
        self.queue(FrameKind::Data, payload, Vec::new());
        Poll::Ready(Ok(()))
    }

    /// Ready when no stream is left: their peers have cancelled them, or are gone. It returns the
    /// last one's reason.
    pub fn poll_stopped(&mut self, context: &mut Context<'_>) -> Poll<StreamError> {
        let mut reason = None;
        self.members.retain(|(_, handle)| {
            let mut multiplexer = handle.link.multiplexer();
            let stopped = multiplexer.stopped(handle.stream);
            match stopped {
                None => multiplexer.wake_sender(handle.stream, context.waker()),
                Some(_) => multiplexer.drop_sender(handle.stream),
            }
            drop(multiplexer);
            if stopped.is_some() {
                self.shared.wake();
                reason = stopped;
                return false;
            }
            true
        });
        match reason {
            Some(reason) if self.members.is_empty() => Poll::Ready(reason),
            None if self.members.is_empty() => {
                let peer = "every node".into();
                Poll::Ready(StreamError::Cancelled { peer })
            }
            _ => Poll::Pending,
        }
    }

    /// Takes the streams out whose windows have no space, if those of others have: so that nobody
    /// waits for a consumer that does not read. They have got every message that has been sent, and
    /// have to be sent the following ones one by one.
    pub fn take_blocked(&mut self) -> Vec<StreamSender> {
        let is_blocked = |(_, handle): &mut (u32, Handle)| {
            let mut multiplexer = handle.link.multiplexer();
            let stopped = multiplexer.stopped(handle.stream);
            stopped.is_none() && !multiplexer.has_credit(handle.stream)
        };
        let mut blocked: Vec<_> = self.members.extract_if(.., is_blocked).collect();
        if self.members.is_empty() {
            self.members = blocked;
            return Vec::new();
        }
        let mut then = Vec::new();
        for (_, handle) in &mut blocked {
            handle.link.multiplexer().leave_broadcast(handle.stream);
            then.push((Then::Resumed, handle.link.clone(), handle.stream));
        }
        if !then.is_empty() {
            self.hand_over(Outgoing {
                broadcast: None,
                then,
            });
        }
        let senders = blocked.into_iter();
        senders
            .map(|(_, handle)| StreamSender::from_handle(handle))
            .collect()
    }

    /// Declares that nothing follows.
    pub fn finish(mut self) {
        self.end(FrameKind::End, Vec::new());
    }

    /// Declares that nothing follows because of an error, which the peers get as
    /// [`StreamError::Failed`] after the messages that were sent before.
    pub fn fail(mut self, error: impl Into<Vec<u8>>) {
        self.end(
            FrameKind::Error,
            error_payload(ErrorCode::Failed, &error.into()),
        );
    }

    fn end(&mut self, kind: FrameKind, payload: Vec<u8>) {
        self.is_ended = true;
        self.members.retain(|(_, handle)| {
            let mut multiplexer = handle.link.multiplexer();
            multiplexer.finish_broadcast(handle.stream)
        });
        let ended = |(_, handle): &(u32, Handle)| (Then::Ended, handle.link.clone(), handle.stream);
        let then = self.members.iter().map(ended).collect();
        self.queue(kind, payload, then);
    }

    fn queue(&self, kind: FrameKind, payload: Vec<u8>, then: Vec<Consequence>) {
        let members = self.members.iter().map(|&(consumer, ref handle)| Member {
            consumer,
            stream: handle.stream,
        });
        let broadcast = Some(Broadcast::new(kind, members.collect(), payload));
        self.hand_over(Outgoing { broadcast, then });
    }

    fn hand_over(&self, outgoing: Outgoing) {
        let mut state = held(&self.shared.broadcasts.0);
        if state.is_running && state.generation == self.generation {
            state.outgoing.push_back(outgoing);
            drop(state);
            self.shared.wake();
            return;
        }
        drop(state);
        self.lose();
        let links = outgoing.then.iter().map(|(_, link, _)| link);
        links.for_each(|link| link.lose_broadcasts());
        self.shared.wake();
    }

    /// The flow is gone, and with it what was in it.
    fn lose(&self) {
        for (_, handle) in &self.members {
            handle.link.lose_broadcasts();
        }
    }
}

impl Drop for BroadcastSender {
    fn drop(&mut self) {
        if !self.is_ended {
            self.end(FrameKind::Error, error_payload(ErrorCode::Dropped, b""));
        }
    }
}

impl Shared {
    /// The flow of broadcasts was aborted.
    fn lose_broadcasts(&self, generation: u64) {
        let mut state = held(&self.broadcasts.0);
        if !state.is_running || state.generation != generation {
            return;
        }
        state.is_running = false;
        state.producer = None;
        state.outgoing.clear();
        drop(state);
        let links = held(&self.links).all.clone();
        for link in links {
            *held(&link.membership) = Membership::None;
            link.lose_broadcasts();
        }
        self.wake();
    }

    /// Nothing is broadcast any more. Returns the thread that sets up flows, if there is one.
    pub fn close_broadcasts(&self) -> Option<JoinHandle<()>> {
        let mut state = held(&self.broadcasts.0);
        state.is_closed = true;
        let (generation, worker) = (state.generation, state.worker.take());
        drop(state);
        self.lose_broadcasts(generation);
        worker.map(Worker::end)
    }
}

impl Link {
    fn lose_broadcasts(&self) {
        self.multiplexer().handle_broadcasts_lost();
        self.wake_tasks();
    }
}

impl core::fmt::Debug for BroadcastSender {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let streams = self.members.iter().map(|(_, handle)| handle);
        f.debug_list().entries(streams).finish()
    }
}

fn error_payload(code: ErrorCode, text: &[u8]) -> Vec<u8> {
    [&[code as u8][..], text].concat()
}
