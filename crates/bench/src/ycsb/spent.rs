//! Measures where the time of real threads goes.

use super::outcome::TimeShare;
use rackweave_base::Instant;
use rackweave_rack::Node;
use rackweave_verbs::Progress as _;

/// One in this many rounds of a thread is measured, because reading the clock takes time.
const MEASURED_EVERY: u32 = 16;

/// Where a thread's time went, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(crate) struct Spent {
    rounds: u32,
    /// Of measured rounds.
    compute: u64,
    /// Of measured rounds.
    communication: u64,
    waiting: u64,
    pub all: u64,
}

/// A round of a thread: it first computes, then communicates.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    /// Present if the round is measured.
    began: Option<Instant>,
    computed: Option<Instant>,
}

impl Round {
    /// Marks the end of computing; the rest of the round is communication.
    pub fn computed(&mut self, node: &Node) {
        if self.began.is_some() {
            self.computed = Some(node.now());
        }
    }
}

impl Spent {
    pub fn begin(&mut self, node: &Node) -> Round {
        self.rounds = self.rounds.wrapping_add(1);
        let is_measured = self.rounds.is_multiple_of(MEASURED_EVERY);
        Round {
            began: is_measured.then(|| node.now()),
            computed: None,
        }
    }

    /// Ends a round. A round without progress counts as waiting.
    pub fn end(&mut self, node: &Node, round: Round, moved: bool) {
        if let Some(began) = round.began.filter(|_| moved) {
            let now = node.now();
            let computed = round.computed.unwrap_or(now);
            self.compute += computed.since(began).as_nanos();
            self.communication += now.since(computed).as_nanos();
        }
    }

    /// Rests if nothing progressed; `idle_rounds` is the number of such rounds so far.
    pub fn rest(&mut self, node: &Node, moved: bool, idle_rounds: u32) -> u32 {
        if moved {
            return 0;
        }
        let began = node.now();
        node.relax(idle_rounds);
        self.waiting += node.now().since(began).as_nanos();
        idle_rounds.saturating_add(1)
    }
}

/// Adds up where the time of the threads went, if there are any.
pub(crate) fn shares(who: &'static str, threads: impl Iterator<Item = Spent>) -> Option<TimeShare> {
    let mut sum = Spent::default();
    let mut count = 0;
    for spent in threads {
        count += 1;
        sum.compute += spent.compute;
        sum.communication += spent.communication;
        sum.waiting += spent.waiting;
        sum.all += spent.all;
    }
    let waiting = sum.waiting as f64 / sum.all.max(1) as f64;
    let measured = sum.compute + sum.communication;
    // Local threads do not communicate and are not measured.
    let compute = match measured {
        0 => 1.0,
        _ => sum.compute as f64 / measured as f64,
    };
    (count > 0).then_some(TimeShare {
        who,
        compute: (1.0 - waiting) * compute,
        communication: (1.0 - waiting) * (1.0 - compute),
        waiting,
    })
}
