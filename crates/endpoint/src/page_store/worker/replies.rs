//! Assignment of answers to operations; validations.

use super::background::{Eviction, PendingUnfix};
use super::doubt::Doubt;
use super::flush::{FlushKey, Sync};
use super::{Key, Worker};
use crate::page_store::FixError;
use crate::page_store::directory::{Answer, Directory, Op, Reply};
use rackweave_verbs::Verbs;

pub(super) use rackweave_wire::fabric::page::LatchWord as Latch;

/// What an operation was started for.
#[derive(Debug)]
pub(super) enum Job {
    Fix(Key),
    Validate(Key),
    Unfix(PendingUnfix),
    Evict(Eviction),
    Quiesce(u64),
    Sync(FlushKey, Sync),
    Doubt(Doubt),
}

impl<D: Directory> Worker<D> {
    pub(super) fn take_reply(&mut self, reply: Reply) {
        let at = self
            .jobs
            .iter()
            .position(|(ticket, _)| *ticket == reply.ticket);
        debug_assert!(at.is_some(), "an answer to a question that nobody asked");
        let Some(at) = at else {
            return;
        };
        match self.jobs.swap_remove(at).1 {
            Job::Fix(key) => self.fix_answered(key, reply.answer, reply.latch),
            Job::Validate(key) => self.validated(key, reply.answer, reply.latch),
            Job::Unfix(unfix) => self.unfixed(unfix, reply.answer, reply.latch),
            Job::Evict(eviction) => self.evicted(eviction, reply.answer),
            Job::Quiesce(question) => self.quiesced(question, reply.answer),
            Job::Sync(key, sync) => self.synced(key, sync, reply.answer),
            Job::Doubt(doubt) => self.doubt_answered(doubt, reply.answer),
        }
    }

    /// Starts the pending validations.
    pub(super) fn poll_validations(&mut self, verbs: &mut dyn Verbs) -> bool {
        let mut happened = false;
        let mut at = 0;
        while at < self.waiting_validations.len() {
            let key = self.waiting_validations[at];
            let Some(validating) = self.validations.get(key) else {
                self.waiting_validations.swap_remove(at);
                continue;
            };
            let op = Op::Verify {
                page: validating.page,
                lease: None,
            };
            let ticket = if validating.not_before > self.now {
                None
            } else {
                self.directory.begin(self.now, verbs, op)
            };
            match ticket {
                Some(ticket) => {
                    self.jobs.push((ticket, Job::Validate(key)));
                    self.waiting_validations.swap_remove(at);
                    happened = true;
                }
                None => at += 1,
            }
        }
        happened
    }

    fn validated(&mut self, key: Key, answer: Answer, latch: Latch) {
        let again = self.gone_until(2);
        let Some(validating) = self.validations.get_mut(key) else {
            return;
        };
        let result = match answer {
            Answer::Done => Ok(!latch.is_locked() && latch.version() == validating.version),
            Answer::Locked => Ok(false),
            Answer::Lost => Err(FixError::Lost(validating.page)),
            Answer::Invalid => Err(FixError::NoSuchPage(validating.page)),
            Answer::NotMember => Err(FixError::NotMember(validating.page)),
            Answer::Fenced => Err(FixError::Fenced),
            _ => {
                self.statistics.gone += 1;
                let since = *validating.gone_since.get_or_insert(self.now);
                if self.now.since(since) >= self.pool.config.patience {
                    Err(FixError::Gone)
                } else {
                    validating.not_before = again;
                    self.waiting_validations.push(key);
                    return;
                }
            }
        };
        validating.result = Some(result);
    }
}
