//! A node that releases latches which it does not hold. This must have no effect.
//!
//! If it is not a member of the store, it sends all other requests as well, and every one must be
//! refused.

use super::plan::PagesPlan;
use super::shared::Shared;
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::page_store::directory::{Answer, Channel, Directory, Mode, Op};
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// The rogue. It ends by itself.
pub(super) struct Rogue {
    shared: Rc<Shared>,
    channel: Channel,
    /// Whether it is a member of the store.
    is_member: bool,
    left: u32,
    asked: Option<Op>,
    /// Number of its connections' renewals at the time of the request.
    asked_in: u64,
    rng: Rng,
}

impl Rogue {
    pub fn new(shared: Rc<Shared>, channel: Channel, plan: &PagesPlan) -> Self {
        Self {
            rng: Rng::new(shared.seed).fork("rogue"),
            is_member: plan.is_open_to_rogue(),
            left: 2 * shared.habits.fixes,
            shared,
            channel,
            asked: None,
            asked_in: 0,
        }
    }

    fn op(&mut self) -> Op {
        let range = match self.rng.chance(0.8) {
            true => self.shared.habits.hot_pages,
            false => self.shared.pages,
        };
        let page = self.shared.page(self.rng.below(range));
        let frame = self.rng.below(4) as u32;
        let kinds = if self.is_member { 2 } else { 8 };
        let fetch = |mode| Op::Fetch {
            page,
            mode,
            frame,
            have: None,
        };
        match self.rng.below(kinds) {
            0 => Op::Release { page },
            1 => Op::Unfix { page, frame },
            2 => fetch(Mode::Shared),
            3 => fetch(Mode::Exclusive),
            4 => Op::Verify { page, lease: None },
            5 => Op::ReadHome { page },
            6 => Op::Flush {
                store: page.store(),
            },
            _ => Op::Evict {
                page,
                frame,
                keep: false,
            },
        }
    }

    /// Returns what is wrong with an answer.
    fn judge(&self, answer: Answer) -> Option<&'static str> {
        // The outcome of a repeated request is unknown.
        let is_renewed = self.asked_in != self.channel.renewals();
        match answer {
            Answer::Done if self.is_member && !is_renewed => {
                Some("by a node that does not have the latch was done")
            }
            // No peer was available to refuse it.
            Answer::NotMember | Answer::Gone => None,
            _ if !self.is_member => {
                Some("by a node to which the store is not open was not refused")
            }
            _ => None,
        }
    }
}

impl Actor for Rogue {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        while let Some(reply) = self.channel.poll(now, context.nic()) {
            let op = self.asked.take();
            if let Some(wrong) = self.judge(reply.answer) {
                let answer = reply.answer;
                let wrong = format!("{op:?} {wrong}: {answer:?}");
                self.shared.wrong.push(wrong);
            }
        }
        if self.asked.is_some() {
            let due = self.channel.poll_timeout();
            return due.map_or(Step::WaitForPacket, Step::WaitUntil);
        }
        if self.left == 0 {
            return Step::Done;
        }
        self.left -= 1;
        let op = self.op();
        if self.channel.begin(now, context.nic(), op).is_some() {
            self.asked = Some(op);
            self.asked_in = self.channel.renewals();
        }
        Step::Sleep(Duration::from_nanos(1 + self.rng.below(4000)))
    }
}
