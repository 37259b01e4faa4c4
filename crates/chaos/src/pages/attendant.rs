//! Polls those workers of a node whose actors are done.
//!
//! A rebuilt directory may query a node about pages in doubt, and holds their latches for the node
//! until the answers are in. A node answers only while one of its workers is polled. A
//! `PageService` likewise polls workers that no thread uses, while any thread waits for a page.

use super::shared::{Session, Shared};
use crate::campaign::wait;
use rackweave_sim::world::{Actor, Context, Step};
use std::rc::Rc;

/// The attendant. It ends when no work is left.
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
            // A worker in use is polled by its user.
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
