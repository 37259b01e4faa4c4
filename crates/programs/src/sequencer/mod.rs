//! Sequencers in the switch: a fetch-and-add is answered from a register. The sequencers
//! in hosts and DPUs are those of bluefield-dpu, section 4.4.
//!
//! A client's queue pair ends in the switch. Its request is an RC fetch-and-add that names a
//! sequencer by address and key ([`rackweave_wire::fabric::sequencer`]); in one pass the register
//! is increased, and the atomic acknowledge with its previous value leaves. Packets pass one after
//! another, so no two requests get the same number, and a request sent after an answer gets higher
//! ones.
//!
//! The switch responds as a NIC does:
//!
//! - A request with the expected PSN is carried out. One ahead of it triggers one NAK (go back N);
//!   the following ones are dropped (specification 1.4, 9.7.5.2.8).
//! - A request behind it has been carried out. It is answered from the stored results, of which
//!   there are as many as a queue pair may have requests in flight (9.4.5, 9.7.5.1.3); an older one
//!   is outside that limit, and is dropped.
//! - An invalid request is refused in its turn and changes nothing, not even the expected PSN:
//!   nothing behind it is carried out.
//!
//! A **limit** bounds each register. The controller records it before the switch gets it, and
//! raises it ahead of time when the switch reports that few numbers are left. A restart of the
//! switch loses the register; the sequencer then continues at the limit, and the unused numbers
//! below it are a gap. A request that would exceed the limit is refused as one that failed here
//! (*remote operational error*), which breaks the connection; it means that the controller is not
//! running.
//!
//! Four stages: the tables; the order of a channel's requests and the limits; the numbers; the
//! stored results.

mod control;
mod entries;
mod registers;
#[cfg(test)]
mod tests;

use rackweave_base::canary::{Canary, planted};
use rackweave_base::{Packet, PortId, Psn};
use rackweave_switch::table::Direct;
use rackweave_switch::transfer::{Engine, Lane, LaneId, emit};
use rackweave_switch::{DropReason, Ledger, Pass};
use rackweave_wire::fabric::sequencer::{RANGE_MAX, index_of};
use rackweave_wire::{AtomicEth, Extension, Headers, NakCode, Opcode, Verdict, icrc};
use registers::{NAK_SENT, PSN, Registers};

pub use entries::{
    STAGE_BEHIND_ALL, STAGE_BESIDE_ENGINE, SequencerChannel, SequencerConfig, SequencerDigest,
    SequencerEntry,
};
pub use registers::ANSWERS;

/// Number of warnings to the controller on the last stretch before a limit.
const WARNINGS: u64 = 8;

/// The sequencers.
pub struct Sequencers {
    config: SequencerConfig,
    registers: Registers,
    /// Channels by lane.
    channels: Direct<SequencerChannel>,
    sequencers: Direct<SequencerEntry>,
}

/// How a request's PSN compares to the expected one.
enum Order {
    Next,
    Again,
    Early { expected: Psn, nak_sent: bool },
}

impl Sequencers {
    /// The program without sequencers, over an engine with `lanes` lanes.
    pub fn new(config: SequencerConfig, lanes: u16) -> Self {
        let lanes = if config.sequencers == 0 { 0 } else { lanes };
        let [tables, ..] = config.stages();
        let sequencers = usize::from(config.sequencers);
        Self {
            registers: Registers::new(&config),
            channels: Direct::new("sequencer.channels", tables, usize::from(lanes)),
            sequencers: Direct::new("sequencer.sequencers", tables, sequencers),
            config,
        }
    }

    /// Whether this switch has sequencers.
    pub fn is_present(&self) -> bool {
        self.config.sequencers > 0
    }

    /// The sizes.
    pub fn config(&self) -> &SequencerConfig {
        &self.config
    }

    /// Declares tables and registers.
    pub fn declare(&self, ledger: &mut Ledger) {
        if !self.is_present() {
            return;
        }
        self.registers.declare(ledger);
        ledger.direct(&self.channels);
        ledger.direct(&self.sequencers);
    }

    /// The channel of a lane, if it has one.
    #[inline]
    pub fn channel(&self, lane: LaneId) -> Option<SequencerChannel> {
        self.channels.lookup(lane.index()).copied()
    }

    /// Handles a packet on a channel.
    pub fn packet<T: Copy, D: PartialEq + From<SequencerDigest>>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        engine: &Engine,
        (port, id, channel): (PortId, LaneId, SequencerChannel),
        headers: &Headers,
        packet: &Packet,
    ) {
        let (config, memory) = (engine.config(), engine.memory());
        let Some(lane) = engine.lane(id) else {
            return pass.drop(port, DropReason::UnknownQp, packet);
        };
        if config.check && icrc::verify(packet, memory) != Verdict::Right {
            return pass.drop(port, DropReason::BadCheck, packet);
        }
        let psn = headers.bth.psn;
        let asked = match (headers.bth.opcode, headers.extension) {
            (Opcode::FetchAdd, Extension::AtomicEth(atomic)) => self.check(&atomic),
            (opcode, _) if opcode.is_request() => Err(NakCode::InvalidRequest),
            _ => return pass.drop(port, DropReason::UnexpectedOpcode, packet),
        };
        let number = usize::from(channel.number);
        match (self.order(pass, (number, psn), asked.is_ok()), asked) {
            (Order::Early { nak_sent: true, .. }, _) => {
                pass.drop(port, DropReason::StaleFragment, packet);
            }
            (Order::Early { expected, .. }, _) => {
                let code = NakCode::SequenceError;
                refuse(pass, engine, lane, &channel, (expected, code));
            }
            (Order::Next, Err(code)) => refuse(pass, engine, lane, &channel, (psn, code)),
            (Order::Next, Ok((index, count))) => {
                let Some(before) = self.take(pass, index, count) else {
                    let code = NakCode::RemoteOperation;
                    return refuse(pass, engine, lane, &channel, (psn, code));
                };
                let at = answer_at(number, psn);
                let registers = &mut self.registers;
                registers.answered.write(&mut pass.cursor, at, psn.get());
                registers.answer.write(&mut pass.cursor, at, before);
                acknowledge(pass, engine, lane, &channel, (psn, before));
            }
            (Order::Again, Ok((index, count))) if planted(Canary::SequencerFreshDuplicate) => {
                let before = self.take(pass, index, count).unwrap_or(0);
                acknowledge(pass, engine, lane, &channel, (psn, before));
            }
            (Order::Again, _) => {
                let at = answer_at(number, psn);
                let registers = &mut self.registers;
                let answered = registers.answered.read(&mut pass.cursor, at);
                let before = registers.answer.read(&mut pass.cursor, at);
                if answered != psn.get() {
                    return pass.drop(port, DropReason::StaleWord, packet);
                }
                acknowledge(pass, engine, lane, &channel, (psn, before));
            }
        }
    }

    /// The sequencer and the count of a request, or the refusal of an invalid one.
    fn check(&self, atomic: &AtomicEth) -> Result<(u16, u64), NakCode> {
        if !(1..=RANGE_MAX).contains(&atomic.swap_or_add) || !atomic.address.is_multiple_of(8) {
            return Err(NakCode::InvalidRequest);
        }
        let index = index_of(atomic.address).ok_or(NakCode::RemoteAccess)?;
        match self.sequencers.lookup(usize::from(index)) {
            Some(entry) if entry.rkey == atomic.rkey => Ok((index, atomic.swap_or_add)),
            _ => Err(NakCode::RemoteAccess),
        }
    }

    /// Whether a request is its channel's next one; if it is and is valid, the expected PSN
    /// advances.
    fn order<T: Copy, D: PartialEq + From<SequencerDigest>>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        (number, psn): (usize, Psn),
        makes_sense: bool,
    ) -> Order {
        let expected = &mut self.registers.expected;
        expected.update(&mut pass.cursor, number, |expected| {
            let next = Psn::new(*expected & PSN);
            if psn == next {
                if makes_sense {
                    *expected = next.add(1).get();
                }
                return Order::Next;
            }
            if next.distance_from(psn) <= Psn::SPACE / 2 {
                return Order::Again;
            }
            let nak_sent = *expected & NAK_SENT != 0;
            *expected |= NAK_SENT;
            Order::Early {
                expected: next,
                nak_sent,
            }
        })
    }

    /// Takes `count` numbers, if the limit allows; returns the first.
    fn take<T: Copy, D: PartialEq + From<SequencerDigest>>(
        &mut self,
        pass: &mut Pass<'_, T, D>,
        index: u16,
        count: u64,
    ) -> Option<u64> {
        let at = usize::from(index);
        let limit = self.registers.limit.read(&mut pass.cursor, at);
        let next = &mut self.registers.next;
        let before = next.update(&mut pass.cursor, at, |next| {
            let (before, after) = (*next, next.checked_add(count)?);
            if after > limit {
                return None;
            }
            *next = after;
            Some(before)
        });
        let reserve = self.sequencers.lookup(at).map_or(0, |entry| entry.reserve);
        // A warning at the reserve, and repeatedly from there on.
        let step = (reserve / WARNINGS).max(1);
        let is_news = before.is_none_or(|before| {
            let after = before + count;
            limit - after < reserve && (limit - before) / step != (limit - after) / step
        });
        if is_news {
            pass.digest(SequencerDigest::Low(index));
        }
        before
    }
}

/// Refuses a request, or reports the missing PSN.
fn refuse<T: Copy, D: PartialEq + From<SequencerDigest>>(
    pass: &mut Pass<'_, T, D>,
    engine: &Engine,
    lane: &Lane,
    channel: &SequencerChannel,
    (psn, code): (Psn, NakCode),
) {
    let answer = (psn, messages(channel, psn).wrapping_sub(1));
    let refusal = emit::refuse(engine.config(), engine.memory(), lane, answer, code);
    pass.forward(lane.port, refusal);
}

/// The answer to a request: the previous value of the register.
fn acknowledge<T: Copy, D: PartialEq + From<SequencerDigest>>(
    pass: &mut Pass<'_, T, D>,
    engine: &Engine,
    lane: &Lane,
    channel: &SequencerChannel,
    (psn, before): (Psn, u64),
) {
    let answer = (psn, messages(channel, psn));
    let packet = emit::atomic_acknowledge(engine.config(), engine.memory(), lane, answer, before);
    pass.forward(lane.port, packet);
}

/// Messages carried out up to the one at `psn`. Every request is one packet.
fn messages(channel: &SequencerChannel, psn: Psn) -> u32 {
    psn.distance_from(channel.first).wrapping_add(1)
}

/// The index of the stored answer to the request at `psn`.
fn answer_at(number: usize, psn: Psn) -> usize {
    number * ANSWERS + psn.get() as usize % ANSWERS
}
