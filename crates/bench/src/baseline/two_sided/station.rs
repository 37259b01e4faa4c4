//! Edges between nodes: a queue pair, receive buffers at the one end, credit at the other.
//!
//! A receiver has [`WINDOW`] receive requests posted per edge. It tells the sender how many it has
//! posted again by WRITEs of a counter, so that no SEND ever finds none.

use crate::baseline::ends::Failure;
use crate::baseline::requests::{Remote, post, post_receive};
use crate::baseline::set_up::{self, SetUpError};
use core::sync::atomic::Ordering;
use rackweave_base::{NodeId, Qpn};
use rackweave_rack::SimulatedRack;
use rackweave_sim::world::Context;
use rackweave_verbs::{Operation, ReceiveRequest, Region, Verbs, WorkRequest};

/// Messages that may be under way on an edge.
pub const WINDOW: u64 = 64;

/// Receives posted again between two updates of the credit.
const CREDIT_EVERY: u64 = WINDOW / 4;

/// Bytes kept for counters at the beginning of a station's region.
const WORDS: u64 = 4096;

/// What a completion is about, in the upper half of its id; the lower half is a slot.
pub const SENT: u64 = 1 << 32;
pub const FETCHED: u64 = 2 << 32;
pub const CREDITED: u64 = 3 << 32;
/// Plus the number of the inlet.
pub const RECEIVED: u64 = 4 << 32;

/// Completions that wait to be taken at most.
const COMPLETIONS: u32 = 4096;

/// A node's part, with its memory divided into counters and buffers.
pub struct Station {
    pub base: set_up::Station,
    message: u64,
    words: u64,
    buffers: u64,
}

impl Station {
    /// A station with room for `buffers` messages, and for counters.
    pub fn new(
        rack: &mut SimulatedRack,
        node: NodeId,
        message: u32,
        buffers: u64,
    ) -> Result<Self, SetUpError> {
        let message = u64::from(message);
        let bytes = (WORDS + buffers * message) as usize;
        Ok(Self {
            base: set_up::Station::new(rack, node, bytes, COMPLETIONS)?,
            message,
            words: 0,
            buffers: 0,
        })
    }

    /// The offset of a counter that nobody has yet.
    pub fn word(&mut self) -> u64 {
        self.words += 8;
        assert!(
            self.words <= WORDS,
            "more counters than a station has room for"
        );
        self.words - 8
    }

    /// The offset of `count` buffers that nobody has yet.
    pub fn buffers(&mut self, count: u64) -> u64 {
        self.buffers += count;
        WORDS + (self.buffers - count) * self.message
    }
}

/// Connects a queue pair of `a` with one of `b`.
pub fn connect(
    rack: &mut SimulatedRack,
    a: &Station,
    b: &Station,
) -> Result<(Qpn, Qpn), SetUpError> {
    let room = (2 * WINDOW as u32, WINDOW as u32);
    set_up::connect_two_sided(rack, &a.base, &b.base, room)
}

/// The sending end of an edge.
pub struct Outlet {
    qpn: Qpn,
    region: Region,
    /// Where the receiver writes how many receives it has posted again.
    credit: u64,
    message: u32,
    sent: u64,
}

/// The receiving end of an edge.
pub struct Inlet {
    region: Region,
    index: u64,
    /// Where its buffers begin.
    buffers: u64,
    message: u32,
    /// Receives posted again, and how many of them the sender was told of.
    freed: u64,
    told: u64,
    /// From where the counter is written, and where to in the sender's memory.
    counter: u64,
    credit: u64,
    sender: Remote,
}

/// An edge from `from` to `to`, whose receives are posted. `index` is the inlet's number there.
pub fn edge(
    rack: &mut SimulatedRack,
    from: &mut Station,
    to: &mut Station,
    index: usize,
) -> Result<(Outlet, Inlet), SetUpError> {
    let (near, far) = connect(rack, from, to)?;
    let credit = from.word();
    let message = from.message as u32;
    let outlet = Outlet {
        qpn: near,
        region: from.base.region.clone(),
        credit,
        message,
        sent: 0,
    };
    let inlet = Inlet {
        region: to.base.region.clone(),
        index: index as u64,
        buffers: to.buffers(WINDOW),
        message,
        freed: 0,
        told: 0,
        counter: to.word(),
        credit,
        sender: Remote::new(far, &from.base.region),
    };
    for slot in 0..WINDOW {
        set_up::nic(rack, to.base.node)?.post_receive(far, inlet.receive(slot))?;
    }
    Ok((outlet, inlet))
}

impl Outlet {
    /// Whether the receiver has room for one more message.
    pub fn has_credit(&self) -> bool {
        let freed = self.region.block.word(self.credit as usize);
        self.sent < freed.load(Ordering::Acquire) + WINDOW
    }

    /// Sends the message at `offset`; its completion has the id `SENT | slot`.
    pub fn send(
        &mut self,
        context: &mut Context<'_>,
        offset: u64,
        slot: u64,
    ) -> Result<(), Failure> {
        let segment = self.region.segment(offset, self.message);
        let operation = Operation::Send { immediate: None };
        let request = WorkRequest::new(SENT | slot, operation, &[segment]);
        post(context, self.qpn, request)?;
        self.sent += 1;
        Ok(())
    }
}

impl Inlet {
    fn receive(&self, slot: u64) -> ReceiveRequest {
        let segment = self.region.segment(self.offset(slot), self.message);
        ReceiveRequest::new((RECEIVED + (self.index << 32)) | slot, &[segment])
    }

    /// Where the buffer of a slot lies in the region.
    pub fn offset(&self, slot: u64) -> u64 {
        self.buffers + slot * u64::from(self.message)
    }

    /// Posts the receive of a slot again and, now and then, tells the sender.
    pub fn free(&mut self, context: &mut Context<'_>, slot: u64) -> Result<(), Failure> {
        post_receive(context, self.sender.qpn, self.receive(slot))?;
        self.freed += 1;
        if self.freed - self.told < CREDIT_EVERY {
            return Ok(());
        }
        let counter = self.region.block.word(self.counter as usize);
        counter.store(self.freed, Ordering::Release);
        let segment = self.region.segment(self.counter, 8);
        let write = self.sender.write(CREDITED, self.credit, segment);
        post(context, self.sender.qpn, write)?;
        self.told = self.freed;
        Ok(())
    }
}
