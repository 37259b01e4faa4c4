//! The end of a stream, and the pause at which a consumer joins or leaves.

use super::{ConsumerId, Digests, ENDED, FlowDigest, FlowTask, Flows, Tasks, ThreadId, Whose};
use rackweave_switch::Pass;
use rackweave_wire::fabric::ring::{CommitRecord, SwitchState, SwitchWord};

impl Flows {
    /// Announces the end of the stream, once, or reports a pause.
    pub(super) fn try_end<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let issued = registers.issued.read(cursor, at);
        if registers.committed.read(cursor, at) != issued {
            return;
        }
        let reserved = registers.reserved.read(cursor, at);
        let head = registers.head_published.read(cursor, at);
        let drained = registers.drained_count.read(cursor, thread.group.index());
        let end = |ended: &mut u32| {
            let before = *ended;
            *ended = before.max(ENDED);
            before
        };
        let is_over = drained >= u32::from(thread.producers);
        if !is_over {
            if thread.pause_at == Some(reserved) {
                pass.digest(FlowDigest::Quiet(Whose::Consumer(ConsumerId(id.0))));
            }
            return;
        }
        if registers.ended.update(cursor, at, end) != 0 {
            return;
        }
        let word = SwitchWord {
            counter: head,
            state: SwitchState::Ended,
        };
        // Nothing is in flight any more, so the commit record is no longer needed.
        pass.recirculate(FlowTask::TellEnd { thread: id, word });
    }

    /// Notifies the consumers that no more items will come.
    pub(super) fn tell_end<T: Tasks, D: Digests>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: ThreadId,
        word: SwitchWord,
    ) {
        let Some(thread) = self.threads.lookup(id.index()) else {
            return;
        };
        self.registers
            .head_sent
            .write(&mut pass.cursor, id.index(), !thread.members);
        pass.recirculate(FlowTask::Tell {
            thread: id,
            at: thread.first_consumer,
            left: thread.consumers,
            record: CommitRecord::default(),
            word,
        });
    }
}
