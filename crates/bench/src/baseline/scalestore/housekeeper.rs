//! A compute node's housekeeper: a thread that makes free frames, has changed pages stored, and
//! obeys the owner's orders.

use super::ScaleStoreError;
use super::cache::{Cache, Chore};
use super::channel::{Channel, Meter, RECEIVED, WRITTEN, kind, parts, poll};
use super::message::{Envelope, Message, Place};
use super::worker::Remote;
use rackweave_verbs::{CqId, Operation, Verbs, WorkRequest};
use std::collections::VecDeque;

/// Requests to the owner under way at a time; their slots are below those of the orders.
pub const REQUESTS: u32 = 64;

/// Orders of the owner under way at a time.
pub const ORDERS: u32 = 64;

/// Completions taken in one step.
const POLL: usize = 8;

/// What a housekeeper is made of.
pub struct Housekeeper {
    cq: rackweave_verbs::CqId,
    channel: Channel,
    /// To the other nodes' frames, by their number.
    remotes: Vec<Option<Remote>>,
    free: Vec<u16>,
    /// The frame that each request is about, if it is about one.
    asked: Vec<Option<u32>>,
    /// The frame that each order has written elsewhere.
    pushed: Vec<u32>,
    /// Chores that wait for a free tag.
    waiting: VecDeque<(Option<u32>, Message)>,
}

impl Housekeeper {
    /// A housekeeper with nothing to do.
    pub fn new(cq: CqId, channel: Channel, remotes: Vec<Option<Remote>>) -> Self {
        Self {
            cq,
            channel,
            remotes,
            free: (0..REQUESTS as u16).rev().collect(),
            asked: vec![None; REQUESTS as usize],
            pushed: vec![0; ORDERS as usize],
            waiting: VecDeque::new(),
        }
    }

    /// Does what there is to do. True if anything happened.
    ///
    /// # Errors
    /// If a request fails or the owner does not keep to the protocol.
    pub fn step(
        &mut self,
        cache: &mut Cache,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<bool, ScaleStoreError> {
        let completions = poll(verbs, self.cq, POLL, meter)?;
        let mut happened = !completions.is_empty();
        for completion in &completions {
            match kind(completion.id) {
                RECEIVED => {
                    let envelope = self.channel.receive(verbs, completion, meter)?;
                    self.take(&envelope, cache)?;
                }
                WRITTEN => {
                    let tag = parts(completion.id).1 as u16;
                    cache.pushed(self.pushed[usize::from(tag)], tag);
                }
                _ => {}
            }
        }
        let looks = cache.evict();
        meter.looks += u64::from(looks);
        happened |= looks > 0;
        while let Some(chore) = cache.poll_chore() {
            happened = true;
            match chore {
                Chore::Push { frame, to, tag } => {
                    self.push(frame, to, tag, cache, verbs, meter)?;
                }
                Chore::Comply { tag, message } => {
                    let slot = REQUESTS + u32::from(tag);
                    let envelope = Envelope { tag, message };
                    self.channel.send(verbs, slot, &envelope, meter)?;
                }
                Chore::Tell { frame, message } => self.waiting.push_back((frame, message)),
            }
        }
        while let Some(&tag) = self.free.last()
            && let Some((frame, message)) = self.waiting.pop_front()
        {
            self.free.pop();
            self.asked[usize::from(tag)] = frame;
            let envelope = Envelope { tag, message };
            self.channel.send(verbs, u32::from(tag), &envelope, meter)?;
        }
        Ok(happened)
    }

    /// A message has come: an answer or an order.
    fn take(&mut self, envelope: &Envelope, cache: &mut Cache) -> Result<(), ScaleStoreError> {
        let Message::Done { written } = envelope.message else {
            return Ok(cache.handle_order(envelope.tag, &envelope.message)?);
        };
        let asked = self.asked.get_mut(usize::from(envelope.tag));
        if let Some(frame) = asked.ok_or(ScaleStoreError::NoPath)?.take() {
            cache.written_back(frame, written)?;
        }
        self.free.push(envelope.tag);
        Ok(())
    }

    fn push(
        &mut self,
        frame: u32,
        to: Place,
        tag: u16,
        cache: &Cache,
        verbs: &mut dyn Verbs,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let remote = self.remotes.get(usize::from(to.node)).copied().flatten();
        let remote = remote.ok_or(ScaleStoreError::NoPath)?;
        let operation = Operation::Write {
            address: remote.address + cache.bytes().offset(to.frame) + super::frames::HEADER,
            rkey: remote.rkey,
            immediate: None,
        };
        let pushed = self.pushed.get_mut(usize::from(tag));
        *pushed.ok_or(ScaleStoreError::NoPath)? = frame;
        let id = WRITTEN | u64::from(tag);
        let request = WorkRequest::new(id, operation, &[cache.bytes().segment(frame)]);
        verbs.post_send(remote.qpn, request)?;
        meter.posts += 1;
        Ok(())
    }
}
