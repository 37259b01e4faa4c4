//! The ends of streams that programs have.

use super::link::Link;
use super::{FOREVER, Shared};
use core::future::poll_fn;
use core::task::{Context, Poll, Waker};
use rackweave_endpoint::exchange::{NotSent, Received, StreamError};
use rackweave_wire::fabric::exchange::StreamNumber;
use std::sync::Arc;
use std::task::Wake;
use std::thread::Thread;
use std::time::{Duration, Instant};

/// A stream that another node has opened.
#[derive(Debug)]
pub struct Incoming {
    /// The node that opened it.
    pub peer: Arc<str>,
    /// Its request.
    pub request: Vec<u8>,
    /// Sends messages to it.
    pub sender: StreamSender,
    /// Receives messages from it.
    pub receiver: StreamReceiver,
}

/// An end of a stream.
pub(super) struct Handle {
    shared: Arc<Shared>,
    pub link: Arc<Link>,
    pub stream: StreamNumber,
}

/// Sends the messages of a stream to the peer. One that is dropped without [`Self::finish`] ends
/// them with [`StreamError::Dropped`].
#[derive(Debug)]
pub struct StreamSender(Option<Handle>);

/// Receives the messages of a stream from the peer. Dropping it cancels them: the peer's sends end
/// with [`StreamError::Cancelled`].
#[derive(Debug)]
pub struct StreamReceiver(Handle);

pub(super) fn pair(
    shared: &Arc<Shared>,
    link: &Arc<Link>,
    stream: StreamNumber,
) -> (StreamSender, StreamReceiver) {
    let handle = || Handle {
        shared: shared.clone(),
        link: link.clone(),
        stream,
    };
    (StreamSender(Some(handle())), StreamReceiver(handle()))
}

impl StreamSender {
    pub(super) fn from_handle(handle: Handle) -> Self {
        Self(Some(handle))
    }

    /// Its handle, without an end of the stream.
    pub(super) fn into_handle(mut self) -> Handle {
        self.0.take().expect("it has not been finished")
    }

    pub(super) fn handle(&self) -> &Handle {
        self.0.as_ref().expect("it has not been finished")
    }

    /// Sends a message: waits until the peer's window has space, and returns when it is queued
    /// here.
    ///
    /// # Errors
    /// If the peer has cancelled the stream or is gone, or the message is too long.
    pub async fn send(&mut self, message: impl Into<Vec<u8>>) -> Result<(), StreamError> {
        let mut message = Some(message.into());
        poll_fn(|context| self.poll_send(context, &mut message)).await
    }

    /// As [`Self::send`], but the thread waits.
    ///
    /// # Errors
    /// As for [`Self::send`].
    pub fn send_wait(&mut self, message: impl Into<Vec<u8>>) -> Result<(), StreamError> {
        let mut message = Some(message.into());
        wait_for(FOREVER, |context| self.poll_send(context, &mut message))
            .expect("there is no time limit")
    }

    /// As [`Self::send`], for the caller's own futures: takes the message out of `message` when it
    /// is accepted. Without a message, nothing happens.
    ///
    /// # Errors
    /// As for [`Self::send`].
    ///
    /// # Panics
    /// If the stream has been finished.
    pub fn poll_send(
        &mut self,
        context: &mut Context<'_>,
        message: &mut Option<Vec<u8>>,
    ) -> Poll<Result<(), StreamError>> {
        let handle = self.0.as_ref().expect("it has not been finished");
        let Some(bytes) = message.take() else {
            return Poll::Ready(Ok(()));
        };
        let mut multiplexer = handle.link.multiplexer();
        match multiplexer.try_send(handle.stream, bytes) {
            Ok(()) => {
                drop(multiplexer);
                handle.shared.wake();
                Poll::Ready(Ok(()))
            }
            Err(NotSent::Ended(error)) => Poll::Ready(Err(error)),
            Err(NotSent::Full(bytes)) => {
                *message = Some(bytes);
                multiplexer.wake_sender(handle.stream, context.waker());
                Poll::Pending
            }
        }
    }

    /// Ready when the peer wants no more messages, or is gone: a program that computes messages
    /// for long can stop then.
    pub fn poll_stopped(&mut self, context: &mut Context<'_>) -> Poll<StreamError> {
        let handle = self.0.as_ref().expect("it has not been finished");
        let mut multiplexer = handle.link.multiplexer();
        match multiplexer.stopped(handle.stream) {
            Some(error) => Poll::Ready(error),
            None => {
                multiplexer.wake_sender(handle.stream, context.waker());
                Poll::Pending
            }
        }
    }

    /// Declares that nothing follows.
    pub fn finish(mut self) {
        if let Some(handle) = self.0.take() {
            handle.link.multiplexer().finish(handle.stream);
            handle.shared.wake();
        }
    }

    /// Declares that nothing follows because of an error, which the peer gets as
    /// [`StreamError::Failed`] after the messages that were sent before.
    pub fn fail(mut self, error: impl Into<Vec<u8>>) {
        if let Some(handle) = self.0.take() {
            handle.link.multiplexer().fail(handle.stream, error.into());
            handle.shared.wake();
        }
    }
}

impl StreamReceiver {
    /// The next message; `None`: the sender has finished.
    ///
    /// # Errors
    /// If the sender failed or is gone.
    pub async fn next(&mut self) -> Option<Result<Vec<u8>, StreamError>> {
        poll_fn(|context| self.poll_next(context)).await
    }

    /// As [`Self::next`], but the thread waits.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn next_wait(&mut self) -> Option<Result<Vec<u8>, StreamError>> {
        wait_for(FOREVER, |context| self.poll_next(context)).expect("there is no time limit")
    }

    /// As [`Self::next`], for the caller's own futures.
    ///
    /// # Errors
    /// As for [`Self::next`].
    pub fn poll_next(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Vec<u8>, StreamError>>> {
        let Handle {
            shared,
            link,
            stream,
        } = &self.0;
        let mut multiplexer = link.multiplexer();
        Poll::Ready(match multiplexer.receive(*stream) {
            Received::Message(message) => {
                let has_frame = multiplexer.has_frame();
                drop(multiplexer);
                if has_frame {
                    shared.wake();
                }
                Some(Ok(message))
            }
            Received::Finished => None,
            Received::Ended(error) => Some(Err(error)),
            Received::Empty => {
                multiplexer.wake_receiver(*stream, context.waker());
                return Poll::Pending;
            }
        })
    }
}

impl Drop for StreamSender {
    fn drop(&mut self) {
        if let Some(handle) = self.0.take() {
            handle.link.multiplexer().drop_sender(handle.stream);
            handle.shared.wake();
        }
    }
}

impl Drop for StreamReceiver {
    fn drop(&mut self) {
        self.0.link.multiplexer().drop_receiver(self.0.stream);
        self.0.shared.wake();
    }
}

impl core::fmt::Debug for Handle {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let peer = self.link.multiplexer().peer().clone();
        f.debug_struct("Stream")
            .field("peer", &peer)
            .field("number", &self.stream)
            .finish()
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Polls until there is a result, and parks the thread in between; `None` if `limit` expires first.
pub fn wait_for<T>(
    limit: Duration,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let deadline = Instant::now().checked_add(limit);
    loop {
        if let Poll::Ready(value) = poll(&mut context) {
            return Some(value);
        }
        match deadline {
            None => std::thread::park(),
            Some(deadline) => {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                std::thread::park_timeout(left);
            }
        }
    }
}
