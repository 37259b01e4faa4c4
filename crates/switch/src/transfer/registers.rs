//! The engine's register arrays, by stage.
//!
//! Arrays marked *i* are indexed by initiating lane (source or word), those marked *t* by target
//! lane or group, *m* by member. 64-bit cells are register pairs.

use crate::budget::Ledger;
use crate::register::Register;

/// State per lane.
#[derive(Debug)]
pub(super) struct Registers {
    /// t: the source lane of the transfer that writes on this target lane.
    pub owner: Register<u32>,
    /// i: the PSN of the next request on the lane; of a doorbell lane, of the next doorbell.
    pub next: Register<u32>,
    /// t: the PSN of the next WRITE on the lane.
    pub target_next: Register<u32>,
    /// i: the PSN of the first fragment.
    pub first: Register<u32>,
    /// t: the PSN of the first fragment.
    pub target_first: Register<u32>,
    /// i: the target lane. A target lane's owner may carry a transfer to another target by now, so
    /// an acknowledgement counts only if the two point at each other.
    pub target: Register<u32>,
    /// i: fragments of the transfer; one for a word operation.
    pub count: Register<u32>,
    /// i: fragments that are safe at the target. Equal to `count` when nothing is under way.
    pub acked: Register<u32>,
    /// i: how often something was asked for again since the last progress, as
    /// [`super::patience::Patience`] has it.
    pub retries: Register<u32>,
    /// i: when there was a last sign of life, in units of 1024 ns.
    pub activity: Register<u32>,
    /// i: bytes of the transfer; of a word WRITE its bytes, of a word READ zero.
    pub length: Register<u32>,
    /// i: what to add to a response's PSN.
    pub offset: Register<u32>,
    /// i: what the program wants back when the transfer is done.
    pub cookie: Register<u32>,
    /// i: source address; of a word WRITE the first eight bytes.
    pub source_address: Register<u64>,
    /// i: target address; of a word WRITE the second eight bytes.
    pub target_address: Register<u64>,
    /// m: the PSN up to which the member has confirmed.
    pub confirmed: Register<u32>,
    /// i: which members have everything, a bit each; bits of no member are set. Of a checked
    /// transfer, whether its first fragment has passed.
    pub complete: Register<u32>,
    /// i: what a checked transfer must begin with, as [`stored`] has it.
    pub header: Register<u64>,
    /// i: key of the source region.
    pub source_rkey: Register<u32>,
    /// i: key of the target region.
    pub target_rkey: Register<u32>,
}

/// An expectation as a cell holds it: zero is none. Headers are numbers below `u64::MAX`.
pub(super) const fn stored(header: Option<u64>) -> u64 {
    match header {
        Some(header) => header.wrapping_add(1),
        None => 0,
    }
}

impl Registers {
    /// For `lanes` lanes, of which `checked` may carry checked transfers.
    pub fn new(lanes: usize, checked: usize) -> Self {
        Self {
            owner: Register::new("transfer.owner", 1, lanes),
            next: Register::new("transfer.next", 1, lanes),
            target_next: Register::new("transfer.target_next", 1, lanes),
            first: Register::new("transfer.first", 2, lanes),
            target_first: Register::new("transfer.target_first", 2, lanes),
            target: Register::new("transfer.target", 2, lanes),
            count: Register::new("transfer.count", 3, lanes),
            acked: Register::new("transfer.acked", 4, lanes),
            retries: Register::new("transfer.retries", 4, lanes),
            activity: Register::new("transfer.activity", 4, lanes),
            length: Register::new("transfer.length", 5, lanes),
            offset: Register::new("transfer.offset", 5, lanes),
            cookie: Register::new("transfer.cookie", 5, lanes),
            confirmed: Register::new("transfer.confirmed", 3, lanes),
            complete: Register::new("transfer.complete", 9, lanes),
            header: Register::new("transfer.header", 3, checked),
            source_address: Register::new("transfer.source_address", 6, lanes),
            target_address: Register::new("transfer.target_address", 6, lanes),
            source_rkey: Register::new("transfer.source_rkey", 7, lanes),
            target_rkey: Register::new("transfer.target_rkey", 7, lanes),
        }
    }

    pub fn declare(&self, ledger: &mut Ledger) {
        for register in [
            &self.owner,
            &self.next,
            &self.target_next,
            &self.first,
            &self.target_first,
            &self.count,
            &self.acked,
            &self.retries,
            &self.activity,
            &self.length,
            &self.offset,
            &self.target,
            &self.cookie,
            &self.confirmed,
            &self.complete,
            &self.source_rkey,
            &self.target_rkey,
        ] {
            ledger.register(register);
        }
        if self.header.bytes() > 0 {
            ledger.register(&self.header);
        }
        ledger.register(&self.source_address);
        ledger.register(&self.target_address);
    }
}
