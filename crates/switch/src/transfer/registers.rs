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
    /// i: the PSN of the next request on the lane; for a doorbell lane, of the next doorbell.
    pub next: Register<u32>,
    /// t: the PSN of the next WRITE on the lane.
    pub target_next: Register<u32>,
    /// i: the PSN of the first fragment.
    pub first: Register<u32>,
    /// t: the PSN of the first fragment.
    pub target_first: Register<u32>,
    /// i: the target lane. The owner of a target lane may by now carry a transfer to another
    /// target, so an acknowledgement counts only if the two refer to each other.
    pub target: Register<u32>,
    /// i: fragments of the transfer; one for a word operation.
    pub count: Register<u32>,
    /// i: fragments that have arrived at the target. Equal to `count` when nothing is in flight.
    pub acked: Register<u32>,
    /// i: reissues since the last progress, as encoded by [`super::patience::Patience`].
    pub retries: Register<u32>,
    /// i: time of the last answer, in units of 1024 ns.
    pub activity: Register<u32>,
    /// i: bytes of the transfer; for a word WRITE its length, for a word READ zero.
    pub length: Register<u32>,
    /// i: the number to add to a response's PSN.
    pub offset: Register<u32>,
    /// i: the value returned to the program when the transfer is done.
    pub cookie: Register<u32>,
    /// i: source address; for a word WRITE the first eight bytes.
    pub source_address: Register<u64>,
    /// i: target address; for a word WRITE the second eight bytes.
    pub target_address: Register<u64>,
    /// m: the PSN up to which the member has confirmed.
    pub confirmed: Register<u32>,
    /// i: the members that have every fragment, a bit each; bits without a member are set. For a
    /// checked transfer, whether its first fragment has passed.
    pub complete: Register<u32>,
    /// i: the expected first bytes of a checked transfer, as encoded by [`stored`].
    pub header: Register<u64>,
    /// i: key of the source region.
    pub source_rkey: Register<u32>,
    /// i: key of the target region.
    pub target_rkey: Register<u32>,
}

/// The expected header as a cell holds it: zero means none. Headers are numbers below `u64::MAX`.
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
