//! The receive buffers of one connection.

use super::config::Sizes;
use super::names::Connection;
use rackweave_base::Qpn;
use rackweave_verbs::{PostError, ReceiveRequest, Region, Verbs};

/// Receive buffers; each is posted or has just been read.
#[derive(Debug)]
pub(super) struct Inbox {
    region: Region,
    base: u64,
    stride: u32,
    message_max: u32,
    count: u32,
}

impl Inbox {
    /// The buffers of a connection whose buffers all begin at `base`.
    pub fn new(region: &Region, base: u64, sizes: &Sizes) -> Self {
        Self {
            region: region.clone(),
            base: base + sizes.receives_at(),
            stride: sizes.stride,
            message_max: sizes.message_max,
            count: sizes.receives.into(),
        }
    }

    fn offset(&self, buffer: u32) -> u64 {
        debug_assert!(buffer < self.count);
        self.base + u64::from(buffer) * u64::from(self.stride)
    }

    /// Posts all buffers.
    pub fn open(
        &self,
        verbs: &mut dyn Verbs,
        qpn: Qpn,
        connection: Connection,
    ) -> Result<(), PostError> {
        (0..self.count).try_for_each(|buffer| self.post(verbs, qpn, connection, buffer))
    }

    /// Posts a buffer that has been read.
    pub fn post(
        &self,
        verbs: &mut dyn Verbs,
        qpn: Qpn,
        connection: Connection,
        buffer: u32,
    ) -> Result<(), PostError> {
        let segment = self.region.segment(self.offset(buffer), self.message_max);
        let receive = ReceiveRequest::new(connection.received(buffer), &[segment]);
        verbs.post_receive(qpn, receive)
    }

    /// Appends the content of a buffer to `bytes`.
    pub fn read(&self, buffer: u32, length: u32, bytes: &mut Vec<u8>) {
        let length = length.min(self.message_max) as usize;
        let start = bytes.len();
        bytes.resize(start + length, 0);
        let at = self.offset(buffer) as usize;
        self.region.block.read(at, &mut bytes[start..]);
    }
}
