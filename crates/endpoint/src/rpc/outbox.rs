//! Outgoing messages of one connection. Calls are added to the newest waiting message; messages
//! wait for a send buffer.

use super::config::Sizes;
use super::names::Connection;
use rackweave_base::Qpn;
use rackweave_verbs::{Operation, PostError, Region, Verbs, WorkRequest};
use rackweave_wire::fabric::rpc::{
    CALL_HEADER_LEN, CallHeader, CallId, MESSAGE_HEADER_LEN, MessageHeader, MessageKind, Status,
};
use std::collections::VecDeque;

/// A waiting message.
#[derive(Debug)]
struct Staged {
    kind: MessageKind,
    count: u16,
    /// Whether it is sent even if it has no calls.
    is_probe: bool,
    bytes: Vec<u8>,
}

/// The result of a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Flushed {
    pub messages: u64,
    pub inline: u64,
    pub doorbells: u64,
}

/// Waiting messages, and the ring of buffers of sent messages.
#[derive(Debug)]
pub(super) struct Outbox {
    region: Region,
    base: u64,
    sizes: Sizes,
    kind: MessageKind,
    waiting: VecDeque<Staged>,
    /// Memory of sent messages, for reuse.
    spare: Vec<Vec<u8>>,
    /// Messages sent, and how many of them are known to have arrived; modulo 2^32.
    sent: u32,
    arrived: u32,
    next_buffer: u32,
    /// Every n-th message requests a completion.
    signal_every: u32,
    requests: Vec<WorkRequest>,
}

impl Outbox {
    /// An outbox for messages of `kind`, sent from the buffers that begin at `base`.
    pub fn new(region: &Region, base: u64, sizes: &Sizes, kind: MessageKind) -> Self {
        let buffers = u32::from(sizes.send_buffers);
        Self {
            region: region.clone(),
            base,
            sizes: *sizes,
            kind,
            waiting: VecDeque::new(),
            spare: Vec::new(),
            sent: 0,
            arrived: 0,
            next_buffer: 0,
            signal_every: (buffers / 4).max(1),
            requests: Vec::with_capacity(buffers as usize),
        }
    }

    /// Whether messages wait.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether more messages wait than there are buffers.
    pub fn is_congested(&self) -> bool {
        self.waiting.len() > usize::from(self.sizes.send_buffers)
    }

    /// Messages that have been given a buffer so far, modulo 2^32.
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Whether a send buffer is free.
    pub fn has_buffer(&self) -> bool {
        self.free_buffers() > 0
    }

    fn free_buffers(&self) -> u32 {
        u32::from(self.sizes.send_buffers) - self.sent.wrapping_sub(self.arrived)
    }

    /// Appends a message without calls, unless a message waits already.
    pub fn stage_empty(&mut self) {
        if self.waiting.is_empty() {
            self.stage(self.kind);
            self.newest().is_probe = true;
        }
    }

    /// Puts a message without calls before all others.
    pub fn stage_empty_first(&mut self) {
        let mut staged = self.blank(self.kind);
        staged.is_probe = true;
        self.waiting.push_front(staged);
    }

    /// Appends a message that says why a message was refused.
    pub fn stage_refusal(&mut self, status: Status) {
        self.stage(MessageKind::Refusal);
        let header = CallHeader {
            id: CallId::NONE,
            code: status.0,
            length: 0,
        };
        let staged = self.newest();
        staged.bytes.extend_from_slice(&header.emit());
        staged.count = 1;
    }

    fn stage(&mut self, kind: MessageKind) {
        let staged = self.blank(kind);
        self.waiting.push_back(staged);
    }

    fn blank(&mut self, kind: MessageKind) -> Staged {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        // Filled in when the message is sent.
        bytes.resize(MESSAGE_HEADER_LEN, 0);
        Staged {
            kind,
            count: 0,
            is_probe: false,
            bytes,
        }
    }

    fn newest(&mut self) -> &mut Staged {
        self.waiting.back_mut().expect("a message was staged")
    }

    /// Begins a call of about `length` bytes in the newest message, or in a new one. The caller
    /// appends the call's content to the returned buffer, then calls [`Self::end_call`] with the
    /// buffer's length before that content.
    pub fn begin_call(&mut self, length: usize) -> &mut Vec<u8> {
        let limit = self.sizes.batch_bytes as usize;
        let joins = self.waiting.back().is_some_and(|newest| {
            newest.kind == self.kind
                && newest.count < u16::MAX
                && newest.bytes.len() + CALL_HEADER_LEN + length <= limit
        });
        if !joins {
            self.stage(self.kind);
        }
        let bytes = &mut self.newest().bytes;
        bytes.extend_from_slice(&[0; CALL_HEADER_LEN]);
        bytes
    }

    /// Ends the call whose content begins at `start`.
    pub fn end_call(&mut self, start: usize, id: CallId, code: u16) {
        let limit = self.sizes.batch_bytes as usize;
        let staged = self.newest();
        let length = staged.bytes.len() - start;
        let header = CallHeader {
            id,
            code,
            length: u16::try_from(length).expect("payload_max has 16 bits"),
        };
        let header_at = start - CALL_HEADER_LEN;
        staged.bytes[header_at..start].copy_from_slice(&header.emit());
        if staged.count == 0 || staged.bytes.len() <= limit {
            staged.count += 1;
            return;
        }
        // The message has become too long, so this call gets its own.
        let mut alone = self.blank(self.kind);
        let before = self.newest();
        alone.bytes.extend_from_slice(&before.bytes[header_at..]);
        alone.count = 1;
        before.bytes.truncate(header_at);
        self.waiting.push_back(alone);
    }

    /// Removes the call whose content begins at `start`, which was begun last.
    pub fn abandon_call(&mut self, start: usize) {
        let staged = self.newest();
        staged.bytes.truncate(start - CALL_HEADER_LEN);
        let is_blank = staged.count == 0 && !staged.is_probe;
        if is_blank && let Some(blank) = self.waiting.pop_back() {
            // The receiver has no buffer for a message that replies to nothing.
            self.spare.push(blank.bytes);
        }
    }

    /// Posts waiting messages with one doorbell, limited by the free buffers and by `allowed`.
    ///
    /// # Errors
    /// If the queue pair does not accept them. Messages that were not accepted are lost.
    pub fn flush(
        &mut self,
        verbs: &mut dyn Verbs,
        qpn: Qpn,
        connection: Connection,
        (grant, incarnation): (u16, u64),
        allowed: u32,
    ) -> Result<Flushed, PostError> {
        let buffers = u32::from(self.sizes.send_buffers);
        let count = allowed
            .min(self.free_buffers())
            .min(self.waiting.len() as u32);
        let mut flushed = Flushed::default();
        if count == 0 {
            return Ok(flushed);
        }
        self.requests.clear();
        for mut staged in self.waiting.drain(..count as usize) {
            let header = MessageHeader {
                kind: staged.kind,
                count: staged.count,
                grant,
                incarnation,
            };
            staged.bytes[..MESSAGE_HEADER_LEN].copy_from_slice(&header.emit());
            let buffer = self.next_buffer;
            self.next_buffer = (buffer + 1) % buffers;
            let offset = self.base + u64::from(buffer) * u64::from(self.sizes.stride);
            self.region.block.write(offset as usize, &staged.bytes);
            let length = staged.bytes.len() as u32;
            let mut request = WorkRequest::new(
                connection.sent(self.sent),
                Operation::Send { immediate: None },
                &[self.region.segment(offset, length)],
            );
            self.sent = self.sent.wrapping_add(1);
            request.signaled = self.sent.is_multiple_of(self.signal_every);
            self.requests.push(request);
            flushed.messages += 1;
            flushed.inline += u64::from(length <= self.sizes.inline_bytes);
            self.spare.push(staged.bytes);
        }
        flushed.doorbells = 1;
        match verbs.post_sends(qpn, &self.requests) {
            Ok(()) => Ok(flushed),
            Err((_, error)) => Err(error),
        }
    }

    /// Handles the arrival of the messages up to `number`.
    pub fn arrived(&mut self, number: u32) {
        let count = number.wrapping_add(1).wrapping_sub(self.arrived);
        // Completions arrive in order, so the number cannot decrease; it cannot exceed what was
        // sent.
        debug_assert!(count <= self.sent.wrapping_sub(self.arrived));
        self.arrived = self.arrived.wrapping_add(count);
    }

    /// Drops all waiting messages.
    pub fn clear(&mut self) {
        self.waiting.clear();
    }
}
