//! The program that asks for pages over a channel of the page directory.

use super::metered::Metered;
use crate::baseline::set_up::Station;
use core::cell::{Cell, RefCell};
use rackweave_base::{Block, Duration, Instant, Qpn, Rng};
use rackweave_endpoint::page_store::directory::{
    Answer, Channel, Directory, Mode, Op, Reply, Ticket,
};
use rackweave_sim::Category;
use rackweave_sim::world::{Actor, Context, Step};
use rackweave_verbs::{Completion, CompletionStatus, Operation, Region, Verbs, WorkRequest};
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{PageId, Source};
use rackweave_workload::ycsb::{LatencyRecorder, PoissonSchedule, Scatter};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// Pages that nobody caches, each once.
    Storage,
    /// Pages in the passive node's memory, uniformly.
    Memory,
    /// The latch words of those.
    Latch,
}

/// When it is asked for.
pub enum Pace {
    /// When the schedule says.
    Open(PoissonSchedule),
    /// As soon as one of so many requests has ended.
    Closed(usize),
}

/// Which pages there are: the first `held` in the passive node's memory, the others at home.
pub struct Pages {
    /// In memory.
    pub held: u64,
    /// In all.
    pub all: u64,
    /// The order in which those at home are asked for.
    pub order: Scatter,
    /// How many of those were.
    pub taken: Cell<u64>,
}

impl Pages {
    /// A page that is wanted; nothing if none is left.
    fn draw(&self, want: Want, rng: &mut Rng) -> Option<PageId> {
        if want != Want::Storage {
            return PageId::new(0, rng.below(self.held));
        }
        let taken = self.taken.get();
        self.taken.set(taken + 1);
        let index = self.held + self.order.apply(taken);
        (index < self.all).then(|| PageId::new(0, index)).flatten()
    }
}

/// What the workers of a run have seen.
pub struct Tally {
    /// Requests that were due in this time count.
    pub window: (Instant, Instant),
    /// Their latencies, from when they were due.
    pub latencies: LatencyRecorder,
    /// Requests that ended in the window.
    pub ended: u64,
    /// Requests whose page's entry was in the switch.
    pub indexed: u64,
    /// Requests that were answered "ask again".
    pub refused: u64,
    /// What went wrong.
    pub failure: Option<String>,
}

/// A READ of the page's entry in a memory server that precedes a request.
pub struct Looks {
    /// From which page on.
    pub from: u64,
    /// The worker's own end: where entries land.
    pub near: Station,
    /// The queue pair to the server.
    pub qpn: Qpn,
    /// The entries.
    pub entries: Region,
}

/// Bytes of an entry: latch and place.
pub const ENTRY_BYTES: u32 = 16;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Going {
    page: PageId,
    due: Instant,
    /// Which of the worker's buffer frames it is for.
    place: u32,
}

/// What a worker is to do, and with what.
pub struct Task {
    /// What it asks for.
    pub want: Want,
    /// When.
    pub pace: Pace,
    /// Which pages there are.
    pub pages: Rc<Pages>,
    /// Where it looks first, if it does.
    pub looks: Option<Looks>,
    /// The node's buffer frames.
    pub frames: Block,
    /// The first that is this worker's; it has as many as its channel has slots.
    pub first_frame: u32,
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Draws pages.
    pub rng: Rng,
    /// Where it tells what it has seen.
    pub tally: Rc<RefCell<Tally>>,
}

/// Asks for pages.
pub struct Worker {
    channel: Channel,
    task: Task,
    going: HashMap<Ticket, Going>,
    /// Whose entry is being read, by place.
    looking: Vec<Option<Going>>,
    /// Ready to be asked for.
    ready: VecDeque<Going>,
    free: Vec<u32>,
    polled: Vec<Completion>,
}

impl Worker {
    /// A worker on a channel of its own.
    pub fn new(channel: Channel, task: Task) -> Self {
        let slots = u32::from(channel.parts().slots);
        Self {
            channel,
            task,
            going: HashMap::new(),
            looking: vec![None; slots as usize],
            ready: VecDeque::new(),
            free: (0..slots).rev().collect(),
            polled: Vec::new(),
        }
    }

    fn under_way(&self) -> usize {
        self.looking.len() - self.free.len()
    }

    /// When the next request is due, if one may begin.
    fn due(&self, now: Instant) -> Option<Instant> {
        let until = self.task.tally.borrow().window.1;
        match &self.task.pace {
            Pace::Open(schedule) if schedule.due() < until => Some(schedule.due()),
            Pace::Closed(depth) if self.under_way() < *depth && now < until => Some(now),
            _ => None,
        }
    }

    /// The next request, if it is due and there is room.
    fn next(&mut self, now: Instant) -> Result<Option<Going>, String> {
        if self.due(now).is_none_or(|due| due > now) || self.free.is_empty() {
            return Ok(None);
        }
        let due = match &mut self.task.pace {
            Pace::Open(schedule) => schedule.take(now),
            Pace::Closed(_) => Some(now),
        };
        let Some(due) = due else {
            return Ok(None);
        };
        let place = self.free.pop().ok_or("there was room")?;
        let page = self.task.pages.draw(self.task.want, &mut self.task.rng);
        let page = page.ok_or("no page is left that nobody has read")?;
        Ok(Some(Going { page, due, place }))
    }

    fn frame(&self, place: u32) -> (u32, usize) {
        let frame = self.task.first_frame + place;
        (frame, frame as usize * self.task.page_bytes)
    }

    /// Asks the directory.
    fn ask(&mut self, now: Instant, verbs: &mut Metered<'_>, going: Going) -> Result<(), String> {
        let (frame, at) = self.frame(going.place);
        let op = match self.task.want {
            Want::Latch => Op::Verify { page: going.page },
            _ => {
                self.task.frames.write(at, &VOID.to_le_bytes());
                Op::Fetch {
                    page: going.page,
                    mode: Mode::Shared,
                    frame,
                    have: None,
                }
            }
        };
        let ticket = self.channel.begin(now, verbs, op);
        let ticket = ticket.ok_or("the channel has no room for a request")?;
        self.going.insert(ticket, going);
        Ok(())
    }

    /// Reads the page's entry in the server first, if that is so.
    fn begin(&mut self, now: Instant, verbs: &mut Metered<'_>, going: Going) -> Result<(), String> {
        let looks = self.task.looks.as_ref();
        let Some(looks) = looks.filter(|looks| looks.from <= going.page.index()) else {
            return self.ask(now, verbs, going);
        };
        let entries = looks.entries.block.len() as u64 / u64::from(ENTRY_BYTES);
        let at = going.page.index() % entries * u64::from(ENTRY_BYTES);
        let read = Operation::Read {
            address: looks.entries.address + at,
            rkey: looks.entries.rkey,
        };
        let own = u64::from(going.place) * u64::from(ENTRY_BYTES);
        let segment = looks.near.region.segment(own, ENTRY_BYTES);
        let request = WorkRequest::new(u64::from(going.place), read, &[segment]);
        verbs
            .post_send(looks.qpn, request)
            .map_err(|error| format!("an entry cannot be asked for: {error}"))?;
        self.looking[going.place as usize] = Some(going);
        Ok(())
    }

    /// Takes the entries that have come.
    fn look(&mut self, now: Instant, verbs: &mut Metered<'_>) -> Result<(), String> {
        let Some(looks) = &self.task.looks else {
            return Ok(());
        };
        let mut polled = core::mem::take(&mut self.polled);
        verbs.poll_cq(looks.near.cq, usize::MAX, &mut polled);
        for completion in polled.drain(..) {
            if completion.status != CompletionStatus::Success {
                return Err(format!("an entry did not come: {}", completion.status));
            }
            let going = self.looking.get_mut(completion.id as usize);
            let going = going.and_then(Option::take);
            let going = going.ok_or("an entry came that nobody asked for")?;
            // The entry in the server is all there is to verify.
            if self.task.want == Want::Latch {
                self.end(now + verbs.spent(), going);
            } else {
                self.ready.push_back(going);
            }
        }
        self.polled = polled;
        Ok(())
    }

    fn end(&mut self, at: Instant, going: Going) {
        self.free.push(going.place);
        let mut tally = self.task.tally.borrow_mut();
        let (from, until) = tally.window;
        tally.ended += u64::from(from <= at && at < until);
        if from <= going.due && going.due < until {
            tally.latencies.record(going.due, at);
        }
    }

    fn replied(
        &mut self,
        verbs: &mut Metered<'_>,
        now: Instant,
        reply: Reply,
    ) -> Result<(), String> {
        let going = self.going.remove(&reply.ticket);
        let going = going.ok_or("a reply to no request")?;
        match (reply.answer, self.task.want) {
            (Answer::Done, Want::Latch) => {}
            (Answer::Fetched(served), Want::Storage | Want::Memory) => {
                let source = match self.task.want {
                    Want::Storage => Source::Storage,
                    _ => Source::Memory,
                };
                if served.source != source {
                    return Err(format!("{} came from {:?}", going.page, served.source));
                }
                self.check(&going)?;
                self.task.tally.borrow_mut().indexed += u64::from(served.indexed);
                // The completion of the data.
                verbs.word_taken();
            }
            (Answer::Locked, _) => {
                self.task.tally.borrow_mut().refused += 1;
                self.ready.push_back(going);
                return Ok(());
            }
            (answer, _) => return Err(format!("{}: {answer:?}", going.page)),
        }
        self.end(now + verbs.spent(), going);
        Ok(())
    }

    /// Whether the page that was asked for is in its buffer frame.
    fn check(&self, going: &Going) -> Result<(), String> {
        let (_, at) = self.frame(going.place);
        let mut bytes = [0; 8];
        self.task.frames.read(at, &mut bytes);
        if u64::from_le_bytes(bytes) == going.page.tag() {
            Ok(())
        } else {
            Err(format!("{} is not in its buffer frame", going.page))
        }
    }

    /// One turn; what the core has spent.
    fn turn(&mut self, now: Instant, verbs: &mut Metered<'_>) -> Result<(), String> {
        while let Some(reply) = self.channel.poll(now, verbs) {
            self.replied(verbs, now, reply)?;
        }
        self.look(now, verbs)?;
        // One at a time: what is posted leaves when the core has done all of a turn.
        if let Some(going) = self.ready.pop_front() {
            return self.ask(now, verbs, going);
        }
        match self.next(now)? {
            Some(going) => self.begin(now, verbs, going),
            None => Ok(()),
        }
    }
}

impl Actor for Worker {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let (now, cpu) = (context.now(), *context.cpu());
        let mut verbs = Metered::new(context.nic(), cpu);
        let result = self.turn(now, &mut verbs);
        let spent = verbs.spent();
        context.charge(Category::Communication, spent);
        if let Err(failure) = result {
            self.task.tally.borrow_mut().failure.get_or_insert(failure);
            return Step::Done;
        }
        if spent > Duration::ZERO {
            return Step::Compute(Duration::ZERO);
        }
        let due = self.due(now).filter(|_| !self.free.is_empty());
        if self.under_way() == 0 {
            return match due {
                Some(due) => Step::Sleep(due.max(now).since(now)),
                None => Step::Done,
            };
        }
        match [due, self.channel.poll_timeout()]
            .into_iter()
            .flatten()
            .min()
        {
            Some(at) => Step::WaitUntil(at),
            None => Step::WaitForPacket,
        }
    }
}
