//! Shares: flows with a weight wait for those that are behind (start-time fair queueing over whole
//! transfers).

use super::{Digests, FlowTask, Flows, Tasks, ThreadId};
use rackweave_switch::Pass;

impl Flows {
    /// Finds the flow of a domain that is furthest behind, in proportion to its weight, among those
    /// that have items to move and must wait. The others may be one batch ahead of it.
    pub(super) fn level<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        domain: ThreadId,
        at: ThreadId,
        least: u64,
    ) {
        let weight = self.threads.lookup(at.index()).and_then(|t| t.weight);
        // A domain that has changed meanwhile has other members, and this circle may not close.
        let Some(weight) = weight.filter(|weight| weight.domain == domain) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let account = weight.account.index();
        let served = registers.served.read(cursor, account);
        let is_last = weight.next == domain;
        let waits = registers.waiting.read(cursor, account) != 0;
        let least = if waits { least.min(served) } else { least };
        if !is_last {
            pass.recirculate(FlowTask::Level {
                domain,
                at: weight.next,
                least,
            });
        } else if least != u64::MAX {
            pass.recirculate(FlowTask::Raise {
                domain,
                floor: least,
            });
        }
    }

    /// Stores the result of [`Flows::level`], and wakes the threads of the domain if that lets any
    /// of them continue.
    pub(super) fn raise<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        domain: ThreadId,
        floor: u64,
    ) {
        let before = self
            .registers
            .floor
            .update(&mut pass.cursor, domain.index(), |cell| {
                let before = *cell;
                *cell = before.max(floor);
                before
            });
        if floor > before {
            pass.recirculate(FlowTask::WakeDomain { domain, at: domain });
        }
    }

    /// Wakes one thread after the other, round the circle of those whose flows share a link.
    pub(super) fn wake_domain<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        domain: ThreadId,
        at: ThreadId,
    ) {
        let weight = self.threads.lookup(at.index()).and_then(|t| t.weight);
        let Some(weight) = weight.filter(|weight| weight.domain == domain) else {
            return;
        };
        if weight.next != domain {
            pass.mirror(FlowTask::WakeDomain {
                domain,
                at: weight.next,
            });
        }
        self.wake(pass, at);
    }
}
