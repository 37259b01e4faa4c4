//! One node's side of a connection with streams.

mod broadcast;
mod frames;
mod stream;

use super::budget::Budget;
use super::config::StreamConfig;
use super::direction::{Ending, Receiving};
use super::error::{Misbehaviour, StreamError};
use core::task::Waker;
use rackweave_wire::fabric::exchange::{ErrorCode, STREAM_NUMBER_MAX, StreamNumber};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use stream::Stream;

/// The streams of a connection, at one of its nodes.
#[derive(Debug)]
pub struct Multiplexer {
    config: StreamConfig,
    peer: Arc<str>,
    /// Whether this node dialed, and so opens the streams.
    dialed: bool,
    streams: HashMap<StreamNumber, Stream>,
    /// The number to be tried next.
    next: u32,
    /// Streams with a frame to send, each once.
    ready: VecDeque<StreamNumber>,
    /// Streams that the peer has opened and nobody has accepted.
    incoming: VecDeque<(StreamNumber, Vec<u8>)>,
    /// Tasks to be woken.
    wakes: Vec<Waker>,
    /// Why the connection ended.
    gone: Option<StreamError>,
}

/// A frame to send to the peer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The message's opcode.
    pub opcode: u32,
    /// The message.
    pub payload: Vec<u8>,
}

/// What is to be done with the bytes of a frame that begins to arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disposition {
    /// Collect them for [`Multiplexer::handle_frame`].
    Keep,
    /// Drop them: nobody wants the message.
    Discard,
}

/// What a direction has received.
#[derive(Debug)]
pub enum Received {
    /// The oldest message.
    Message(Vec<u8>),
    /// Nothing at present.
    Empty,
    /// The sender has finished.
    Finished,
    /// Nothing more arrives, because of an error.
    Ended(StreamError),
}

/// Why a message was not accepted.
#[derive(Debug)]
pub enum NotSent {
    /// There is no credit; the message comes back.
    Full(Vec<u8>),
    /// It can't be sent.
    Ended(StreamError),
}

/// Why a stream can't be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The request is too long.
    #[error("a request of {bytes} bytes; at most {max} are allowed (request_max)")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// There are too many streams.
    #[error("{max} streams to {peer} are open (streams_max)")]
    TooMany {
        /// The node.
        peer: Arc<str>,
        /// The limit.
        max: usize,
    },
}

impl Multiplexer {
    /// The side of a connection that this node dialed; it opens the streams.
    pub fn dialing(peer: Arc<str>, config: StreamConfig) -> Self {
        Self::new(peer, true, config)
    }

    /// The side of a connection that the peer dialed.
    pub fn accepting(peer: Arc<str>, config: StreamConfig) -> Self {
        Self::new(peer, false, config)
    }

    fn new(peer: Arc<str>, dialed: bool, config: StreamConfig) -> Self {
        Self {
            config,
            peer,
            dialed,
            streams: HashMap::new(),
            next: 0,
            ready: VecDeque::new(),
            incoming: VecDeque::new(),
            wakes: Vec::new(),
            gone: None,
        }
    }

    /// The peer's name.
    pub fn peer(&self) -> &Arc<str> {
        &self.peer
    }

    /// The number of streams that are not over.
    pub fn streams(&self) -> usize {
        self.streams.len()
    }

    /// Bytes of messages that have arrived, whole or in part, and that nobody has taken.
    pub fn bytes_waiting(&self) -> u64 {
        let streams = self.streams.values();
        streams.map(|stream| stream.receiving.bytes()).sum()
    }

    /// Bytes of messages that have been accepted for sending and were not handed out as a frame.
    pub fn bytes_queued(&self) -> u64 {
        let streams = self.streams.values();
        streams.map(|stream| stream.sending.bytes()).sum()
    }

    /// Opens a stream with a request. Its messages from the peer count against `budget`. If the
    /// connection has ended, so has the stream.
    ///
    /// # Errors
    /// If the request is too long, or too many streams are open.
    ///
    /// # Panics
    /// If the peer dialed.
    pub fn open(&mut self, request: Vec<u8>, budget: &Budget) -> Result<StreamNumber, OpenError> {
        assert!(self.dialed, "the node that dialed opens the streams");
        let (bytes, max) = (request.len() as u64, self.config.request_max);
        if bytes > max {
            return Err(OpenError::TooLong { bytes, max });
        }
        let max = self.config.streams_max;
        if self.streams.len() >= max {
            let peer = self.peer.clone();
            return Err(OpenError::TooMany { peer, max });
        }
        let number = loop {
            let number = StreamNumber::new(self.next).expect("it is kept below the maximum");
            self.next = (self.next + 1) & STREAM_NUMBER_MAX;
            if !self.streams.contains_key(&number) {
                break number;
            }
        };
        self.add(number, Some(request), budget);
        if let Some(gone) = self.gone.clone() {
            self.stream(number).end(&gone);
        }
        self.mark(number);
        Ok(number)
    }

    fn add(&mut self, number: StreamNumber, request: Option<Vec<u8>>, budget: &Budget) {
        let receiving = Receiving::new(self.config.window_min, budget.clone());
        let stream = Stream::new(request, receiving);
        self.streams.insert(number, stream);
    }

    /// Accepts the oldest stream that the peer has opened: its number and request.
    pub fn accept(&mut self) -> Option<(StreamNumber, Vec<u8>)> {
        let (number, request) = self.incoming.pop_front()?;
        if let Some(stream) = self.streams.get_mut(&number) {
            stream.receiving.owes_credit = true;
        }
        self.mark(number);
        Some((number, request))
    }

    /// Accepts a message if there is credit for it.
    ///
    /// # Errors
    /// If there is no credit, the message is too long, or the peer does not want it.
    pub fn try_send(&mut self, number: StreamNumber, message: Vec<u8>) -> Result<(), NotSent> {
        let (bytes, max) = (message.len() as u64, self.config.message_max);
        if bytes > max {
            return Err(NotSent::Ended(StreamError::TooLong { bytes, max }));
        }
        let sending = &mut self.stream(number).sending;
        if let Some(stopped) = &sending.stopped {
            return Err(NotSent::Ended(stopped.clone()));
        }
        if sending.credit <= 0 {
            return Err(NotSent::Full(message));
        }
        sending.credit -= bytes as i64;
        sending.has_sent = true;
        sending.queue.push_back(message);
        self.mark(number);
        Ok(())
    }

    /// Why messages are no longer accepted, if they are not.
    pub fn stopped(&mut self, number: StreamNumber) -> Option<StreamError> {
        self.stream(number).sending.stopped.clone()
    }

    /// Has a task woken when [`Self::try_send`] may have another result.
    pub fn wake_sender(&mut self, number: StreamNumber, waker: &Waker) {
        self.stream(number).sending.waker = Some(waker.clone());
    }

    /// Declares that no message follows. The number must not be used for sending afterwards.
    pub fn finish(&mut self, number: StreamNumber) {
        self.end_sending(number, Ending::Finished);
    }

    /// Declares that no message follows because of an error, which the peer gets as
    /// [`StreamError::Failed`]. Messages sent before arrive. The number must not be used for
    /// sending afterwards.
    pub fn fail(&mut self, number: StreamNumber, text: Vec<u8>) {
        self.end_sending(number, Ending::Error(ErrorCode::Failed, text));
    }

    /// The sender has been dropped without finishing.
    pub fn drop_sender(&mut self, number: StreamNumber) {
        self.end_sending(number, Ending::Error(ErrorCode::Dropped, Vec::new()));
    }

    fn end_sending(&mut self, number: StreamNumber, ending: Ending) {
        let stream = self.stream(number);
        stream.has_sender = false;
        stream.sending.ending.get_or_insert(ending);
        self.mark(number);
        self.remove_if_over(number);
    }

    /// Takes the oldest message of the direction from the peer.
    pub fn receive(&mut self, number: StreamNumber) -> Received {
        let window_max = self.config.window_max;
        let receiving = &mut self.stream(number).receiving;
        if let Some(message) = receiving.take(window_max) {
            self.mark(number);
            return Received::Message(message);
        }
        match &receiving.end {
            None => Received::Empty,
            Some(Ok(())) => Received::Finished,
            Some(Err(error)) => Received::Ended(error.clone()),
        }
    }

    /// Has a task woken when [`Self::receive`] may have another result.
    pub fn wake_receiver(&mut self, number: StreamNumber, waker: &Waker) {
        self.stream(number).receiving.waker = Some(waker.clone());
    }

    /// Nobody takes messages any more: the peer is notified if it may send more. The number must
    /// not be used for receiving afterwards.
    pub fn drop_receiver(&mut self, number: StreamNumber) {
        let stream = self.stream(number);
        stream.has_receiver = false;
        stream.receiving.give_up();
        self.mark(number);
        self.remove_if_over(number);
    }

    /// Ends all streams: the connection is gone.
    pub fn handle_gone(&mut self, why: &str) {
        let (peer, why) = (self.peer.clone(), why.into());
        let error = self.gone.get_or_insert(StreamError::Gone { peer, why });
        // Nobody holds the ends of those that were not accepted.
        for (number, _) in self.incoming.drain(..) {
            self.streams.remove(&number);
        }
        for stream in self.streams.values_mut() {
            self.wakes.extend(stream.end(error).into_iter().flatten());
        }
        self.ready.clear();
        self.streams
            .retain(|_, stream| stream.has_sender || stream.has_receiver);
    }

    /// Why the connection ended.
    pub fn gone(&self) -> Option<&StreamError> {
        self.gone.as_ref()
    }

    /// Whether [`Self::poll_frame`] returns a frame.
    pub fn has_frame(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The tasks that something has happened for.
    pub fn take_wakes(&mut self) -> Vec<Waker> {
        core::mem::take(&mut self.wakes)
    }

    fn stream(&mut self, number: StreamNumber) -> &mut Stream {
        let stream = self.streams.get_mut(&number);
        stream.expect("a stream exists as long as somebody holds an end of it")
    }

    /// Queues a stream if it has a frame to send.
    fn mark(&mut self, number: StreamNumber) {
        if let Some(stream) = self.streams.get_mut(&number)
            && !stream.is_ready
            && stream.has_frame()
        {
            stream.is_ready = true;
            self.ready.push_back(number);
        }
    }

    fn remove_if_over(&mut self, number: StreamNumber) {
        if self.streams.get(&number).is_some_and(Stream::is_over) {
            self.streams.remove(&number);
        }
    }
}
