//! The program that requests pages over a channel of the page directory.

use super::testbed::PAGE_BYTES;
use crate::baseline::verbs::{NodeEnd, Remote};
use crate::harness::prelude::*;
use rackweave_endpoint::page_store::directory::{
    Answer, Channel, Directory, Mode, Op, Reply, Ticket,
};
use rackweave_wire::fabric::page::header::VOID;
use rackweave_wire::fabric::page::{PageId, PageSource};
use rackweave_workload::ycsb::{LatencyRecorder, PoissonSchedule};
use std::collections::HashSet;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// Pages that no node caches, each once.
    Storage,
    /// Pages in the passive node's memory, uniformly.
    Memory,
    /// The latch words of pages in the passive node's memory.
    Latch,
}

pub enum Pace {
    /// According to a schedule.
    Open(PoissonSchedule),
    /// As soon as one of this many requests has ended.
    Closed(usize),
}

/// The existing pages: the first `held` in the passive node's memory, the others in storage.
pub struct Pages {
    /// Number of pages in memory.
    pub held: u64,
    pub all: u64,
    /// The order in which pages in storage are requested.
    pub order: Scatter,
    /// Number of storage pages already requested.
    pub taken: Cell<u64>,
    /// Pages in memory that threads of the node are fetching. A node fetches a page once at a time:
    /// its request means that it has dropped an earlier copy, and the switch then repeats the
    /// transfers of that page which are in progress.
    pub fetching: RefCell<HashSet<u64>>,
}

/// How often a page that nobody fetches is looked for.
const DRAWS: u32 = 64;

/// When to look again.
const AGAIN: Duration = Duration::from_micros(2);

impl Pages {
    /// Draws a page to request; none if none is left, or none is found that nobody fetches.
    fn draw(&self, want: Want, rng: &mut Rng) -> Option<PageId> {
        if want == Want::Latch {
            return PageId::new(0, rng.below(self.held));
        }
        if want == Want::Memory {
            let mut drawn = (0..DRAWS).map(|_| rng.below(self.held));
            let index = drawn.find(|&index| self.fetching.borrow_mut().insert(index))?;
            return PageId::new(0, index);
        }
        let taken = self.taken.get();
        self.taken.set(taken + 1);
        let index = self.held + self.order.apply(taken);
        (index < self.all).then(|| PageId::new(0, index)).flatten()
    }
}

pub struct Tally {
    /// Only requests that were due in this window count.
    pub window: (Instant, Instant),
    /// Their latencies, from their due times.
    pub latencies: LatencyRecorder,
    /// Requests that ended in the window.
    pub ended: u64,
    /// Requests whose page's entry was in the switch.
    pub indexed: u64,
    /// Requests that were answered "ask again".
    pub refused: u64,
}

/// A READ of the page's entry in a memory server that precedes a request.
pub struct Looks {
    /// First page with such a READ.
    pub from: u64,
    /// The worker's own end, where entries arrive.
    pub near: NodeEnd,
    /// The entries in the server.
    pub entries: Remote,
}

/// Entries that lookups are spread over.
pub const LOOK_ENTRIES: u64 = 4096;

/// Bytes of an entry: latch and place.
pub const ENTRY_BYTES: u32 = 16;

#[derive(Clone, Copy, Debug)]
pub struct Going {
    page: PageId,
    due: Instant,
    /// The worker's buffer frame that it is for.
    place: u32,
}

/// The program: a worker with its own channel, and as many buffer frames as that has slots.
pub struct Worker {
    pub want: Want,
    pub pace: Pace,
    pub pages: Rc<Pages>,
    /// The lookups before requests, if there are any.
    pub looks: Option<Looks>,
    /// The node's buffer frames.
    pub frames: Block,
    /// The worker's first frame.
    pub first_frame: u32,
    pub rng: Rng,
    pub tally: Rc<RefCell<Tally>>,
    pub channel: Channel,
    pub going: HashMap<Ticket, Going>,
    /// Requests whose entry is being read, by place.
    pub looking: Vec<Option<Going>>,
    pub ready: VecDeque<Going>,
    /// Places without a request.
    pub free: Vec<u32>,
    pub polled: Vec<Completion>,
    /// No page was found that nobody fetches.
    pub is_blocked: bool,
}

impl Worker {
    fn under_way(&self) -> usize {
        self.looking.len() - self.free.len()
    }

    /// When the next request is due, if one may begin.
    fn due(&self, now: Instant) -> Option<Instant> {
        let until = self.tally.borrow().window.1;
        match &self.pace {
            Pace::Open(schedule) if schedule.due() < until => Some(schedule.due()),
            Pace::Closed(depth) if self.under_way() < *depth && now < until => Some(now),
            _ => None,
        }
    }

    /// The next request, if it is due and a slot is free.
    fn next(&mut self, now: Instant) -> Result<Option<Going>, String> {
        if self.due(now).is_none_or(|due| due > now) || self.free.is_empty() {
            return Ok(None);
        }
        let Some(page) = self.pages.draw(self.want, &mut self.rng) else {
            self.is_blocked = self.want == Want::Memory;
            return match self.is_blocked {
                true => Ok(None),
                false => Err("no page is left that nobody has read".into()),
            };
        };
        let due = match &mut self.pace {
            Pace::Open(schedule) => schedule.take(now).ok_or("a request was due")?,
            Pace::Closed(_) => now,
        };
        let place = self.free.pop().ok_or("there was space")?;
        Ok(Some(Going { page, due, place }))
    }

    fn frame(&self, place: u32) -> (u32, usize) {
        let frame = self.first_frame + place;
        (frame, frame as usize * PAGE_BYTES as usize)
    }

    fn ask(&mut self, now: Instant, verbs: &mut Metered<'_>, going: Going) -> Result<(), String> {
        let (frame, at) = self.frame(going.place);
        let op = match self.want {
            Want::Latch => Op::Verify {
                page: going.page,
                lease: None,
            },
            _ => {
                self.frames.write(at, &VOID.to_le_bytes());
                Op::Fetch {
                    page: going.page,
                    mode: Mode::Shared,
                    frame,
                    have: None,
                }
            }
        };
        let ticket = self.channel.begin(now, verbs, op);
        let ticket = ticket.ok_or("the channel has no space for a request")?;
        self.going.insert(ticket, going);
        Ok(())
    }

    /// Starts a request; first reads the page's entry in the server, if required.
    fn begin(&mut self, now: Instant, verbs: &mut Metered<'_>, going: Going) -> Result<(), String> {
        let looks = self.looks.as_ref();
        let Some(looks) = looks.filter(|looks| looks.from <= going.page.index()) else {
            return self.ask(now, verbs, going);
        };
        let at = going.page.index() % LOOK_ENTRIES * u64::from(ENTRY_BYTES);
        let own = u64::from(going.place) * u64::from(ENTRY_BYTES);
        let segment = looks.near.region.segment(own, ENTRY_BYTES);
        let read = looks.entries.read(going.place.into(), at, &[segment]);
        verbs
            .post_send(looks.entries.qpn, read)
            .map_err(|error| format!("an entry cannot be asked for: {error}"))?;
        self.looking[going.place as usize] = Some(going);
        Ok(())
    }

    fn look(&mut self, now: Instant, verbs: &mut Metered<'_>) -> Result<(), String> {
        let Some(looks) = &self.looks else {
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
            // Only the entry in the server needs verifying.
            if self.want == Want::Latch {
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
        if self.want == Want::Memory {
            self.pages.fetching.borrow_mut().remove(&going.page.index());
        }
        let mut tally = self.tally.borrow_mut();
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
        match (reply.answer, self.want) {
            (Answer::Done, Want::Latch) => {}
            (Answer::Fetched(served), Want::Storage | Want::Memory) => {
                let source = match self.want {
                    Want::Storage => PageSource::Storage,
                    _ => PageSource::Memory,
                };
                if served.source != source {
                    return Err(format!("{} came from {:?}", going.page, served.source));
                }
                self.check(&going)?;
                self.tally.borrow_mut().indexed += u64::from(served.indexed);
                // Charges the completion of the data.
                verbs.word_taken();
            }
            (Answer::Locked, _) => {
                self.tally.borrow_mut().refused += 1;
                self.ready.push_back(going);
                return Ok(());
            }
            (answer, _) => return Err(format!("{}: {answer:?}", going.page)),
        }
        self.end(now + verbs.spent(), going);
        Ok(())
    }

    /// Checks that the requested page is in its buffer frame.
    fn check(&self, going: &Going) -> Result<(), String> {
        let (_, at) = self.frame(going.place);
        let mut bytes = [0; 8];
        self.frames.read(at, &mut bytes);
        if u64::from_le_bytes(bytes) == going.page.tag() {
            Ok(())
        } else {
            Err(format!("{} is not in its buffer frame", going.page))
        }
    }

    /// One turn of the core; `verbs` add up its cost.
    fn work(&mut self, now: Instant, verbs: &mut Metered<'_>) -> Result<(), String> {
        self.is_blocked = false;
        while let Some(reply) = self.channel.poll(now, verbs) {
            self.replied(verbs, now, reply)?;
        }
        self.look(now, verbs)?;
        // One at a time: posted requests leave when the core has finished its turn.
        if let Some(going) = self.ready.pop_front() {
            return self.ask(now, verbs, going);
        }
        match self.next(now)? {
            Some(going) => self.begin(now, verbs, going),
            None => Ok(()),
        }
    }
}

impl Program for Worker {
    fn turn(&mut self, context: &mut Context<'_>) -> Result<Step, Failure> {
        let (now, cpu) = (context.now(), *context.cpu());
        let mut verbs = Metered::new(context.nic(), cpu);
        self.work(now, &mut verbs)?;
        let spent = verbs.spent();
        context.charge(Category::Communication, spent);
        if spent > Duration::ZERO {
            return Ok(Step::Compute(Duration::ZERO));
        }
        let due = self.due(now).filter(|_| !self.free.is_empty());
        let due = due.map(|due| match self.is_blocked {
            true => due.max(now + AGAIN),
            false => due,
        });
        if self.under_way() == 0 {
            return Ok(match due {
                Some(due) => Step::Sleep(due.max(now).since(now)),
                None => Step::Done,
            });
        }
        let next = [due, self.channel.poll_timeout()]
            .into_iter()
            .flatten()
            .min();
        Ok(next.map_or(Step::WaitForPacket, Step::WaitUntil))
    }
}
