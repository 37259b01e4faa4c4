//! A node that gives back latches which are not its own. Nothing must come of it.

use super::shared::Shared;
use rackweave_base::{Duration, Rng};
use rackweave_endpoint::page_store::directory::{Answer, Channel, Directory, Op};
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// The rogue. It ends by itself.
pub(super) struct Rogue {
    shared: Rc<Shared>,
    channel: Channel,
    left: u32,
    asked: Option<Op>,
    /// How often the directory had begun anew by then.
    asked_in: u64,
    rng: Rng,
}

impl Rogue {
    pub fn new(shared: Rc<Shared>, channel: Channel) -> Self {
        Self {
            rng: Rng::new(shared.seed).fork("rogue"),
            left: 2 * shared.habits.fixes,
            shared,
            channel,
            asked: None,
            asked_in: 0,
        }
    }

    fn op(&mut self) -> Op {
        let range = if self.rng.chance(0.8) {
            self.shared.habits.hot_pages
        } else {
            self.shared.pages
        };
        let page = self.shared.page(self.rng.below(range));
        if self.rng.chance(0.5) {
            Op::Release { page }
        } else {
            let frame = self.rng.below(4) as u32;
            Op::Unfix { page, frame }
        }
    }
}

impl Actor for Rogue {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        while let Some(reply) = self.channel.poll(now, context.nic()) {
            let op = self.asked.take();
            // Of a request that was made again nobody knows what came of it.
            let is_renewed = self.asked_in != self.channel.beginnings();
            if reply.answer == Answer::Done && !is_renewed {
                self.shared.wrong(format!(
                    "{op:?} by a node that does not have the latch was done"
                ));
            }
        }
        if self.asked.is_some() {
            return match self.channel.poll_timeout() {
                Some(due) => Step::WaitUntil(due),
                None => Step::WaitForPacket,
            };
        }
        if self.left == 0 {
            return Step::Done;
        }
        self.left -= 1;
        let op = self.op();
        if self.channel.begin(now, context.nic(), op).is_some() {
            self.asked = Some(op);
            self.asked_in = self.channel.beginnings();
        }
        Step::Sleep(Duration::from_nanos(1 + self.rng.below(4000)))
    }
}
