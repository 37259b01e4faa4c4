//! The transfer engine: moves bytes between queue pairs of different nodes without buffering them
//! (zero-sided RDMA, section 4).
//!
//! The switch is one end of many reliable connections, each a [`Lane`]. It never holds payload. A
//! **transfer** moves `length` bytes from a region of one node to a region of another: the switch
//! sends a READ on the *source lane*, and turns each fragment of the response, header only, into
//! the matching fragment of a WRITE on the *target lane*:
//!
//! ```text
//!   source node            switch                      target node
//!        │◀── READ psn s ────│                               │
//!        │── response s ────▶│── WRITE First  psn s+offset ─▶│
//!        │── response s+1 ──▶│── WRITE Middle psn s+1+offset▶│
//!        │── response s+2 ──▶│── WRITE Last   psn s+2+offset▶│
//!        │                   │◀──────────── ACK s+2+offset ──│   Done
//! ```
//!
//! The offset is fixed when the transfer starts, so a fragment needs no state but its own PSN, and
//! fragments that overtake each other still land where they belong. A lane carries one transfer at
//! a time. Everything that can be lost is recovered from the first fragment that the target has
//! not acknowledged: a NAK of the target tells at once, a timeout tells in the end, and the READ is
//! re-issued for what is missing. A fragment that belongs to no transfer under way is dropped.
//!
//! A **multicast transfer** writes to several targets. Its target lane is a *group*, which stands
//! for the *member* lanes of all targets: each fragment leaves as one copy per member, and the
//! transfer is done when every member has acknowledged all of it. The members of a group carry the
//! same transfers in the same order, so that one PSN serves them all: the group's. A timeout asks
//! again from the first fragment that is missing anywhere; whoever has it already acknowledges it
//! once more.
//!
//! A **doorbell** is a SEND of a node with the eight bytes that a READ of its ring would fetch.
//!
//! A **checked transfer** begins with bytes that must be what the program expects, such as the
//! header of a page. If they are not, nothing is written, and the program is told. Until the first
//! fragment has passed, later ones that overtook it are dropped: they would have to be taken back.
//!
//! A **word operation** reads or writes the few bytes at the head of a ring on a lane of its own,
//! and shares the machinery: it is a request of one packet whose answer ends in the switch.
//!
//! Files: `engine` the tables and the passes of packets; `tasks` those of tasks; `acknowledge`
//! those of what ends in the switch; `multicast` what several targets and doorbells add; `patience`
//! how often who is asked again; `registers` the state by stage; `emit` the packets that the switch
//! makes.

mod acknowledge;
pub mod emit;
mod engine;
mod multicast;
mod patience;
mod registers;
mod tasks;
#[cfg(test)]
mod tests;

use rackweave_base::{Duration, MacAddr, PortId, Psn, Qpn, Rkey};
use rackweave_wire::{Ethernet, Ipv4, Udp};
use serde::{Deserialize, Serialize};

pub use engine::{Engine, Outcome};
pub use patience::Cause;

/// A connection between the switch and a node, by its place in the tables.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LaneId(pub u16);

impl LaneId {
    /// The index into tables and register arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a lane is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaneKind {
    /// READs of transfers.
    Source,
    /// WRITEs of transfers.
    Target,
    /// Word operations at `address` of a region with `rkey`.
    Word {
        /// The address of the first word.
        address: u64,
        /// The region's key.
        rkey: Rkey,
    },
    /// Stands for all its members in multicast transfers; no packet comes or goes on it. The
    /// multicast group that copies its fragments has its number.
    Group {
        /// Any of its members; each names the next.
        first: LaneId,
        /// A bit for each member.
        members: u32,
    },
    /// WRITEs of multicast transfers to one target.
    Member {
        /// The lane that stands for all.
        group: LaneId,
        /// The member after this one, round in a circle.
        next: LaneId,
        /// Its bit.
        bit: u8,
        /// Added to the target address of transfers.
        address: u64,
        /// The key of the target region.
        rkey: Rkey,
    },
    /// Whatever comes on it is for the program.
    Program,
    /// Doorbells of the node.
    Doorbell {
        /// The PSN of the first.
        first: Psn,
    },
}

/// A lane, as the controller enters it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lane {
    /// What it is for.
    pub kind: LaneKind,
    /// The port that leads to the node.
    pub port: PortId,
    /// Ethernet header for packets to the node.
    pub ethernet: Ethernet,
    /// IPv4 header for packets to the node.
    pub ipv4: Ipv4,
    /// UDP header for packets to the node.
    pub udp: Udp,
    /// The node's queue pair.
    pub peer_qpn: Qpn,
    /// The path MTU in bytes.
    pub mtu: u32,
}

/// A transfer to start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    /// The lane to READ on; it must be free.
    pub source: LaneId,
    /// The lane to WRITE on, or the group of lanes; it must be free.
    pub target: LaneId,
    /// Where the bytes are.
    pub source_address: u64,
    /// The key of their region.
    pub source_rkey: Rkey,
    /// Where the bytes go; for a group, where from the address of each member.
    pub target_address: u64,
    /// The key of that region; for a group each member has its own.
    pub target_rkey: Rkey,
    /// How many, at least one.
    pub length: u32,
    /// Given back when the transfer is done.
    pub cookie: u32,
    /// What the first eight bytes must be, little-endian, if that is to be checked: nothing is
    /// written otherwise. Needs [`Engine::with_header_checks`].
    pub header: Option<u64>,
}

/// What recirculates for the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineTask {
    /// Start a transfer.
    Start(Start),
    /// Read the word of a word lane.
    ReadWord(LaneId),
    /// Write one or two words at the place of a word lane. Bytes as they will lie in memory.
    WriteWords {
        /// The lane; it must be free.
        lane: LaneId,
        /// The first eight bytes.
        first: [u8; 8],
        /// The next eight bytes, if there are any.
        second: Option<[u8; 8]>,
        /// Given back when they are written.
        cookie: u32,
    },
    /// Find out how far the slowest member of a multicast transfer has come, then ask again.
    Gather {
        /// The source lane.
        lane: LaneId,
        /// The member to look at.
        at: LaneId,
        /// Members that remain to be looked at, this one included.
        left: u16,
        /// Fragments that all members looked at so far have.
        from: u32,
        /// The member that has no more than these.
        slowest: LaneId,
        /// Why.
        cause: Cause,
    },
    /// Every member of a multicast transfer has everything.
    Complete(LaneId),
    /// Ask again for what is missing of the lane's transfer or word operation.
    Reissue {
        /// The source or word lane.
        lane: LaneId,
        /// The first fragment to ask for, if that is later than the first one not acknowledged.
        from: u32,
        /// The lane that lacks it, if that is known to be a certain one.
        slowest: Option<LaneId>,
        /// Why.
        cause: Cause,
    },
    /// End a transfer whose first bytes are wrong, and of which nothing has been written.
    Refuse {
        /// The source lane.
        lane: LaneId,
        /// The target lane.
        target: LaneId,
        /// What the target expects next.
        psn: Psn,
    },
    /// Give up the lane's transfer or word operation.
    Abandon {
        /// The source or word lane.
        lane: LaneId,
        /// The lane whose node is to blame.
        blame: LaneId,
        /// Why.
        reason: FailReason,
    },
}

/// What the engine tells the program, as a task of the program's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineEvent {
    /// Every byte of the transfer is in the target's memory.
    Done {
        /// The source lane.
        lane: LaneId,
        /// What the transfer was started with.
        cookie: u32,
    },
    /// A word was read, or a doorbell brought one.
    Word {
        /// The word or doorbell lane.
        lane: LaneId,
        /// The bytes as they lie in the node's memory.
        bytes: [u8; 8],
    },
    /// The words were written.
    Written {
        /// The word lane.
        lane: LaneId,
        /// What they were given with.
        cookie: u32,
    },
    /// The first bytes at the source are not what they had to be; nothing was written.
    Refused {
        /// The source lane.
        lane: LaneId,
        /// What the transfer was started with.
        cookie: u32,
    },
    /// A transfer or word operation is given up; the lane to blame is of no more use.
    Failed {
        /// The source or word lane.
        lane: LaneId,
        /// What it was started with.
        cookie: u32,
        /// The lane whose node is to blame: a source, target, member or word lane.
        blame: LaneId,
        /// Why.
        reason: FailReason,
    },
}

impl EngineTask {
    /// The first look at the members of a multicast transfer.
    const fn gather(lane: LaneId, first: LaneId, members: u32, cause: Cause) -> Self {
        EngineTask::Gather {
            lane,
            at: first,
            left: members.count_ones() as u16,
            from: u32::MAX,
            slowest: first,
            cause,
        }
    }
}

impl EngineEvent {
    /// The lane that it is about.
    pub const fn lane(&self) -> LaneId {
        match *self {
            EngineEvent::Done { lane, .. }
            | EngineEvent::Word { lane, .. }
            | EngineEvent::Written { lane, .. }
            | EngineEvent::Refused { lane, .. }
            | EngineEvent::Failed { lane, .. } => lane,
        }
    }

    /// What the operation was started with; zero for a word that was read.
    pub const fn cookie(&self) -> u32 {
        match *self {
            EngineEvent::Done { cookie, .. }
            | EngineEvent::Written { cookie, .. }
            | EngineEvent::Refused { cookie, .. }
            | EngineEvent::Failed { cookie, .. } => cookie,
            EngineEvent::Word { .. } => 0,
        }
    }
}

/// Why a transfer or word operation was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum FailReason {
    /// No progress after all retries.
    #[error("the node does not answer")]
    Unreachable,
    /// The node refused the access: wrong key, bounds or permission.
    #[error("the node refused the access to its region")]
    RemoteAccess,
    /// The node found the request invalid.
    #[error("the node found the request invalid")]
    InvalidRequest,
    /// The node could not carry out the request.
    #[error("the node could not carry out the request")]
    RemoteOperation,
}

/// The size and the patience of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineConfig {
    /// Lanes of all kinds.
    pub lanes: u16,
    /// How long to wait without a sign of progress before asking again.
    pub timeout: Duration,
    /// How often to ask again without an answer of the source, and how often without progress at
    /// the target, before giving up; at most 1000.
    pub retries: u32,
    /// Ask the target for an acknowledgement at every so many fragments, and at the last.
    pub acknowledge_every: u32,
    /// Whether packets that the switch makes need an ICRC, and packets that end in it are checked.
    pub check: bool,
    /// How the ICRC of a rewritten packet is kept right.
    pub rewrite: rackweave_wire::icrc::Rewrite,
    /// The switch's own Ethernet address.
    pub mac: MacAddr,
}
