//! The cores of a two-sided replication: producers that SEND, consumers that poll and deliver; and
//! the edges between nodes: a queue pair, receive buffers at the one end, credit at the other.
//!
//! A receiver has [`WINDOW`] receive requests posted per edge. It reports to the sender how many it
//! has posted again by WRITEs of a counter, so that every SEND finds one.

use super::log::Log;
use crate::baseline::verbs::{
    NodeEnd, Remote, SET_UP, connect, on_nic, poll, post, post_receive, region,
};
use crate::harness::prelude::*;
use rackweave_sim::checkers::stamp::{self, STAMP_BYTES, Stamp};

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
    pub word: Remote,
    pub answer: Region,
    pub asked: u64,
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

/// A core that makes messages in `buffers`, `total` of them, and posts one SEND of each per outlet.
pub fn producer(
    common: Common,
    index: u16,
    mut outlets: Vec<Outlet>,
    mut sequencer: Option<Sequencer>,
    buffers: Region,
    total: u64,
) -> impl Program {
    // SENDs in flight per buffer.
    let mut pending = [0_u32; WINDOW as usize];
    let mut next = 0;
    move |context: &mut Context<'_>| -> Turn {
        for completion in poll(context, common.cq, POLL)? {
            if completion.id == FETCHED {
                sequencer.iter_mut().for_each(Sequencer::answer);
            } else {
                pending[(completion.id & (SENT - 1)) as usize] -= 1;
            }
        }
        if next == total {
            return Ok(match pending.iter().all(|&count| count == 0) {
                true => Step::Done,
                false => Step::WaitForPacket,
            });
        }
        let slot = next % WINDOW;
        let may_send = pending[slot as usize] == 0 && outlets.iter().all(Outlet::has_credit);
        let sequence = match &mut sequencer {
            Some(sequencer) => {
                let number = sequencer.number.take_if(|_| may_send);
                let has_none = sequencer.number.is_none() && !sequencer.is_pending;
                // A number that is requested and not used would block all consumers.
                if has_none && sequencer.asked < total {
                    sequencer.ask(context)?;
                }
                number
            }
            None => may_send.then_some(0),
        };
        let Some(sequence) = sequence else {
            return Ok(Step::WaitForPacket);
        };
        let bytes = common.message;
        let offset = slot * u64::from(bytes);
        let mut content = vec![0; bytes as usize];
        let (head, item) = content.split_at_mut(SEQUENCE_BYTES);
        head.copy_from_slice(&u64::to_le_bytes(sequence));
        stamp::fill(item, index, 0, next, common.seed);
        buffers.block.write(offset as usize, &content);
        // The message is made in its buffer: its bytes are written to memory once.
        let made = common.stream_time(context, u64::from(bytes));
        context.charge(Category::Compute, made);
        for outlet in &mut outlets {
            outlet.send(context, buffers.segment(offset, bytes), slot)?;
            pending[slot as usize] += 1;
        }
        next += 1;
        Ok(Step::Compute(Duration::from_nanos(1)))
    }
}

/// A core that takes messages, delivers them to the log, `total` in all, and in a chain sends them
/// on to `outlet`.
pub fn consumer(
    common: Common,
    mut inlets: Vec<Inlet>,
    mut outlet: Option<Outlet>,
    ordered: bool,
    total: u64,
    log: Rc<RefCell<Log>>,
) -> impl Program {
    // Received and not yet sent on (inlet and slot); sent on and not yet acknowledged.
    let (mut to_forward, mut forwarded) = (VecDeque::<(usize, u64)>::new(), 0);
    let mut order = Order::default();
    move |context: &mut Context<'_>| -> Turn {
        let completions = poll(context, common.cq, POLL)?;
        for completion in &completions {
            let slot = completion.id & (SENT - 1);
            match completion.id & !(SENT - 1) {
                CREDITED => {}
                SENT => {
                    forwarded -= 1;
                    let (inlet, slot) = (slot / WINDOW, slot % WINDOW);
                    inlets[inlet as usize].free(context, slot)?;
                }
                kind => {
                    let inlet = ((kind - RECEIVED) >> 32) as usize;
                    let content = inlets[inlet].bytes(slot);
                    let mut log = log.borrow_mut();
                    match ordered {
                        true => order.deliver(context, &common, &content, &mut log)?,
                        false => {
                            // It is consumed in place.
                            let read = common.stream_time(context, content.len() as u64);
                            context.charge(Category::Compute, read);
                            log.note(context.now(), parse(&common, &content)?.1);
                        }
                    }
                    if outlet.is_some() {
                        to_forward.push_back((inlet, slot));
                    } else {
                        inlets[inlet].free(context, slot)?;
                    }
                }
            }
        }
        if let Some(outlet) = &mut outlet {
            while let Some(&(inlet, slot)) = to_forward.front()
                && outlet.has_credit()
            {
                let message = inlets[inlet].message(slot);
                outlet.send(context, message, inlet as u64 * WINDOW + slot)?;
                to_forward.pop_front();
                forwarded += 1;
            }
        }
        let is_idle = to_forward.is_empty() && forwarded == 0;
        Ok(if log.borrow().count() == total && is_idle {
            Step::Done
        } else if completions.is_empty() {
            Step::WaitForPacket
        } else {
            Step::Compute(Duration::from_nanos(1))
        })
    }
}

/// The number and the stamp of a message.
fn parse(common: &Common, content: &[u8]) -> Result<(u64, Stamp), Failure> {
    let (head, item) = content
        .split_first_chunk()
        .ok_or("a message without number")?;
    let stamp = stamp::check(item, common.seed).map_err(|error| error.to_string())?;
    Ok((u64::from_le_bytes(*head), stamp))
}

/// Messages that arrived before one with a lower number, and the number that is delivered next.
#[derive(Default)]
struct Order {
    held: BTreeMap<u64, Stamp>,
    next: u64,
}

impl Order {
    /// Copies a message out of the receive buffer, and delivers what is next in the order of the
    /// sequence.
    fn deliver(
        &mut self,
        context: &mut Context<'_>,
        common: &Common,
        content: &[u8],
        log: &mut Log,
    ) -> Result<(), Failure> {
        let (sequence, stamp) = parse(common, content)?;
        let copied = common.stream_time(context, 2 * content.len() as u64);
        context.charge(Category::Communication, copied);
        if sequence < self.next || self.held.insert(sequence, stamp).is_some() {
            return Err(format!("sequence number {sequence} came twice"));
        }
        while let Some(stamp) = self.held.remove(&self.next) {
            log.note(context.now(), stamp);
            self.next += 1;
        }
        Ok(())
    }
}

/// Messages that may be in flight on an edge.
pub const WINDOW: u64 = 64;

/// Requests to send, and receives, that a queue pair holds.
pub const CAPACITY: (u32, u32) = (2 * WINDOW as u32, WINDOW as u32);

/// Receives posted again between two updates of the credit.
const CREDIT_EVERY: u64 = WINDOW / 4;

/// The subject of a completion, in the upper half of its id; the lower half is a slot.
const SENT: u64 = 1 << 32;
const FETCHED: u64 = 2 << 32;
const CREDITED: u64 = 3 << 32;
/// Plus the number of the inlet.
const RECEIVED: u64 = 4 << 32;

/// The sending end of an edge.
pub struct Outlet {
    qpn: Qpn,
    /// The word to which the receiver writes how many receives it has posted again.
    credit: Region,
    sent: u64,
}

/// The receiving end of an edge.
pub struct Inlet {
    /// Its buffers; after them, the counter that is written to the sender.
    region: Region,
    index: u64,
    message: u32,
    /// Receives posted again, and how many of them were reported to the sender.
    freed: u64,
    reported: u64,
    credit: Remote,
}

/// An edge from `from` to `to` for messages of `message` bytes, whose receives are posted. `index`
/// is the inlet's number there.
pub fn edge(
    rack: &Rack,
    from: &NodeEnd,
    to: &NodeEnd,
    index: usize,
    message: u32,
) -> Result<(Outlet, Inlet)> {
    let (near, far) = connect(rack, from, to, CAPACITY)?;
    let credit = region(rack, from.node, from.pd, 8)?;
    let bytes = (WINDOW * u64::from(message) + 8) as usize;
    let inlet = Inlet {
        region: region(rack, to.node, to.pd, bytes)?,
        index: index as u64,
        message,
        freed: 0,
        reported: 0,
        credit: Remote::new(far, &credit),
    };
    for slot in 0..WINDOW {
        on_nic(rack, to.node, |nic| {
            nic.post_receive(far, inlet.receive(slot))
        })?
        .or_failed(SET_UP)?;
    }
    let outlet = Outlet {
        qpn: near,
        credit,
        sent: 0,
    };
    Ok((outlet, inlet))
}

impl Outlet {
    /// Whether the receiver has a receive posted for one more message.
    pub fn has_credit(&self) -> bool {
        let freed = self.credit.block.word(0).load(Ordering::Acquire);
        self.sent < freed + WINDOW
    }

    /// Sends a message; its completion has the id `SENT | slot`.
    pub fn send(
        &mut self,
        context: &mut Context<'_>,
        message: Segment,
        slot: u64,
    ) -> Result<(), Failure> {
        let operation = Operation::Send { immediate: None };
        let request = WorkRequest::new(SENT | slot, operation, &[message]);
        post(context, self.qpn, request)?;
        self.sent += 1;
        Ok(())
    }
}

impl Inlet {
    fn receive(&self, slot: u64) -> ReceiveRequest {
        let id = (RECEIVED + (self.index << 32)) | slot;
        ReceiveRequest::new(id, &[self.message(slot)])
    }

    pub fn message(&self, slot: u64) -> Segment {
        let at = slot * u64::from(self.message);
        self.region.segment(at, self.message)
    }

    /// The bytes of the message in the buffer of a slot.
    pub fn bytes(&self, slot: u64) -> Vec<u8> {
        let mut bytes = vec![0; self.message as usize];
        self.region
            .block
            .read(slot as usize * bytes.len(), &mut bytes);
        bytes
    }

    /// Posts the receive of a slot again and reports it to the sender from time to time.
    pub fn free(&mut self, context: &mut Context<'_>, slot: u64) -> Result<(), Failure> {
        post_receive(context, self.credit.qpn, self.receive(slot))?;
        self.freed += 1;
        if self.freed - self.reported < CREDIT_EVERY {
            return Ok(());
        }
        let counter = WINDOW * u64::from(self.message);
        let word = self.region.block.word(counter as usize);
        word.store(self.freed, Ordering::Release);
        let write = self
            .credit
            .write(CREDITED, 0, self.region.segment(counter, 8));
        post(context, self.credit.qpn, write)?;
        self.reported = self.freed;
        Ok(())
    }
}
