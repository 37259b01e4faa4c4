//! The directory's answers, counted by kind. As in the index, these are counters that a switch
//! attaches to its actions; they take no register.

use super::PageTask;
use super::movement::Work;
use rackweave_base::counters;
use rackweave_wire::fabric::page::{Operation, Status};

counters! {
    /// Answers of the page directory since the switch started. Every request that is the next one
    /// of its channel is counted in one of these; [`PageCounters::leased`],
    /// [`PageCounters::repeated`] and [`PageCounters::dropped_meanwhile`] are counted separately.
    PageCounters {
        /// The latch is granted, or the page free to read, and the requester's own copy is current:
        /// nothing moves.
        local,
        /// The page comes from the memory of the node that caches it, unless that has died.
        memory,
        /// The page comes from its SSD.
        storage,
        /// The latch word was requested.
        verified,
        /// A page was changed: the latch is released, and the newest version is at the node that
        /// changed it.
        unfixed,
        /// The latch is released, nothing was changed.
        released,
        /// The page is written to its SSD.
        written,
        /// What was written to a store is to become durable.
        flushed,
        /// Leases of other nodes on a page are to be revoked.
        revoked,
        /// Another node holds the latch.
        locked,
        /// The directory has no entry for the page.
        not_indexed,
        /// The newest version was lost with its node.
        lost,
        /// The releasing worker does not hold the latch.
        not_holder,
        /// The page to be written is no longer located at the requester.
        superseded,
        /// No lane was free, or the page is being written: the requester retries.
        busy,
        /// The request is invalid.
        invalid,
        /// The page's store is not open to the requester's node.
        not_member,
        /// Requests on a slot whose last request had not ended; they had no effect.
        slot_busy,
        /// Requests of nodes about their own channel, which concern no page.
        housekeeping,
        /// Leases given. Their requests are counted in [`PageCounters::verified`], too.
        leased,
        /// Repeated requests, answered as before.
        repeated,
        /// Pages that their node had dropped when they were to be moved from there; indexed ones
        /// come from their other place, or from the SSD.
        dropped_meanwhile,
    }
}

impl PageCounters {
    /// Counts an answer, with the movement that it starts.
    #[inline]
    pub(super) fn count(&mut self, operation: Operation, status: Status, work: Option<&Work>) {
        let counter = match (status, operation) {
            (Status::Moving, Operation::Evict | Operation::WriteHome) => &mut self.written,
            (Status::Moving, Operation::Flush) => &mut self.flushed,
            (Status::Moving | Status::Current, Operation::Revoke) => &mut self.revoked,
            (Status::Moving, _) => match work {
                Some(Work::Page(PageTask::Command { .. })) => &mut self.storage,
                _ => &mut self.memory,
            },
            (Status::Current, Operation::Verify) => &mut self.verified,
            (Status::Current, Operation::Unfix | Operation::Own) => &mut self.unfixed,
            (Status::Current, Operation::Release | Operation::Disown) => &mut self.released,
            (Status::Current, Operation::Aim | Operation::Quiesce) => &mut self.housekeeping,
            (Status::Current, _) => &mut self.local,
            (Status::Locked, _) => &mut self.locked,
            (Status::NotIndexed, _) => &mut self.not_indexed,
            (Status::Lost, _) => &mut self.lost,
            (Status::NotHolder, _) => &mut self.not_holder,
            (Status::Superseded, _) => &mut self.superseded,
            (Status::Busy, Operation::Quiesce) => &mut self.housekeeping,
            (Status::Busy, _) => &mut self.busy,
            (Status::Invalid, _) => &mut self.invalid,
            (Status::NotMember, _) => &mut self.not_member,
        };
        *counter += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rkey;
    use rackweave_switch::transfer::{LaneId, Start};

    #[test]
    fn every_answer_is_counted_once() {
        let mut counters = PageCounters::default();
        let command = Work::Page(PageTask::Command { slot: 0, store: 0 });
        let moved = Work::Transfer(Start {
            source: LaneId(0),
            target: LaneId(1),
            source_address: 0,
            source_rkey: Rkey(0),
            target_address: 0,
            target_rkey: Rkey(0),
            length: 4096,
            cookie: 0,
            header: None,
        });
        let all = |counters: &PageCounters| counters.list().map(|(_, count)| count).sum::<u64>();
        let mut answers = 0;
        for number in 1..=17 {
            let operation = Operation::from_number(number).expect("there are seventeen");
            for status in [
                Status::Moving,
                Status::Current,
                Status::Locked,
                Status::NotIndexed,
                Status::Lost,
                Status::NotHolder,
                Status::Superseded,
                Status::Busy,
                Status::Invalid,
                Status::NotMember,
            ] {
                for task in [None, Some(&command), Some(&moved)] {
                    counters.count(operation, status, task);
                    answers += 1;
                    assert_eq!(all(&counters), answers, "{operation:?} {status:?} {task:?}");
                }
            }
        }
        assert_eq!(counters.verified, 3);
        assert_eq!(counters.written, 2 * 3);
        assert_eq!((counters.flushed, counters.revoked), (3, 6));
        // Thirteen operations move pages to the requester, judging by the kind of answer.
        assert_eq!((counters.storage, counters.memory), (13, 26));
    }
}
