//! The steps of the protocol, and the bugs that can be planted in them.

use super::state::{ABSENT, Node, State, Step, Token, Verify, Work, Write};

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Bug {
    None,
    /// The guard is given when Revoke was sent.
    RevocationNotAwaited,
    /// The switch forgets a lease when the WRITE is sent, not when it is acknowledged.
    ForgottenAtWrite,
    /// The token is stored when the grant arrives, not before the request is sent.
    TokenStoredAtAnswer,
    NoHoldAfterDeath,
    NoHoldAfterRestart,
    GenerationIgnored,
    /// `lease_until` is counted from the arrival of the answer, not from the sending.
    CountedFromArrival,
    /// The hold is shorter than 2 D by a tick.
    HoldTooShort,
    /// A revocation is finished before `hold_until`.
    FinishedInHold,
    /// All requests for a lease store the same token.
    TokenReused,
    /// The version is not compared when a lease is asked for.
    VersionIgnored,
    /// An acknowledgement removes the lease, whichever revocation its WRITE is of.
    StaleCounts,
    /// `generation` and `lease_until` are two maxima.
    SeparateMaxima,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Model {
    /// D.
    pub(super) lease: u8,
    /// Requests for a lease that a node has in flight, 1 or 2.
    pub(super) verifies: usize,
    pub(super) deaths: usize,
    pub(super) restarts: u8,
    pub(super) bug: Bug,
}

/// What a step needs, or it is not possible.
fn need(condition: bool) -> Option<()> {
    condition.then_some(())
}

impl Model {
    fn has(&self, bug: Bug) -> bool {
        self.bug == bug
    }

    /// Whether a read under a lease is valid now.
    fn reads(&self, node: &Node) -> bool {
        let token = node.word.id != 0 && node.word == node.lease;
        let generation = node.word.generation == node.generation;
        let free = !matches!(node.work, Work::Guard | Work::Commit(_));
        let current = generation || self.has(Bug::GenerationIgnored);
        free && node.copy != ABSENT && token && current && node.left > 0
    }

    /// A node processes an answer of the switch: the maximum of generation and `lease_until`.
    fn receive(&self, node: &mut Node, generation: u8, left: u8) {
        let separate = self.has(Bug::SeparateMaxima);
        if generation > node.generation && !separate {
            node.left = left;
        } else if generation == node.generation || separate {
            node.left = node.left.max(left);
        }
        node.generation = node.generation.max(generation);
    }

    /// The state after a step, or nothing if the step is not possible.
    pub(super) fn apply<const N: usize>(&self, state: &State<N>, step: Step) -> Option<State<N>> {
        let mut next = *state;
        let s = &mut next;
        match step {
            Step::Ask(i) => self.ask(&mut s.nodes[i])?,
            Step::Verify(i, slot) => self.verify(s, i, slot)?,
            Step::Granted(i, slot) => self.granted(&mut s.nodes[i], slot)?,
            Step::Ping(i) => {
                need(!s.nodes[i].dead)?;
                self.receive(&mut s.nodes[i], s.generation, self.lease);
            }
            Step::Read(i) => {
                need(self.reads(&s.nodes[i]) && s.nodes[i].copy < s.returned)?;
                s.returned = s.nodes[i].copy;
            }
            Step::Fetch(i) | Step::Latch(i) | Step::Latched(i) | Step::Revoked(i) => {
                self.fix(s, i, step)?;
            }
            Step::Commit(i) | Step::Committed(i) | Step::Release(i) => end(s, i, step)?,
            Step::Write(i) => self.write(s, i)?,
            Step::Executed(i) | Step::StaleExecuted(i) => {
                let node = &mut s.nodes[i];
                let stale = step == Step::StaleExecuted(i);
                let write = if stale {
                    &mut node.stale
                } else {
                    &mut node.write
                };
                need(*write == Write::Sent)?;
                *write = Write::Executed;
                node.word = Token::default();
            }
            Step::Acknowledged(i) | Step::StaleAcknowledged(i) => {
                let node = &mut s.nodes[i];
                let stale = step == Step::StaleAcknowledged(i);
                need(if stale { node.stale } else { node.write } == Write::Executed)?;
                if stale {
                    node.stale = Write::None;
                }
                node.write = Write::None;
                node.leasing = false;
            }
            Step::Death(i) => self.die(s, i)?,
            Step::Restart => self.restart(s)?,
            Step::NodeTick(i) => {
                s.nodes[i].lag = s.nodes[i].lag.checked_sub(1)?;
                s.nodes[i].left = s.nodes[i].left.saturating_sub(1);
            }
            Step::Tick => {
                need(s.nodes.iter().all(|node| node.lag < self.lease))?;
                s.nodes.iter_mut().for_each(|node| node.lag += 1);
                s.hold = s.hold.saturating_sub(1);
            }
        }
        next.nodes.iter_mut().for_each(|node| self.forget(node));
        Some(next)
    }

    /// A node stores a fresh token and asks for a lease.
    fn ask(&self, node: &mut Node) -> Option<()> {
        let held = matches!(node.work, Work::Guard | Work::Commit(_));
        need(!node.dead && !held && node.copy != ABSENT && !self.reads(node))?;
        let slot = node.verifies[..self.verifies]
            .iter()
            .position(Option::is_none)?;
        let mut used = vec![node.word.id, node.lease.id];
        used.extend(node.verifies.iter().flatten().map(|verify| verify.token.id));
        let id = (1..).find(|id| self.has(Bug::TokenReused) || !used.contains(id))?;
        let (generation, version) = (node.generation, node.copy);
        let token = Token { id, generation };
        if !self.has(Bug::TokenStoredAtAnswer) {
            node.word = token;
        }
        node.verifies[slot] = Some(Verify {
            token,
            version,
            granted: None,
        });
        Some(())
    }

    /// The switch executes the request for a lease. If it refuses, the answer is as good as a ping.
    fn verify<const N: usize>(&self, s: &mut State<N>, i: usize, slot: usize) -> Option<()> {
        let latched = s.is_latched();
        let node = &mut s.nodes[i];
        let verify = node.verifies[slot].as_mut()?;
        need(!node.dead && verify.granted.is_none())?;
        if !latched && (verify.version == 0 || self.has(Bug::VersionIgnored)) {
            verify.granted = Some(s.generation);
            node.leasing = true;
        } else {
            node.verifies[slot] = None;
        }
        Some(())
    }

    /// A grant arrives.
    fn granted(&self, node: &mut Node, slot: usize) -> Option<()> {
        let verify = node.verifies[slot]?;
        let generation = verify.granted?;
        node.verifies[slot] = None;
        if node.copy == verify.version {
            node.lease = verify.token;
            if self.has(Bug::TokenStoredAtAnswer) {
                node.word = verify.token;
            }
        }
        // What is left of `sent + D` is no more than what a ping at the time of the sending left.
        let left = if self.has(Bug::CountedFromArrival) {
            self.lease
        } else {
            0
        };
        self.receive(node, generation, left);
        Some(())
    }

    /// A node gets a copy, the latch, or the guard.
    fn fix<const N: usize>(&self, s: &mut State<N>, i: usize, step: Step) -> Option<()> {
        let (free, others) = (!s.is_latched(), s.others_lease(i));
        let node = &mut s.nodes[i];
        match (step, node.work) {
            (Step::Fetch(_), Work::Idle) => {
                need(!node.dead && free && !self.reads(node))?;
                (node.copy, node.lease) = (0, Token::default());
                s.returned = 0;
            }
            (Step::Latch(_), Work::Idle) => {
                need(!node.dead && free && s.hold == 0)?;
                node.holder = true;
                node.work = Work::Latch { version: 0, others };
            }
            (Step::Latched(_), Work::Latch { version, others }) => {
                node.copy = version;
                let revoke = others && !self.has(Bug::RevocationNotAwaited);
                node.work = if revoke { Work::Revoke } else { Work::Guard };
            }
            (Step::Revoked(_), Work::Revoke) => {
                need(!others && (s.hold == 0 || self.has(Bug::FinishedInHold)))?;
                node.work = Work::Guard;
            }
            _ => return None,
        }
        Some(())
    }

    /// The controller declares a node dead.
    fn die<const N: usize>(&self, s: &mut State<N>, i: usize) -> Option<()> {
        let deaths = s.nodes.iter().filter(|node| node.dead).count();
        need(deaths < self.deaths && !s.nodes[i].dead)?;
        if s.nodes[i].holder || s.nodes[i].write != Write::None {
            s.end_revocation();
        }
        let node = &mut s.nodes[i];
        (node.dead, node.holder, node.leasing) = (true, false, false);
        self.begin_hold(s, Bug::NoHoldAfterDeath);
        Some(())
    }

    fn restart<const N: usize>(&self, s: &mut State<N>) -> Option<()> {
        need(s.generation < self.restarts)?;
        s.generation += 1;
        s.end_revocation();
        for node in &mut s.nodes {
            (node.holder, node.leasing) = (false, false);
        }
        self.begin_hold(s, Bug::NoHoldAfterRestart);
        Some(())
    }

    fn begin_hold<const N: usize>(&self, s: &mut State<N>, without: Bug) {
        if !self.has(without) {
            s.hold = 2 * self.lease - u8::from(self.has(Bug::HoldTooShort));
        }
    }

    /// The switch sends a WRITE of 0 for the holder's Revoke, if no other is in progress.
    fn write<const N: usize>(&self, s: &mut State<N>, i: usize) -> Option<()> {
        let revoking = |node: &Node| node.holder && node.work == Work::Revoke;
        need(s.nodes.iter().any(revoking) && s.nodes.iter().all(|n| n.write == Write::None))?;
        let node = &mut s.nodes[i];
        need(!node.holder && node.leasing)?;
        if self.has(Bug::ForgottenAtWrite) {
            (node.leasing, node.stale) = (false, Write::Sent);
        } else {
            node.write = Write::Sent;
        }
        Some(())
    }

    /// Removes differences between states that permit no further read.
    fn forget(&self, node: &mut Node) {
        if node.stale == Write::Executed && !self.has(Bug::StaleCounts) {
            node.stale = Write::None;
        }
        if let (false, Work::Latch { others, .. }) = (node.holder, &mut node.work) {
            *others = false;
        }
        if node.work == Work::Revoke && !node.holder {
            // A death or a restart has ended the attempt. The node receives that as it does a ping.
            node.work = Work::Idle;
        }
        if node.left == 0 {
            // A clock that is behind may go on to the global time at any moment.
            node.lag = 0;
        }
        // With these, what is forgotten below does permit reads.
        if !matches!(
            self.bug,
            Bug::TokenReused | Bug::TokenStoredAtAnswer | Bug::VersionIgnored
        ) {
            self.forget_tokens(node);
        }
    }

    /// The word only ever becomes a fresh token or 0, and generations only grow. So only the token
    /// in the word can be valid again. Its name does not matter.
    fn forget_tokens(&self, node: &mut Node) {
        let word = node.word;
        let current = word.generation == node.generation || self.has(Bug::GenerationIgnored);
        let rename = |token: &mut Token| {
            let useful = word.id != 0 && *token == word && current;
            token.id = u8::from(useful);
            token.generation *= token.id;
            useful
        };
        let mut used = rename(&mut node.lease);
        let mut granted = false;
        for slot in &mut node.verifies {
            let Some(verify) = slot else { continue };
            let useful = rename(&mut verify.token) && verify.version == node.copy;
            let refused = verify.version != 0 || node.dead;
            if verify.granted.map_or(refused, |_| !useful) {
                // The answer is as good as a ping, or never arrives.
                *slot = None;
                continue;
            }
            if !useful {
                verify.token = Token::default();
            }
            used |= useful;
            granted |= verify.granted.is_some();
        }
        node.word.id = u8::from(used);
        node.word.generation *= node.word.id;
        if node.lease.id == 0 && !granted && node.copy > 0 {
            // No lease is granted for an older version.
            node.copy = ABSENT;
        }
    }

    /// Says what is wrong in a state.
    pub(super) fn check<const N: usize>(&self, s: &State<N>) -> Option<&'static str> {
        let accepted = |n: &&Node| n.work == Work::Guard && n.holder;
        let guards: Vec<_> = s.nodes.iter().filter(accepted).collect();
        let stale = |node: &Node| self.reads(node) && node.copy > s.returned;
        if s.nodes.iter().any(stale) {
            Some("a leased read returns a version older than one that was returned before")
        } else if guards.len() > 1 || guards.iter().any(|node| node.copy != 0) {
            Some("a commit on top of an older version would be accepted")
        } else {
            None
        }
    }
}

/// A node ends a write guard.
fn end<const N: usize>(s: &mut State<N>, i: usize, step: Step) -> Option<()> {
    let node = &mut s.nodes[i];
    match (step, node.work) {
        (Step::Commit(_), Work::Guard) if node.holder => {
            (node.copy, node.holder) = (ABSENT, false);
            s.publish();
            s.nodes[i].work = Work::Commit(0);
        }
        // Refused: this node is no longer the holder.
        (Step::Commit(_), Work::Guard) => (node.copy, node.work) = (ABSENT, Work::Idle),
        (Step::Committed(_), Work::Commit(version)) => {
            (node.copy, node.work) = (version, Work::Idle);
            s.returned = s.returned.min(version);
        }
        (Step::Release(_), Work::Guard) => (node.holder, node.work) = (false, Work::Idle),
        _ => return None,
    }
    Some(())
}
