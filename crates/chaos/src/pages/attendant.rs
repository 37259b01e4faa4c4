//! Polls those workers of a node whose actors have done their part.
//!
//! A directory that was made again may ask a node about pages in doubt, and holds their latches for
//! it until it has found out. A node does that while one of its workers is polled, and no longer:
//! as a `PageService` does with those that nobody has, while anybody waits for a page.

use super::shared::{Session, Shared};
use crate::campaign::wait;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// The attendant. It ends when nothing is left to be done.
pub(super) struct Attendant {
    pub shared: Rc<Shared>,
    pub sessions: Vec<Rc<Session>>,
}

impl Actor for Attendant {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let now = context.now();
        let (mut is_idle, mut due) = (true, None);
        for session in &self.sessions {
            if session.is_presumed_dead.get() {
                return Step::Done;
            }
            let mut resting = session.worker.borrow_mut();
            // One at work is polled by who has it.
            let Some(worker) = resting.as_mut() else {
                continue;
            };
            let happened = worker.poll(now, context.nic());
            self.shared.tell_losses(session.who, worker);
            is_idle &= !happened && worker.is_idle();
            let at_once = happened.then_some(now);
            due = [due, at_once, worker.poll_timeout()]
                .into_iter()
                .flatten()
                .min();
        }
        match is_idle {
            true => Step::Done,
            false => wait(now, due),
        }
    }
}
