//! One end of a connection over which messages are sent, and what its use costs a core.
//!
//! Every tag has a buffer to send from and a buffer to receive into at either end. As nobody uses a
//! tag again before its answer is there, no SEND ever finds no receive, and no buffer is written
//! while it is sent.

use super::ScaleStoreError;
use super::message::{BYTES_MAX, Envelope};
use rackweave_base::Qpn;
use rackweave_sim::world::Context;
use rackweave_sim::{Category, CpuModel};
use rackweave_verbs::{
    Completion, CompletionStatus, CqId, Operation, ReceiveRequest, Region, Verbs, WorkRequest,
};

/// Bytes of a message's buffer.
const BUFFER: u64 = 256;

/// What a completion is about, in the top byte of its id: a message has come.
pub const RECEIVED: u64 = 1 << 56;
/// A page was read from another node.
pub const READ: u64 = 2 << 56;
/// A page was written to another node.
pub const WRITTEN: u64 = 3 << 56;
/// A message was sent; only heard of if it was not.
const SENT: u64 = 4 << 56;

/// The top byte of a completion's id.
pub fn kind(id: u64) -> u64 {
    id & (0xff << 56)
}

/// What is below it: the number of a channel in the upper half, a slot in the lower.
pub fn parts(id: u64) -> (u32, u32) {
    ((id >> 32) as u32 & 0x00ff_ffff, id as u32)
}

/// What a step has cost so far.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Meter {
    /// Work requests posted, to a NIC or to a drive.
    pub posts: u64,
    /// Completions taken.
    pub completions: u64,
    /// Loads that hit the last level cache.
    pub looks: u64,
    /// Loads that miss every cache.
    pub misses: u64,
    /// Messages sent.
    pub messages: u64,
    /// Accesses done, each the work that the experiment says.
    pub accesses: u64,
}

impl Meter {
    /// Has the core of `context` spend what was metered, and `work` per access.
    pub fn charge(&self, context: &mut Context<'_>, work: rackweave_base::Duration) {
        let cpu: CpuModel = *context.cpu();
        let spent = cpu.post_cost * self.posts
            + cpu.poll_cost * self.completions
            + cpu.cache_latency * self.looks
            + cpu.memory_latency * self.misses;
        context.charge(Category::Communication, spent);
        context.charge(Category::Compute, work * self.accesses);
    }
}

/// Takes completions, all successful.
///
/// # Errors
/// If one is not.
pub fn poll(
    verbs: &mut dyn Verbs,
    cq: CqId,
    limit: usize,
    meter: &mut Meter,
) -> Result<Vec<Completion>, ScaleStoreError> {
    let mut completions = Vec::new();
    match verbs.poll_cq(cq, limit, &mut completions) {
        0 => meter.looks += 1,
        count => meter.completions += count as u64,
    }
    let failed = completions
        .iter()
        .find(|one| one.status != CompletionStatus::Success);
    match failed {
        Some(one) => Err(ScaleStoreError::Completion {
            qpn: one.qpn,
            status: one.status,
        }),
        None => Ok(completions),
    }
}

/// One end.
#[derive(Clone, Debug)]
pub struct Channel {
    /// The queue pair.
    pub qpn: Qpn,
    number: u32,
    region: Region,
    /// Where its buffers begin: to receive, then to send.
    base: u64,
    slots: u32,
}

impl Channel {
    /// Bytes of the buffers of a channel with so many slots.
    pub fn bytes(slots: u32) -> usize {
        2 * slots as usize * BUFFER as usize
    }

    /// A channel over `qpn` whose buffers begin at `base` of `region`. `number` is what its
    /// completions call it.
    pub fn new(qpn: Qpn, number: u32, region: &Region, base: u64, slots: u32) -> Self {
        Self {
            qpn,
            number,
            region: region.clone(),
            base,
            slots,
        }
    }

    /// Posts a receive for every slot.
    ///
    /// # Errors
    /// If the queue pair does not take them.
    pub fn open(&self, verbs: &mut dyn Verbs) -> Result<(), ScaleStoreError> {
        (0..self.slots).try_for_each(|slot| self.post(verbs, slot))
    }

    fn post(&self, verbs: &mut dyn Verbs, slot: u32) -> Result<(), ScaleStoreError> {
        let at = self.base + u64::from(slot) * BUFFER;
        let id = RECEIVED | u64::from(self.number) << 32 | u64::from(slot);
        let segment = self.region.segment(at, BUFFER as u32);
        verbs.post_receive(self.qpn, ReceiveRequest::new(id, &[segment]))?;
        Ok(())
    }

    /// Sends a message from the buffer of `slot`.
    ///
    /// # Errors
    /// If the queue pair does not take it.
    pub fn send(
        &self,
        verbs: &mut dyn Verbs,
        slot: u32,
        envelope: &Envelope,
        meter: &mut Meter,
    ) -> Result<(), ScaleStoreError> {
        let mut bytes = [0; BYTES_MAX];
        let len = envelope.write(&mut bytes);
        let at = self.base + u64::from(self.slots + slot) * BUFFER;
        self.region.block.write(at as usize, &bytes[..len]);
        let segment = self.region.segment(at, len as u32);
        let operation = Operation::Send { immediate: None };
        let mut request = WorkRequest::new(SENT, operation, &[segment]);
        request.signaled = false;
        verbs.post_send(self.qpn, request)?;
        meter.posts += 1;
        meter.messages += 1;
        Ok(())
    }

    /// Takes the message that has come into the buffer of a slot, and posts the buffer again.
    ///
    /// # Errors
    /// If it is none, or the queue pair does not take the buffer.
    pub fn receive(
        &self,
        verbs: &mut dyn Verbs,
        completion: &Completion,
        meter: &mut Meter,
    ) -> Result<Envelope, ScaleStoreError> {
        let (_, slot) = parts(completion.id);
        let mut bytes = [0; BYTES_MAX];
        let len = (completion.length as usize).min(BYTES_MAX);
        let at = self.base + u64::from(slot) * BUFFER;
        self.region.block.read(at as usize, &mut bytes[..len]);
        let envelope = Envelope::read(&bytes[..len])?;
        self.post(verbs, slot)?;
        meter.posts += 1;
        Ok(envelope)
    }
}
