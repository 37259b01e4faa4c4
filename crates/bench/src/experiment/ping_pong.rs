//! Ping-pong between two nodes, over a flow in each direction: the measurement of figure 10.
//!
//! One core of the first node pushes items at a fixed rate, each with the time at which it was due;
//! a core of the second takes them and pushes them back; another core of the first takes them and
//! records their round trip times. A core announces what it wrote or took to the switch when its
//! work is done, not when it begins.

#[cfg(test)]
mod tests;

use crate::baseline::tuples;
use crate::harness::metered::streamed;
use crate::harness::one_to_one::{self, ENDS};
use crate::harness::prelude::*;
use crate::harness::tally::quantile;
use rackweave_base::memory::SharedBytes;
use rackweave_endpoint::flow::Doorbell;

/// Bytes of a ring: the items pushed at 12.5 GB/s in three of the longest poll intervals. The two
/// rings of a node fit its last level cache.
pub const RING_BYTES: u32 = 8 << 20;

/// Minimum time between two doorbells of one ring. Changes in between are announced by the next
/// doorbell.
pub const BELL_GAP: Duration = Duration::from_micros(1);

/// How often the switch polls a ring that has a doorbell.
const BELL_POLL: Duration = Duration::from_micros(200);

/// How the switch learns of changes to a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// It polls the ring at this interval.
    Polls(Duration),
    /// A doorbell announces them.
    Doorbells,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Course {
    /// Bytes of an item.
    pub item_size: u32,
    /// Items that are due per second.
    pub items_per_second: f64,
    pub signal: Signal,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Outcome {
    /// Items per second that returned.
    pub items_per_second: f64,
    /// Round trip times of the items, in nanoseconds.
    pub round_trips_ns: Vec<u64>,
}

impl Outcome {
    /// Half the round trip time that this share of all items does not exceed, in microseconds.
    pub fn quantile(&self, part: f64) -> f64 {
        quantile(&self.round_trips_ns, part) / 2e3
    }
}

pub fn run(run: &mut Run<'_>, course: Course, span: Span) -> Result<Outcome> {
    let seed = run.seed;
    let mut rack = one_to_one::rack(seed)?;
    let tally = Tally::new(Instant::ZERO, span);
    let (mut flows, mut ends) = (Vec::new(), Vec::new());
    for (from, to) in [ENDS, (ENDS.1, ENDS.0)] {
        let mut spec = rack
            .flow([from], [to])
            .item_bytes(course.item_size)
            .ring_bytes(RING_BYTES)
            .doorbells(course.signal == Signal::Doorbells)
            .spec()?;
        let interval = match course.signal {
            Signal::Polls(interval) => interval,
            Signal::Doorbells => BELL_POLL,
        };
        (spec.poll_interval, spec.poll_interval_max) = (interval, interval);
        let slots = spec.consumer_slots;
        let flow = rack.create_flow(spec)?;
        let producer = flow.take_producer(0)?;
        let consumer = flow.take_consumer(0)?;
        let bells = flow.producer_bells(0);
        let bell = bells.and_then(|bells| bells.first().copied());
        let source = ItemSource {
            ring: producer,
            bell: Bell::new(bell),
            written: 0,
        };
        let sink = Sink {
            ring: consumer,
            bell: Bell::new(flow.consumer_bell(0)),
            taken: 0,
            freed: 0,
            bell_after: slots / 4,
        };
        ends.push((source, sink));
        flows.push(flow);
    }
    let (Some((back, home)), Some((out, far))) = (ends.pop(), ends.pop()) else {
        return Err(ExperimentError::Run("there are no two flows".into()));
    };
    let schedule = Schedule::new(course.items_per_second, Rng::new(seed).fork("pinger"));
    let samples = Rc::new(RefCell::new(Vec::new()));
    let from = Instant::ZERO + span.warm_up;
    rack.spawn(ENDS.0, pinger(out, schedule));
    rack.spawn(ENDS.0, taker(home, tally.clone(), samples.clone(), from));
    rack.spawn(ENDS.1, echo(far, back));
    Tally::run(&tally, run, &mut rack)?;
    let items_per_second = tally.borrow_mut().bytes_per_second()?;
    Ok(Outcome {
        items_per_second,
        round_trips_ns: samples.take(),
    })
}

/// Items that a core handles before it notifies the switch.
const BURST: u32 = 32;

/// Cycles to read the clock. Source: Agner Fog's instruction tables, RDTSC on Skylake-X, 25
/// (unchecked).
const CLOCK_CYCLES: u64 = 25;

/// Cycles per item apart from its bytes and the clock: index, bounds, loop. Assumed.
const ITEM_CYCLES: u64 = 10;

/// Charges the core for `items` items, each with this many cycles and bytes.
fn charge(context: &mut Context<'_>, items: u64, cycles: u64, bytes: u64) {
    let cpu = context.cpu();
    let cost = cpu.cycles(cycles * items) + streamed(cpu, bytes * items);
    context.charge(Category::Communication, cost);
}

/// Charges for polling a word that the switch has not written.
fn look(context: &mut Context<'_>) {
    context.charge(Category::Communication, context.cpu().cache_latency);
}

/// A ring's doorbell, rung at a limited rate.
struct Bell {
    bell: Option<Doorbell>,
    /// The earliest time of the next doorbell.
    next: Instant,
    owed: bool,
}

impl Bell {
    fn new(bell: Option<Doorbell>) -> Self {
        Self {
            bell,
            next: Instant::ZERO,
            owed: false,
        }
    }

    /// Rings if there is something to announce and the rate allows it.
    fn ring(&mut self, context: &mut Context<'_>) {
        let rings = self.owed && self.next <= context.now();
        let Some(bell) = self.bell.filter(|_| rings) else {
            return;
        };
        self.next = context.now() + BELL_GAP;
        // A full send queue holds doorbells that announce the same.
        self.owed = context.post_send(bell.qpn(), bell.request()).is_err();
    }

    /// When it must ring next, if it must.
    fn due(&self) -> Option<Instant> {
        (self.bell.is_some() && self.owed).then_some(self.next)
    }
}

/// A producing end: items are written in one step and committed in the next.
struct ItemSource {
    ring: Producer,
    bell: Bell,
    written: u32,
}

impl ItemSource {
    /// Commits the items written in the preceding step.
    fn tell(&mut self, context: &mut Context<'_>) {
        if self.written > 0 {
            self.ring.commit(core::mem::take(&mut self.written));
            context.charge(Category::Communication, tuples::unchanged(context.cpu()));
            self.bell.owed = true;
        }
        self.bell.ring(context);
    }
}

/// A consuming end: items are read in one step and released in the next.
struct Sink {
    ring: Consumer,
    bell: Bell,
    taken: u32,
    freed: u32,
    /// Number of freed items after which the switch is notified.
    bell_after: u32,
}

impl Sink {
    fn peek(&mut self) -> Result<Option<SharedBytes<'_>>, Failure> {
        match self.ring.peek(BURST) {
            Taken::Items(items) => Ok(Some(items)),
            Taken::Empty => Ok(None),
            Taken::Ended | Taken::Aborted => Err("a flow was broken off".into()),
        }
    }

    /// The step that waits for items or until a doorbell must ring, this one or one that is due at
    /// `also`.
    fn wait(&self, context: &mut Context<'_>, also: Option<Instant>) -> Step {
        context.charge(Category::Communication, tuples::unchanged(context.cpu()));
        let (now, due) = (context.now(), also.into_iter().chain(self.bell.due()).min());
        due.map_or(Step::WaitForPacket, |due| {
            Step::Compute(due.max(now).since(now))
        })
    }

    /// Frees the items read in the preceding step.
    fn tell(&mut self, context: &mut Context<'_>) {
        if self.taken > 0 {
            self.freed += self.taken;
            self.ring.release(core::mem::take(&mut self.taken));
            context.charge(Category::Communication, tuples::unchanged(context.cpu()));
            if self.freed >= self.bell_after {
                (self.freed, self.bell.owed) = (0, true);
            }
        }
        self.bell.ring(context);
    }
}

/// When items are due: evenly, with a jitter of up to one interval, so that they do not synchronize
/// with the switch's polls.
struct Schedule {
    picos_per_item: u64,
    rng: Rng,
    items: u64,
    /// Total delay of the schedule.
    late: Duration,
    due: Instant,
}

impl Schedule {
    fn new(items_per_second: f64, rng: Rng) -> Self {
        let mut schedule = Self {
            picos_per_item: ((1e12 / items_per_second) as u64).max(1),
            rng,
            items: 0,
            late: Duration::ZERO,
            due: Instant::ZERO,
        };
        schedule.enter();
        schedule
    }

    fn enter(&mut self) {
        let even = u128::from(self.picos_per_item) * u128::from(self.items);
        let picos = even + u128::from(self.rng.below(self.picos_per_item));
        self.due = Instant::from_nanos((picos / 1000) as u64) + self.late;
    }

    /// The number and due time of the next item, if it is due; advances the schedule.
    fn take(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let due = (self.items, self.due);
        (due.1 <= now).then(|| {
            self.items += 1;
            self.enter();
            due
        })
    }

    /// Postpones items due before `now` to `now`, because no slot was free.
    fn put_off(&mut self, now: Instant) {
        let due = self.due.min(now);
        self.late += now.since(due);
        self.due = self.due.max(now);
    }
}

fn pinger(mut source: ItemSource, mut schedule: Schedule) -> impl Program {
    let mut was_full = false;
    move |context: &mut Context<'_>| -> Turn {
        source.tell(context);
        let now = context.now();
        if schedule.due > now {
            let until = source.bell.due().unwrap_or(schedule.due).min(schedule.due);
            return Ok(Step::Compute(until.max(now).since(now)));
        }
        let size = source.ring.item_size() as usize;
        let mut slots = match source.ring.reserve(BURST) {
            Ok(slots) => slots,
            Err(PushError::Full) => {
                look(context);
                was_full = true;
                return Ok(Step::WaitForPacket);
            }
            Err(error) => return Err(error.to_string()),
        };
        if core::mem::take(&mut was_full) {
            schedule.put_off(now);
        }
        for mut slot in slots.chunks_exact(size) {
            let Some((number, due)) = schedule.take(now) else {
                break;
            };
            slot.write(0, &number.to_le_bytes());
            slot.write(8, &due.as_nanos().to_le_bytes());
            source.written += 1;
        }
        let items = u64::from(source.written);
        charge(context, items, ITEM_CYCLES + CLOCK_CYCLES, size as u64);
        Ok(Step::Compute(Duration::ZERO))
    }
}

fn echo(mut sink: Sink, mut source: ItemSource) -> impl Program {
    move |context: &mut Context<'_>| -> Turn {
        sink.tell(context);
        source.tell(context);
        let size = sink.ring.item_size() as usize;
        let Some(items) = sink.peek()? else {
            return Ok(sink.wait(context, source.bell.due()));
        };
        let mut slots = match source.ring.reserve((items.len() / size) as u32) {
            Ok(slots) => slots,
            Err(PushError::Full) => {
                look(context);
                return Ok(Step::WaitForPacket);
            }
            Err(error) => return Err(error.to_string()),
        };
        slots.copy_from_shared(items.slice(..slots.len()));
        let count = slots.len() / size;
        (sink.taken, source.written) = (count as u32, count as u32);
        look(context);
        charge(context, count as u64, ITEM_CYCLES, 2 * size as u64);
        Ok(Step::Compute(Duration::ZERO))
    }
}

/// Takes the items that returned, and records the round trip times in nanoseconds of those that
/// were due at `from` or later.
fn taker(
    mut sink: Sink,
    tally: Shared,
    round_trips: Rc<RefCell<Vec<u64>>>,
    from: Instant,
) -> impl Program {
    let mut taken = 0;
    move |context: &mut Context<'_>| -> Turn {
        sink.tell(context);
        let size = sink.ring.item_size() as usize;
        let Some(items) = sink.peek()? else {
            return Ok(sink.wait(context, None));
        };
        let now = context.now();
        let mut round_trips = round_trips.borrow_mut();
        for item in items.chunks_exact(size) {
            if item.u64_le(0) != taken {
                return Err("an item is not the one that was expected".into());
            }
            taken += 1;
            let due = Instant::from_nanos(item.u64_le(8));
            if due >= from {
                round_trips.push(now.since(due).as_nanos());
            }
        }
        let count = items.len() / size;
        sink.taken = count as u32;
        tally.borrow_mut().add(now, count as u64);
        look(context);
        let cycles = ITEM_CYCLES + CLOCK_CYCLES;
        charge(context, count as u64, cycles, size as u64);
        Ok(Step::Compute(Duration::ZERO))
    }
}
