//! The transfer engine: moves bytes between queue pairs of different nodes without buffering them
//! (zero-sided RDMA, section 4).
//!
//! The switch is an endpoint of many reliable connections, each a [`Lane`]. It never holds payload.
//! A **transfer** moves `length` bytes from a region of one node to a region of another: the switch
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
//! The offset is fixed when the transfer starts. A fragment therefore needs no state but its own
//! PSN, and reordered fragments are still written to the right place. A lane carries one transfer
//! at a time. Recovery from loss starts at the first fragment that the target has not acknowledged:
//! a NAK of the target reports a loss at once, a timeout detects all others, and the READ is
//! reissued for the missing part. A fragment that belongs to no transfer in flight is dropped.
//!
//! A **multicast transfer** writes to several targets. Its target lane is a *group*, which
//! represents the *member* lanes of all targets. Each fragment leaves as one copy per member, and
//! the transfer is done when every member has acknowledged all of it. The members of a group carry
//! the same transfers in the same order, so they all share one PSN, the group's. A timeout reissues
//! from the first fragment that any member lacks; members that already have it acknowledge it
//! again.
//!
//! A **doorbell** is a SEND by a node that carries the eight bytes that a READ of its ring would
//! fetch.
//!
//! A **checked transfer** must begin with bytes that the program expects, such as the header of a
//! page. If it does not, nothing is written and the program gets an event. Until the first fragment
//! has passed, later fragments that overtook it are dropped, because their writes could not be
//! undone.
//!
//! A **word operation** reads or writes the few bytes at the head of a ring on its own lane. It
//! shares the machinery: it is a request of one packet whose response ends in the switch.
//!
//! Files: `engine` has the tables and the passes of packets; `tasks` the passes of tasks;
//! `acknowledge` the passes of packets that end in the switch; `multicast` the additions for
//! several targets and for doorbells; `patience` the retry limits for source and target;
//! `registers` the state by stage; `emit` the packets that the switch makes.

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

pub use engine::{Engine, Response, Sort};
pub use patience::Cause;

/// A connection between the switch and a node, identified by its index in the tables.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct LaneId(pub u16);

impl LaneId {
    /// The index into tables and register arrays.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The purpose of a lane.
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
    /// Represents all its members in multicast transfers; no packet arrives or leaves on it. The
    /// multicast group that copies its fragments has the same number.
    Group {
        /// Any of its members; each member names the next.
        first: LaneId,
        /// A bit for each member.
        members: u32,
    },
    /// WRITEs of multicast transfers to one target.
    Member {
        /// The lane that represents all members.
        group: LaneId,
        /// The next member; the members form a circle.
        next: LaneId,
        /// The member's bit.
        bit: u8,
        /// Added to the target address of transfers.
        address: u64,
        /// The key of the target region.
        rkey: Rkey,
    },
    /// Packets on it are passed to the program.
    Program,
    /// Doorbells of the node.
    Doorbell {
        /// The PSN of the first.
        first: Psn,
    },
}

/// A lane, as entered by the controller.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lane {
    /// Its purpose.
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
    /// Address of the bytes.
    pub source_address: u64,
    /// The key of their region.
    pub source_rkey: Rkey,
    /// Address to write to; for a group, an offset from the address of each member.
    pub target_address: u64,
    /// The key of that region; for a group each member has its own.
    pub target_rkey: Rkey,
    /// Number of bytes, at least one.
    pub length: u32,
    /// Returned when the transfer is done.
    pub cookie: u32,
    /// Expected value of the first eight bytes, little-endian, if they are to be checked: on a
    /// mismatch nothing is written. Needs [`Engine::with_header_checks`].
    pub header: Option<u64>,
}

/// A recirculating task of the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineTask {
    /// Start a transfer.
    Start(Start),
    /// Read the word of a word lane.
    ReadWord(LaneId),
    /// Write one or two words at the address of a word lane. Bytes are in memory order.
    WriteWords {
        /// The lane; it must be free.
        lane: LaneId,
        /// The first eight bytes.
        first: [u8; 8],
        /// The next eight bytes, if there are any.
        second: Option<[u8; 8]>,
        /// Returned when the words are written.
        cookie: u32,
    },
    /// Write one word behind the address of a word lane.
    WriteWordAt {
        /// The lane; it must be free.
        lane: LaneId,
        /// Bytes from the lane's address.
        offset: u64,
        /// The bytes, in memory order.
        word: [u8; 8],
        /// Returned when the word is written.
        cookie: u32,
    },
    /// Find the slowest member of a multicast transfer, then reissue from the first fragment that
    /// it lacks.
    Gather {
        /// The source lane.
        lane: LaneId,
        /// The member to look at.
        at: LaneId,
        /// Members that remain to be checked, this one included.
        left: u16,
        /// Fragments that all members checked so far have.
        from: u32,
        /// The member that has no more than these.
        slowest: LaneId,
        /// The cause of the reissue.
        cause: Cause,
    },
    /// Every member of a multicast transfer has everything.
    Complete(LaneId),
    /// Reissue the missing part of the lane's transfer or word operation.
    Reissue {
        /// The source or word lane.
        lane: LaneId,
        /// The first fragment to request, if later than the first one not acknowledged.
        from: u32,
        /// The lane that lacks it, if known.
        slowest: Option<LaneId>,
        /// The cause of the reissue.
        cause: Cause,
    },
    /// End a transfer whose first bytes are wrong, of which nothing has been written.
    Refuse {
        /// The source lane.
        lane: LaneId,
        /// The target lane.
        target: LaneId,
        /// The PSN that the target expects next.
        psn: Psn,
    },
    /// Abandon the lane's transfer or word operation.
    Abandon {
        /// The source or word lane.
        lane: LaneId,
        /// The lane whose node caused the failure.
        blame: LaneId,
        /// The reason for the failure.
        reason: FailReason,
    },
}

/// An event that the engine reports to the program, as a task of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EngineEvent {
    /// Every byte of the transfer is in the target's memory.
    Done {
        /// The source lane.
        lane: LaneId,
        /// The cookie that the transfer was started with.
        cookie: u32,
    },
    /// A word was read, or arrived by a doorbell.
    Word {
        /// The word or doorbell lane.
        lane: LaneId,
        /// The bytes in the order of the node's memory.
        bytes: [u8; 8],
    },
    /// The words were written.
    Written {
        /// The word lane.
        lane: LaneId,
        /// The cookie of the write.
        cookie: u32,
    },
    /// The first bytes at the source differ from the expected ones; nothing was written.
    Refused {
        /// The source lane.
        lane: LaneId,
        /// The cookie that the transfer was started with.
        cookie: u32,
    },
    /// A transfer or word operation was abandoned; the lane in `blame` is no longer usable.
    Failed {
        /// The source or word lane.
        lane: LaneId,
        /// The cookie that it was started with.
        cookie: u32,
        /// The lane whose node caused the failure: a source, target, member or word lane.
        blame: LaneId,
        /// The reason for the failure.
        reason: FailReason,
    },
}

impl EngineTask {
    /// The first task that checks the members of a multicast transfer.
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
    /// The lane that the event concerns.
    pub const fn lane(&self) -> LaneId {
        match *self {
            EngineEvent::Done { lane, .. }
            | EngineEvent::Word { lane, .. }
            | EngineEvent::Written { lane, .. }
            | EngineEvent::Refused { lane, .. }
            | EngineEvent::Failed { lane, .. } => lane,
        }
    }

    /// The cookie that the operation was started with; zero for a word that was read.
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

/// Why a transfer or word operation was abandoned.
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
    /// The node could not execute the request.
    #[error("the node could not carry out the request")]
    RemoteOperation,
}

/// The size, timeouts and retry limits of an engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EngineConfig {
    /// Number of lanes of all kinds.
    pub lanes: u16,
    /// How long to wait without progress before reissuing.
    pub timeout: Duration,
    /// How often to reissue without an answer from the source, and how often without progress at
    /// the target, before the operation is abandoned; at most 1000.
    pub retries: u32,
    /// The target is asked for an acknowledgement once per this many fragments, and at the last
    /// one.
    pub acknowledge_every: u32,
    /// Whether packets that the switch makes need an ICRC, and packets that end in it are checked.
    pub check: bool,
    /// How the ICRC of a rewritten packet is kept correct.
    pub rewrite: rackweave_wire::icrc::Rewrite,
    /// The switch's own Ethernet address.
    pub mac: MacAddr,
}
