//! The cores of a two-sided replication: producers that SEND, consumers that poll and deliver.

use super::edge::{CREDITED, FETCHED, Inlet, Outlet, RECEIVED, SENT, WINDOW};
use super::log::Log;
use crate::baseline::requests::{Remote, poll, post};
use crate::harness::drive::{Failure, Program};
use core::cell::RefCell;
use core::sync::atomic::Ordering;
use rackweave_base::Duration;
use rackweave_sim::checkers::stamp::{self, STAMP_BYTES, Stamp};
use rackweave_sim::world::{Context, Step};
use rackweave_sim::{Category, stream_time};
use rackweave_verbs::{CqId, Operation, Region, WorkRequest};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// Completions taken in one step.
const POLL: usize = 4;

/// Bytes of the number from the sequencer, or zero, in front of a message's stamp.
const SEQUENCE_BYTES: usize = 8;

/// Minimum bytes of a message.
pub const MESSAGE_BYTES_MIN: usize = SEQUENCE_BYTES + STAMP_BYTES;

/// State that all cores share.
#[derive(Clone)]
pub struct Common {
    pub cq: CqId,
    pub message: u32,
    pub cores: u32,
    pub seed: u64,
}

impl Common {
    /// How long the cores together take to stream this many bytes.
    fn stream_time(&self, context: &Context<'_>, bytes: u64) -> Duration {
        stream_time(context.cpu(), bytes.div_ceil(u64::from(self.cores)))
    }
}

/// The source of sequence numbers: a word at a node, raised by fetch-and-add. The next one is
/// requested as soon as one is used, so that it comes while a message is being sent.
pub struct Sequencer {
    /// The word.
    pub word: Remote,
    /// Memory for the answer.
    pub answer: Region,
    /// Numbers requested so far.
    pub asked: u64,
    /// Whether an answer is in flight.
    pub is_pending: bool,
    /// The number that is not used yet.
    pub number: Option<u64>,
}

impl Sequencer {
    fn ask(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let operation = Operation::FetchAdd {
            address: self.word.address,
            rkey: self.word.rkey,
            add: 1,
        };
        let request = WorkRequest::new(FETCHED, operation, &[self.answer.segment(0, 8)]);
        post(context, self.word.qpn, request)?;
        self.asked += 1;
        self.is_pending = true;
        Ok(())
    }

    fn answer(&mut self) {
        self.number = Some(self.answer.block.word(0).load(Ordering::Acquire));
        self.is_pending = false;
    }
}

/// A core that makes messages and posts one SEND of each per outlet.
pub struct Producer {
    pub common: Common,
    pub index: u16,
    pub outlets: Vec<Outlet>,
    pub sequencer: Option<Sequencer>,
    /// Its message buffers.
    pub buffers: Region,
    /// SENDs in flight per buffer.
    pub pending: [u32; WINDOW as usize],
    pub next: u64,
    pub total: u64,
}

impl Program for Producer {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        for completion in poll(context, self.common.cq, POLL)? {
            if completion.id == FETCHED {
                if let Some(sequencer) = &mut self.sequencer {
                    sequencer.answer();
                }
            } else {
                self.pending[(completion.id & (SENT - 1)) as usize] -= 1;
            }
        }
        if self.next == self.total {
            let is_done = self.pending.iter().all(|&count| count == 0);
            return Ok(if is_done {
                Step::Done
            } else {
                Step::WaitForPacket
            });
        }
        let slot = self.next % WINDOW;
        let may_send =
            self.pending[slot as usize] == 0 && self.outlets.iter().all(Outlet::has_credit);
        let sequence = match &mut self.sequencer {
            Some(sequencer) => {
                let number = sequencer.number.take_if(|_| may_send);
                let has_none = sequencer.number.is_none() && !sequencer.is_pending;
                // A number that is requested and not used would block all consumers.
                if has_none && sequencer.asked < self.total {
                    sequencer.ask(context)?;
                }
                number
            }
            None => may_send.then_some(0),
        };
        match sequence {
            Some(sequence) => self.send(context, slot, sequence),
            None => Ok(Step::WaitForPacket),
        }
    }
}

impl Producer {
    fn send(
        &mut self,
        context: &mut Context<'_>,
        slot: u64,
        sequence: u64,
    ) -> Result<Step, Failure> {
        let Common {
            message: bytes,
            seed,
            ..
        } = self.common;
        let offset = slot * u64::from(bytes);
        let mut content = vec![0; bytes as usize];
        let (head, item) = content.split_at_mut(SEQUENCE_BYTES);
        head.copy_from_slice(&sequence.to_le_bytes());
        stamp::fill(item, self.index, 0, self.next, seed);
        self.buffers.block.write(offset as usize, &content);
        // The message is made in its buffer: its bytes are written to memory once.
        let made = self.common.stream_time(context, u64::from(bytes));
        context.charge(Category::Compute, made);
        for outlet in &mut self.outlets {
            outlet.send(context, self.buffers.segment(offset, bytes), slot)?;
            self.pending[slot as usize] += 1;
        }
        self.next += 1;
        Ok(Step::Compute(Duration::from_nanos(1)))
    }
}

/// A core that takes messages, delivers them and, in a chain, sends them on.
pub struct Consumer {
    pub common: Common,
    pub inlets: Vec<Inlet>,
    /// The next in the chain.
    pub outlet: Option<Outlet>,
    /// Received and not yet sent on: inlet and slot.
    pub to_forward: VecDeque<(usize, u64)>,
    /// Sent on and not yet acknowledged.
    pub forwarded: u64,
    pub ordered: bool,
    /// Messages that arrived before one with a lower number.
    pub held: BTreeMap<u64, Stamp>,
    pub next_sequence: u64,
    pub total: u64,
    pub log: Rc<RefCell<Log>>,
}

impl Program for Consumer {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let completions = poll(context, self.common.cq, POLL)?;
        for completion in &completions {
            let slot = completion.id & (SENT - 1);
            match completion.id & !(SENT - 1) {
                CREDITED => {}
                SENT => {
                    self.forwarded -= 1;
                    let (inlet, slot) = (slot / WINDOW, slot % WINDOW);
                    self.inlets[inlet as usize].free(context, slot)?;
                }
                kind => {
                    let inlet = ((kind - RECEIVED) >> 32) as usize;
                    self.receive(context, inlet, slot)?;
                    if self.outlet.is_some() {
                        self.to_forward.push_back((inlet, slot));
                    } else {
                        self.inlets[inlet].free(context, slot)?;
                    }
                }
            }
        }
        self.forward(context)?;
        let is_idle = self.to_forward.is_empty() && self.forwarded == 0;
        Ok(if self.log.borrow().count() == self.total && is_idle {
            Step::Done
        } else if completions.is_empty() {
            Step::WaitForPacket
        } else {
            Step::Compute(Duration::from_nanos(1))
        })
    }
}

impl Consumer {
    fn receive(
        &mut self,
        context: &mut Context<'_>,
        inlet: usize,
        slot: u64,
    ) -> Result<(), Failure> {
        let bytes = u64::from(self.common.message);
        let content = self.inlets[inlet].bytes(slot);
        let (head, item) = content
            .split_first_chunk()
            .ok_or("a message without number")?;
        let sequence = u64::from_le_bytes(*head);
        let stamp = stamp::check(item, self.common.seed).map_err(|error| error.to_string())?;
        let now = context.now();
        let mut log = self.log.borrow_mut();
        if !self.ordered {
            // It is consumed in place.
            let read = self.common.stream_time(context, bytes);
            context.charge(Category::Compute, read);
            log.note(now, stamp);
            return Ok(());
        }
        // It is copied out of the receive buffer, in the order of the sequence.
        let copied = self.common.stream_time(context, 2 * bytes);
        context.charge(Category::Communication, copied);
        if sequence < self.next_sequence || self.held.insert(sequence, stamp).is_some() {
            return Err(format!("sequence number {sequence} came twice"));
        }
        while let Some(stamp) = self.held.remove(&self.next_sequence) {
            log.note(now, stamp);
            self.next_sequence += 1;
        }
        Ok(())
    }

    fn forward(&mut self, context: &mut Context<'_>) -> Result<(), Failure> {
        let Some(outlet) = &mut self.outlet else {
            return Ok(());
        };
        while let Some(&(inlet, slot)) = self.to_forward.front()
            && outlet.has_credit()
        {
            let message = self.inlets[inlet].message(slot);
            outlet.send(context, message, inlet as u64 * WINDOW + slot)?;
            self.to_forward.pop_front();
            self.forwarded += 1;
        }
        Ok(())
    }
}
