//! Control-plane operations of the sequencers. They are not bound to passes.

use super::registers::{ANSWERS, NEVER};
use super::{SequencerChannel, SequencerEntry, Sequencers};
use rackweave_switch::table::TableError;
use rackweave_switch::transfer::LaneId;

impl Sequencers {
    /// Makes a lane a client's connection, or ends that. No state of an earlier connection with the
    /// same number is kept.
    ///
    /// # Errors
    /// If there is no such lane or channel.
    pub fn set_channel(
        &mut self,
        lane: LaneId,
        channel: Option<SequencerChannel>,
    ) -> Result<(), TableError> {
        if let Some(channel) = channel {
            let number = usize::from(channel.number);
            if number >= self.config.channels() {
                return Err(TableError::Full {
                    table: "sequencer.expected",
                    capacity: self.config.channels(),
                });
            }
            *self.registers.expected.control(number) = channel.first.get();
            for at in number * ANSWERS..(number + 1) * ANSWERS {
                *self.registers.answered.control(at) = NEVER;
            }
        }
        self.channels.set(lane.index(), channel)
    }

    /// Enters a sequencer whose numbers begin with `next` and end before `limit`, until it is
    /// raised.
    ///
    /// # Errors
    /// If its number is beyond the table.
    pub fn set_sequencer(
        &mut self,
        index: u16,
        entry: SequencerEntry,
        next: u64,
        limit: u64,
    ) -> Result<(), TableError> {
        let at = usize::from(index);
        self.sequencers.set(at, Some(entry))?;
        *self.registers.next.control(at) = next;
        *self.registers.limit.control(at) = limit;
        Ok(())
    }

    /// Removes a sequencer: requests for it are refused from now on.
    pub fn remove_sequencer(&mut self, index: u16) {
        if self.sequencers.set(usize::from(index), None).is_ok() {
            *self.registers.limit.control(usize::from(index)) = 0;
        }
    }

    /// Raises a sequencer's limit. It is never lowered.
    pub fn raise_limit(&mut self, index: u16, limit: u64) {
        if self.sequencer(index).is_some() {
            let cell = self.registers.limit.control(usize::from(index));
            *cell = limit.max(*cell);
        }
    }

    /// A sequencer.
    pub fn sequencer(&self, index: u16) -> Option<SequencerEntry> {
        self.sequencers.lookup(usize::from(index)).copied()
    }

    /// The next number and the limit of a sequencer.
    pub fn numbers(&self, index: u16) -> Option<(u64, u64)> {
        self.sequencer(index)?;
        let at = usize::from(index);
        Some((self.registers.next.peek(at), self.registers.limit.peek(at)))
    }
}
