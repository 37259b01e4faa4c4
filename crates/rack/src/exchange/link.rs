//! The streams of a connection, for all threads.

use super::broadcast::Membership;
use super::held;
use core::task::Waker;
use rackweave_endpoint::exchange::{Frame, Multiplexer, StreamConfig};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};

/// The streams of a connection.
pub(super) struct Link {
    multiplexer: Mutex<Multiplexer>,
    /// Whether this node dialed.
    pub dialed: bool,
    /// Frames of the connection itself.
    control: Mutex<VecDeque<Frame>>,
    /// Whether the peer takes this node's broadcasts.
    pub membership: Mutex<Membership>,
}

impl Link {
    pub fn dialing(peer: &str, config: StreamConfig) -> Self {
        Self::new(Multiplexer::dialing(peer.into(), config), true)
    }

    pub fn accepting(peer: &str, config: StreamConfig) -> Self {
        Self::new(Multiplexer::accepting(peer.into(), config), false)
    }

    fn new(multiplexer: Multiplexer, dialed: bool) -> Self {
        Self {
            multiplexer: Mutex::new(multiplexer),
            dialed,
            control: Mutex::default(),
            membership: Mutex::default(),
        }
    }

    /// Queues a frame of the connection itself.
    pub fn send_control(&self, frame: Frame) {
        held(&self.control).push_back(frame);
    }

    /// The next frame to send.
    pub fn poll_frame(&self) -> Option<Frame> {
        let control = held(&self.control).pop_front();
        control.or_else(|| self.multiplexer().poll_frame())
    }

    /// Whether there is one.
    pub fn has_frame(&self) -> bool {
        self.multiplexer().has_frame() || !held(&self.control).is_empty()
    }

    pub fn multiplexer(&self) -> MutexGuard<'_, Multiplexer> {
        held(&self.multiplexer)
    }

    /// Ends all streams.
    pub fn end(&self, why: &str) {
        self.multiplexer().handle_gone(why);
        self.wake_tasks();
    }

    /// Wakes the tasks that something has happened for. Without the lock: they may run at once.
    pub fn wake_tasks(&self) {
        let wakes = self.multiplexer().take_wakes();
        wakes.into_iter().for_each(Waker::wake);
    }
}
