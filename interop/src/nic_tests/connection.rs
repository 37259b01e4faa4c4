//! A connection between a queue pair of this project's NIC and one of the guest's, used from either
//! end in the same way.

use super::ends::{Ours, Theirs};
use super::our_nic::OurNic;
use crate::failure::{Outcome, expect_eq};
use crate::guest_node::GuestNode;
use rackweave_base::{Duration, Rng};
use rackweave_verbs::{Access, CompletionStatus, Mtu};

/// The offsets of messages' sources and targets in either region.
pub const SOURCE: u64 = 64;
/// See [`SOURCE`].
pub const TARGET: u64 = (1 << 20) + 4096;
/// Bytes of either region.
pub const REGION_LEN: u64 = (2 << 20) + 8192;

/// An end of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// This project's NIC.
    Ours,
    /// The guest's.
    Guest,
}

impl Side {
    /// Both.
    pub const ALL: [Side; 2] = [Side::Ours, Side::Guest];

    /// The other one.
    pub fn other(self) -> Side {
        match self {
            Side::Ours => Side::Guest,
            Side::Guest => Side::Ours,
        }
    }
}

/// An operation of a requester.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// SEND, with immediate data if given.
    Send(Option<u32>),
    /// WRITE, with immediate data if given.
    Write(Option<u32>),
    /// READ.
    Read,
    /// Fetch-and-add of a number.
    FetchAdd(u64),
    /// Compare-and-swap: the expected and the new value.
    CompareSwap(u64, u64),
}

/// A location in the other end's memory.
#[derive(Clone, Copy, Debug)]
pub struct Remote {
    /// The address.
    pub address: u64,
    /// The key.
    pub rkey: u32,
}

/// The completion of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Done {
    /// Whether it was a receive.
    pub receive: bool,
    /// How it ended.
    pub status: CompletionStatus,
    /// The length that the completion names.
    pub length: u32,
    /// The immediate data.
    pub immediate: Option<u32>,
}

/// The parameters of a connection.
#[derive(Clone, Copy)]
pub struct Setup {
    /// The path MTU.
    pub mtu: Mtu,
    /// Access that either region allows.
    pub region: Access,
    /// Access that either queue pair allows.
    pub qp: Access,
    /// Retries after a receiver-not-ready; 7 is for ever.
    pub rnr_retries: u8,
    /// How long this project's NIC waits for an acknowledgement.
    pub timeout: Duration,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mtu: Mtu::B4096,
            region: Access::all(),
            qp: Access::all(),
            rnr_retries: 6,
            timeout: Duration::from_secs(1),
        }
    }
}

/// Two connected queue pairs, each with a region. They are destroyed when dropped.
pub struct Connection<'a> {
    ours: Ours<'a>,
    theirs: Theirs<'a>,
}

impl<'a> Connection<'a> {
    /// Makes regions and queue pairs at both ends and connects them.
    pub fn open(
        nic: &'a dyn OurNic,
        node: &'a mut GuestNode,
        rng: &mut Rng,
        setup: &Setup,
    ) -> Outcome<Self> {
        let ours = Ours::make(nic, setup)?;
        let mut theirs = Theirs::make(node, setup)?;
        let mut psn = || rng.below(1 << 24) as u32;
        let (our_psn, their_psn) = (psn(), psn());
        ours.connect(setup, &theirs, our_psn, their_psn)?;
        theirs.connect(setup, &ours, their_psn, our_psn)?;
        Ok(Self { ours, theirs })
    }

    /// Fills a range of the region at `side` with the pattern of `seed`.
    pub fn fill(&mut self, side: Side, offset: u64, len: u32, seed: u64) -> Outcome {
        match side {
            Side::Ours => self.ours.fill(offset, len, seed),
            Side::Guest => self.theirs.fill(offset, len, seed)?,
        }
        Ok(())
    }

    /// Overwrites a range and its surroundings, so that [`Self::expect`] detects what has been
    /// written.
    pub fn mark(&mut self, side: Side, offset: u64, len: u32) -> Outcome {
        match side {
            Side::Ours => self.ours.mark(offset, len),
            Side::Guest => self.theirs.mark(offset, len)?,
        }
        Ok(())
    }

    /// Fails unless the marked range holds the pattern of `seed`, and nothing else was touched.
    pub fn expect(&mut self, side: Side, offset: u64, len: u32, seed: u64) -> Outcome {
        match side {
            Side::Ours => self.ours.expect(offset, len, seed),
            Side::Guest => self.theirs.expect(offset, len, seed),
        }
    }

    /// The 64-bit word at `offset`.
    pub fn load(&mut self, side: Side, offset: u64) -> Outcome<u64> {
        match side {
            Side::Ours => Ok(self.ours.load(offset)),
            Side::Guest => self.theirs.load(offset),
        }
    }

    /// Sets the 64-bit word at `offset`.
    pub fn store(&mut self, side: Side, offset: u64, word: u64) -> Outcome {
        match side {
            Side::Ours => self.ours.store(offset, word),
            Side::Guest => self.theirs.store(offset, word)?,
        }
        Ok(())
    }

    /// Posts a request with `len` bytes at `offset` of its own region.
    pub fn post(
        &mut self,
        side: Side,
        action: Action,
        offset: u64,
        len: u32,
        remote: Remote,
    ) -> Outcome {
        match side {
            Side::Ours => self.ours.post(action, offset, len, remote),
            Side::Guest => self.theirs.post(action, offset, len, remote),
        }
    }

    /// Posts a receive of `len` bytes at `offset`.
    pub fn receive(&mut self, side: Side, offset: u64, len: u32) -> Outcome {
        match side {
            Side::Ours => self.ours.receive(offset, len),
            Side::Guest => self.theirs.receive(offset, len),
        }
    }

    /// Waits for the next completion at `side`.
    pub fn poll(&mut self, side: Side) -> Outcome<Done> {
        self.poll_for(side, 20.0)
    }

    /// Waits likewise, for `seconds` at most.
    pub fn poll_for(&mut self, side: Side, seconds: f64) -> Outcome<Done> {
        match side {
            Side::Ours => self.ours.poll(seconds),
            Side::Guest => self.theirs.poll(seconds),
        }
    }

    /// Waits for a successful completion.
    pub fn poll_success(&mut self, side: Side) -> Outcome<Done> {
        let done = self.poll(side)?;
        expect_eq("the status", done.status, CompletionStatus::Success)?;
        Ok(done)
    }

    /// Whether the queue pair at `side` is in error.
    pub fn is_broken(&mut self, side: Side) -> Outcome<bool> {
        match side {
            Side::Ours => Ok(self.ours.is_broken()),
            Side::Guest => self.theirs.is_broken(),
        }
    }

    /// The location at `offset` of the other end, in the form that requests of `side` use.
    pub fn remote(&self, side: Side, offset: u64) -> Remote {
        let mut remote = match side {
            Side::Ours => self.theirs.remote(),
            Side::Guest => self.ours.remote(),
        };
        remote.address += offset;
        remote
    }

    /// One counter at `side`, by the name that it has at both ends.
    pub fn counter(&mut self, side: Side, name: &str) -> Outcome<u64> {
        match side {
            Side::Ours => Ok(self.ours.counter(name)),
            Side::Guest => self.theirs.counter(name),
        }
    }
}
