//! The passes of the engine's tasks: starting transfers and word operations, reissuing, abandoning.

use super::engine::{Engine, clock};
use super::patience::{Blame, Patience};
use super::registers::stored;
use super::{Cause, EngineConfig, EngineEvent, EngineTask, Lane, LaneId, LaneKind, Start, emit};
use crate::pass::Pass;
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Duration, Memory, Packet, Psn, Rkey};

impl Engine {
    /// Runs one pass of an engine task.
    pub fn task<T, D>(&mut self, pass: &mut Pass<'_, T, D>, task: EngineTask)
    where
        T: From<EngineTask> + From<EngineEvent>,
    {
        match task {
            EngineTask::Start(start) => self.start(pass, &start),
            EngineTask::ReadWord(lane) => self.word(pass, lane, 0, ([0; 8], [0; 8]), 0),
            EngineTask::WriteWords {
                lane,
                first,
                second,
                cookie,
            } => {
                let length = if second.is_some() { 16 } else { 8 };
                let bytes = (first, second.unwrap_or_default());
                self.word(pass, lane, length, bytes, cookie);
            }
            EngineTask::WriteWordAt {
                lane,
                offset,
                word,
                cookie,
            } => self.word(pass, lane, 8, (word, offset.to_le_bytes()), cookie),
            EngineTask::Gather {
                lane,
                at,
                left,
                from,
                slowest,
                cause,
            } => self.gather(pass, lane, (at, left), (from, slowest), cause),
            EngineTask::Complete(lane) => self.complete(pass, lane),
            EngineTask::Reissue {
                lane,
                from,
                slowest,
                cause,
            } => self.reissue(pass, lane, from, slowest, cause),
            EngineTask::Refuse { lane, target, psn } => {
                let cursor = &mut pass.cursor;
                self.registers
                    .target_next
                    .write(cursor, target.index(), psn.get());
                let cookie = self.registers.cookie.read(cursor, lane.index());
                pass.disarm(u32::from(lane.0));
                pass.recirculate(EngineEvent::Refused { lane, cookie });
            }
            EngineTask::Abandon {
                lane,
                blame,
                reason,
            } => {
                let (at, cursor) = (lane.index(), &mut pass.cursor);
                let count = self.registers.count.read(cursor, at);
                if self.registers.acked.write(cursor, at, count) != count {
                    let cookie = self.registers.cookie.read(cursor, at);
                    pass.disarm(u32::from(lane.0));
                    pass.recirculate(EngineEvent::Failed {
                        lane,
                        cookie,
                        blame,
                        reason,
                    });
                }
            }
        }
    }

    fn start<T, D>(&mut self, pass: &mut Pass<'_, T, D>, start: &Start) {
        let (at, to) = (start.source.index(), start.target.index());
        let Some(lane) = self.lanes.lookup(at) else {
            return;
        };
        let count = start.length.div_ceil(lane.mtu);
        debug_assert!(count > 0, "a transfer has at least one byte");
        let members = match self.lanes.lookup(to).map(|lane| lane.kind) {
            Some(LaneKind::Group { members, .. }) => members,
            _ => 0,
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let advance = |next: &mut u32| {
            let first = Psn::new(*next);
            *next = first.add(count).get();
            first
        };
        registers.owner.write(cursor, to, at as u32);
        let first = registers.next.update(cursor, at, advance);
        let target_first = registers.target_next.update(cursor, to, advance);
        registers.first.write(cursor, at, first.get());
        registers.target_first.write(cursor, to, target_first.get());
        registers.target.write(cursor, at, to as u32);
        let before = registers.count.write(cursor, at, count);
        if self.header_checks {
            registers.header.write(cursor, at, stored(start.header));
        }
        let acked = registers.acked.write(cursor, at, 0);
        debug_assert_eq!(before, acked, "lane {at} is busy");
        registers.retries.write(cursor, at, 0);
        registers.activity.write(cursor, at, clock(pass.now));
        registers.length.write(cursor, at, start.length);
        if !planted(Canary::TransferStaleOffset) || before == 0 {
            registers
                .offset
                .write(cursor, at, target_first.distance_from(first));
        }
        registers.cookie.write(cursor, at, start.cookie);
        registers
            .source_address
            .write(cursor, at, start.source_address);
        registers
            .target_address
            .write(cursor, at, start.target_address);
        registers.source_rkey.write(cursor, at, start.source_rkey.0);
        registers.target_rkey.write(cursor, at, start.target_rkey.0);
        let seen = if start.header.is_some() { 0 } else { !members };
        registers.complete.write(cursor, at, seen);
        let place = (start.source_address, start.source_rkey, start.length);
        let read = emit::read(&self.config, &self.memory, lane, first, place);
        pass.arm(at as u32, self.config.timeout);
        pass.forward(lane.port, read);
    }

    /// Starts a word READ (`length` zero) or WRITE. For one word, `high` is its offset from the
    /// lane's address.
    fn word<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: LaneId,
        length: u32,
        (low, high): ([u8; 8], [u8; 8]),
        cookie: u32,
    ) {
        let (at, registers, cursor) = (id.index(), &mut self.registers, &mut pass.cursor);
        let Some(lane) = self.lanes.lookup(at) else {
            return;
        };
        let psn = registers.next.update(cursor, at, |next| {
            let psn = Psn::new(*next);
            *next = psn.add(1).get();
            psn
        });
        registers.first.write(cursor, at, psn.get());
        let before = registers.count.write(cursor, at, 1);
        let acked = registers.acked.write(cursor, at, 0);
        debug_assert_eq!(before, acked, "word lane {at} is busy");
        registers.retries.write(cursor, at, 0);
        registers.activity.write(cursor, at, clock(pass.now));
        registers.length.write(cursor, at, length);
        registers.cookie.write(cursor, at, cookie);
        registers
            .source_address
            .write(cursor, at, u64::from_le_bytes(low));
        registers
            .target_address
            .write(cursor, at, u64::from_le_bytes(high));
        let packet = Self::word_packet(&self.config, &self.memory, lane, psn, length, (low, high));
        pass.arm(at as u32, self.config.timeout);
        if let Some(packet) = packet {
            pass.forward(lane.port, packet);
        }
    }

    fn word_packet(
        config: &EngineConfig,
        memory: &Memory,
        lane: &Lane,
        psn: Psn,
        length: u32,
        (low, high): ([u8; 8], [u8; 8]),
    ) -> Option<Packet> {
        let LaneKind::Word { address, rkey } = lane.kind else {
            return None;
        };
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&low);
        bytes[8..].copy_from_slice(&high);
        Some(match length {
            0 => emit::read(config, memory, lane, psn, (address, rkey, 8)),
            8 => {
                let at = address.wrapping_add(u64::from_le_bytes(high));
                emit::write(config, memory, lane, psn, (at, rkey), &low)
            }
            _ => emit::write(config, memory, lane, psn, (address, rkey), &bytes),
        })
    }

    /// Reissues the request for what is missing, or abandons the operation.
    fn reissue<T, D>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        id: LaneId,
        from: u32,
        slowest: Option<LaneId>,
        cause: Cause,
    ) where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let at = id.index();
        let Some(&lane) = self.lanes.lookup(at) else {
            return;
        };
        let (registers, cursor) = (&mut self.registers, &mut pass.cursor);
        let first = Psn::new(registers.first.read(cursor, at));
        let target = LaneId(registers.target.read(cursor, at) as u16);
        let count = registers.count.read(cursor, at);
        let from = registers.acked.read(cursor, at).max(from);
        let patience = registers.retries.update(cursor, at, |retries| {
            let patience = Patience::of(*retries).again(cause);
            *retries = patience.cell();
            patience
        });
        if from >= count {
            return;
        }
        if let Some((blame, reason)) = patience.exhausted(self.config.retries) {
            let has_target = lane.kind == LaneKind::Source && blame == Blame::Target;
            return pass.recirculate(EngineTask::Abandon {
                lane: id,
                blame: if has_target {
                    slowest.unwrap_or(target)
                } else {
                    id
                },
                reason,
            });
        }
        registers.activity.write(cursor, at, clock(pass.now));
        let length = registers.length.read(cursor, at);
        let source = registers.source_address.read(cursor, at);
        let high = registers.target_address.read(cursor, at);
        let rkey = Rkey(registers.source_rkey.read(cursor, at));
        let packet = if lane.kind == LaneKind::Source {
            let skipped = if planted(Canary::TransferReissueFromStart) {
                0
            } else {
                from * lane.mtu
            };
            let place = (source + u64::from(skipped), rkey, length - from * lane.mtu);
            Some(emit::read(
                &self.config,
                &self.memory,
                &lane,
                first.add(from),
                place,
            ))
        } else {
            let values = (source.to_le_bytes(), high.to_le_bytes());
            Self::word_packet(&self.config, &self.memory, &lane, first, length, values)
        };
        pass.arm(at as u32, self.config.timeout);
        if let Some(packet) = packet {
            pass.forward(lane.port, packet);
        }
    }

    /// Handles a generated packet for lane `key`: checks whether the peer has answered since.
    pub fn generated<T, D>(&mut self, pass: &mut Pass<'_, T, D>, key: u32)
    where
        T: From<EngineTask> + From<EngineEvent>,
    {
        let (at, cursor) = (key as usize, &mut pass.cursor);
        let lane = LaneId(key as u16);
        let target = LaneId(self.registers.target.read(cursor, at) as u16);
        let count = self.registers.count.read(cursor, at);
        if self.registers.acked.read(cursor, at) == count {
            return;
        }
        let since = clock(pass.now).wrapping_sub(self.registers.activity.read(cursor, at));
        let waited = Duration::from_nanos(u64::from(since) << 10);
        // The clock of `activity` ticks every 1024 ns, so `waited` may be off by one tick.
        if waited + Duration::from_nanos(1024) < self.config.timeout {
            pass.arm(
                key,
                Duration::from_nanos(self.config.timeout.as_nanos() - waited.as_nanos()),
            );
            return;
        }
        let is_source = |lane: &&Lane| lane.kind == LaneKind::Source;
        let source = self.lanes.lookup(at).filter(is_source);
        let group = source.and_then(|_| self.lanes.lookup(target.index()));
        pass.recirculate(match group.map(|lane| lane.kind) {
            Some(LaneKind::Group { first, members }) => {
                EngineTask::gather(lane, first, members, Cause::Timeout)
            }
            _ => EngineTask::Reissue {
                lane,
                from: 0,
                slowest: None,
                cause: Cause::Timeout,
            },
        });
    }
}
