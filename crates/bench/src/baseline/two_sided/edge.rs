//! Edges between nodes: a queue pair, receive buffers at the one end, credit at the other.
//!
//! A receiver has [`WINDOW`] receive requests posted per edge. It reports to the sender how many it
//! has posted again by WRITEs of a counter, so that every SEND finds one.

use crate::baseline::verbs::{
    NodeEnd, Remote, SET_UP, connect, on_nic, post, post_receive, region,
};
use crate::harness::prelude::*;
use rackweave_verbs::{ReceiveRequest, Segment};

/// Messages that may be in flight on an edge.
pub const WINDOW: u64 = 64;

/// Requests to send, and receives, that a queue pair holds.
pub const ROOM: (u32, u32) = (2 * WINDOW as u32, WINDOW as u32);

/// Receives posted again between two updates of the credit.
const CREDIT_EVERY: u64 = WINDOW / 4;

/// The subject of a completion, in the upper half of its id; the lower half is a slot.
pub const SENT: u64 = 1 << 32;
pub const FETCHED: u64 = 2 << 32;
pub const CREDITED: u64 = 3 << 32;
/// Plus the number of the inlet.
pub const RECEIVED: u64 = 4 << 32;

/// The sending end of an edge.
pub struct Outlet {
    qpn: Qpn,
    /// The word to which the receiver writes how many receives it has posted again.
    credit: Region,
    sent: u64,
}

/// The receiving end of an edge.
pub struct Inlet {
    /// Its buffers; after them, the counter that is written to the sender.
    region: Region,
    index: u64,
    message: u32,
    /// Receives posted again, and how many of them were reported to the sender.
    freed: u64,
    reported: u64,
    credit: Remote,
}

/// An edge from `from` to `to` for messages of `message` bytes, whose receives are posted. `index`
/// is the inlet's number there.
pub fn edge(
    rack: &Rack,
    from: &NodeEnd,
    to: &NodeEnd,
    index: usize,
    message: u32,
) -> Result<(Outlet, Inlet)> {
    let (near, far) = connect(rack, from, to, ROOM)?;
    let credit = region(rack, from.node, from.pd, 8)?;
    let bytes = (WINDOW * u64::from(message) + 8) as usize;
    let inlet = Inlet {
        region: region(rack, to.node, to.pd, bytes)?,
        index: index as u64,
        message,
        freed: 0,
        reported: 0,
        credit: Remote::new(far, &credit),
    };
    for slot in 0..WINDOW {
        on_nic(rack, to.node, |nic| {
            nic.post_receive(far, inlet.receive(slot))
        })?
        .or_failed(SET_UP)?;
    }
    let outlet = Outlet {
        qpn: near,
        credit,
        sent: 0,
    };
    Ok((outlet, inlet))
}

impl Outlet {
    /// Whether the receiver has a receive posted for one more message.
    pub fn has_credit(&self) -> bool {
        let freed = self.credit.block.word(0).load(Ordering::Acquire);
        self.sent < freed + WINDOW
    }

    /// Sends a message; its completion has the id `SENT | slot`.
    pub fn send(
        &mut self,
        context: &mut Context<'_>,
        message: Segment,
        slot: u64,
    ) -> Result<(), Failure> {
        let operation = Operation::Send { immediate: None };
        let request = WorkRequest::new(SENT | slot, operation, &[message]);
        post(context, self.qpn, request)?;
        self.sent += 1;
        Ok(())
    }
}

impl Inlet {
    fn receive(&self, slot: u64) -> ReceiveRequest {
        let id = (RECEIVED + (self.index << 32)) | slot;
        ReceiveRequest::new(id, &[self.message(slot)])
    }

    pub fn message(&self, slot: u64) -> Segment {
        let at = slot * u64::from(self.message);
        self.region.segment(at, self.message)
    }

    /// The bytes of the message in the buffer of a slot.
    pub fn bytes(&self, slot: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.message as usize];
        self.region
            .block
            .read(slot as usize * bytes.len(), &mut bytes);
        bytes
    }

    /// Posts the receive of a slot again and reports it to the sender from time to time.
    pub fn free(&mut self, context: &mut Context<'_>, slot: u64) -> Result<(), Failure> {
        post_receive(context, self.credit.qpn, self.receive(slot))?;
        self.freed += 1;
        if self.freed - self.reported < CREDIT_EVERY {
            return Ok(());
        }
        let counter = WINDOW * u64::from(self.message);
        let word = self.region.block.word(counter as usize);
        word.store(self.freed, Ordering::Release);
        let write = self
            .credit
            .write(CREDITED, 0, self.region.segment(counter, 8));
        post(context, self.credit.qpn, write)?;
        self.reported = self.freed;
        Ok(())
    }
}
