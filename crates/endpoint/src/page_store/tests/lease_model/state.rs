//! A state of the model: what the nodes and the directory entry have.

/// The age of a copy that is not there.
pub(super) const ABSENT: u8 = 15;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub(super) struct Token {
    /// 0: no token.
    pub(super) id: u8,
    /// That of the newest answer that the node had processed when it asked.
    pub(super) generation: u8,
}

/// A request for a lease.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Verify {
    pub(super) token: Token,
    /// The age of the copy's version.
    pub(super) version: u8,
    /// The generation that granted the lease, if the request was executed.
    pub(super) granted: Option<u8>,
}

/// What a node does with the page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Work {
    Idle,
    /// The latch was granted. The answer has the newest version, and whether others have leases.
    Latch {
        version: u8,
        others: bool,
    },
    Revoke,
    Guard,
    /// The commit of this version was accepted. The answer is on the way.
    Commit(u8),
}

/// A WRITE of 0 to a lease word.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Write {
    None,
    Sent,
    /// The acknowledgement is on the way.
    Executed,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Node {
    /// Ticks by which the node's clock is behind.
    pub(super) lag: u8,
    /// Ticks of the node's clock until `lease_until`.
    pub(super) left: u8,
    /// The upper half of the maximum of which `lease_until` is the lower half.
    pub(super) generation: u8,
    pub(super) word: Token,
    /// The age of the copy's version, and the token stored with the copy.
    pub(super) copy: u8,
    pub(super) lease: Token,
    pub(super) work: Work,
    pub(super) verifies: [Option<Verify>; 2],
    /// In the directory entry: this node is the holder, has a lease, is dead.
    pub(super) holder: bool,
    pub(super) leasing: bool,
    pub(super) dead: bool,
    /// The WRITE of the current revocation, and that of an earlier one.
    pub(super) write: Write,
    pub(super) stale: Write,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct State<const N: usize> {
    pub(super) nodes: [Node; N],
    /// Ticks until `hold_until`.
    pub(super) hold: u8,
    pub(super) generation: u8,
    /// The age of the newest version that a commit or a read returned.
    pub(super) returned: u8,
}

/// A step, and the node that it is of.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Step {
    Ask(usize),
    Verify(usize, usize),
    Granted(usize, usize),
    Ping(usize),
    Fetch(usize),
    Latch(usize),
    Latched(usize),
    Revoked(usize),
    Commit(usize),
    Committed(usize),
    Release(usize),
    Read(usize),
    Write(usize),
    Executed(usize),
    Acknowledged(usize),
    StaleExecuted(usize),
    StaleAcknowledged(usize),
    Death(usize),
    NodeTick(usize),
    Tick,
    Restart,
}

impl<const N: usize> State<N> {
    /// All nodes have the newest version, and no lease.
    pub(super) fn first() -> Self {
        let node = Node {
            lag: 0,
            left: 0,
            generation: 0,
            word: Token::default(),
            copy: 0,
            lease: Token::default(),
            work: Work::Idle,
            verifies: [None; 2],
            holder: false,
            leasing: false,
            dead: false,
            write: Write::None,
            stale: Write::None,
        };
        let nodes = [node; N];
        State {
            nodes,
            hold: 0,
            generation: 0,
            returned: 0,
        }
    }

    pub(super) fn is_latched(&self) -> bool {
        self.nodes.iter().any(|node| node.holder)
    }

    pub(super) fn others_lease(&self, node: usize) -> bool {
        (0..N).any(|i| i != node && self.nodes[i].leasing)
    }

    /// There is a newer version: all that there are become older.
    pub(super) fn publish(&mut self) {
        let older = |age: &mut u8| *age += u8::from(*age <= N as u8);
        older(&mut self.returned);
        for node in &mut self.nodes {
            older(&mut node.copy);
            node.verifies
                .iter_mut()
                .flatten()
                .for_each(|verify| older(&mut verify.version));
            if let Work::Latch { version, .. } | Work::Commit(version) = &mut node.work {
                older(version);
            }
        }
    }

    /// No acknowledgement is waited for any more. Of several WRITEs to a node, one is kept: each
    /// further one could only end a lease.
    pub(super) fn end_revocation(&mut self) {
        for node in &mut self.nodes {
            node.stale = node.stale.max(node.write);
            node.write = Write::None;
        }
    }
}
