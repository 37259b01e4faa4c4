//! Random allocations, with crashes: in no case is a page in use twice.
//!
//! Actors on several nodes poll the machines of the store. Power failures, nodes that die or are
//! declared dead, storage failures and accepted losses are interspersed. The requirements are
//! checked by the checker of the campaign against pages, which runs them on a whole rack.

use super::bench::{NoVerbs, PAGE, page, pool};
use super::fake::{FakeDirectory, Rack};
use crate::page_store::Mode::{Exclusive, Shared};
use crate::page_store::*;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_sim::checkers::PageUse;
use rackweave_sim::checkers::page_history::Who;
use rackweave_sim::checkers::page_use::OpenAsked;
use rackweave_wire::fabric::page::PageId;
use std::collections::BTreeSet;

const STORE: u8 = 1;

/// The parameters of a history.
#[derive(Clone, Copy)]
struct HistoryPlan {
    nodes: usize,
    workers: usize,
    pages: u64,
    steps: u32,
    /// Probability per step.
    power_cuts: f64,
    deaths: f64,
    mistaken_deaths: f64,
    faults: f64,
    closes: f64,
}

const CALM: HistoryPlan = HistoryPlan {
    nodes: 2,
    workers: 2,
    pages: 40,
    steps: 4000,
    power_cuts: 0.0,
    deaths: 0.0,
    mistaken_deaths: 0.0,
    faults: 0.0,
    closes: 0.0005,
};

enum Job {
    Rests,
    Opens(Opening, OpenAsked),
    Allocates,
    /// An allocated page must be all zeroes.
    Looks(Fix),
    Writes(Fix),
    Frees(Freeing, PageId),
    Flushes(Flush),
    Retires,
    Retired,
}

struct Actor {
    worker: Worker<FakeDirectory>,
    node: usize,
    /// Its node was declared dead, and is alive.
    is_mistaken: bool,
    allocator: Option<Allocator>,
    job: Job,
}

/// The events so far.
#[derive(Default)]
struct Sum {
    handed_out: u64,
    opened_after_crash: u64,
}

struct World {
    plan: HistoryPlan,
    rack: Rack,
    actors: Vec<Actor>,
    now: Instant,
    rng: Rng,
    /// What the users of the store know of it.
    page_use: PageUse,
    opened_after_crash: u64,
    /// Node numbers used since the last power failure.
    numbers: u16,
    /// The power failed, and no actor has opened the store since.
    is_after_crash: bool,
}

impl World {
    fn new(seed: u64, plan: HistoryPlan) -> Self {
        let rack = Rack::new(seed, PAGE, plan.pages);
        let mut world = Self {
            plan,
            rack,
            actors: Vec::new(),
            now: Instant::ZERO,
            rng: Rng::new(!seed),
            page_use: PageUse::new((2..plan.pages).map(|index| page(index).number())),
            opened_after_crash: 0,
            numbers: 0,
            is_after_crash: false,
        };
        world.start();
        let options = FormatOptions {
            store: STORE,
            capacity: plan.pages,
            identity: seed,
        };
        let mut formatting = Formatting::new(options, PAGE as u32).unwrap();
        world.wait(|world| {
            formatting
                .poll(&mut world.actors[0].worker)
                .map(Result::unwrap)
        });
        world.page_use.formatted();
        world.open_all();
        world
    }

    /// Creates nodes with empty pools; the store is not open.
    fn start(&mut self) {
        self.numbers = 0;
        for node in 0..self.plan.nodes {
            self.add_node(node);
        }
    }

    fn add_node(&mut self, node: usize) {
        let config = PoolConfig {
            seed: self.rng.next_u64(),
            patience: Duration::from_micros(500),
            ..PoolConfig::new(self.numbers, PAGE as u32, 12)
        };
        let pool = pool(&self.rack, config);
        for _ in 0..self.plan.workers {
            let directory = self.rack.directory(self.numbers);
            self.actors.push(Actor {
                worker: Worker::new(pool.clone(), directory),
                node,
                is_mistaken: false,
                allocator: None,
                job: Job::Rests,
            });
        }
        self.numbers += 1;
    }

    fn open_all(&mut self) {
        for at in 0..self.actors.len() {
            let actor = &self.actors[at];
            if actor.allocator.is_none() && matches!(actor.job, Job::Rests) {
                self.actors[at].job = self.open(at);
            }
        }
    }

    fn open(&mut self, at: usize) -> Job {
        let asked = self.page_use.ask_open(self.who(at));
        Job::Opens(Opening::new(STORE), asked)
    }

    fn who(&self, at: usize) -> Who {
        let node = self.actors[at].worker.pool().config().node;
        let worker = (at % self.plan.workers) as u16;
        Who { node, worker }
    }

    fn wait<T>(&mut self, mut ready: impl FnMut(&mut Self) -> Option<T>) -> T {
        for _ in 0..200_000 {
            if let Some(value) = ready(self) {
                return value;
            }
            self.poll();
        }
        panic!("somebody waits for what never comes");
    }

    /// Advances time and polls all nodes.
    fn poll(&mut self) {
        self.now += Duration::from_nanos(self.rng.between(1, 600));
        for actor in &mut self.actors {
            if self.rng.chance(0.8) {
                actor.worker.poll(self.now, &mut NoVerbs);
            }
        }
    }

    fn step(&mut self) {
        self.poll();
        for at in 0..self.actors.len() {
            self.act(at);
        }
    }

    /// One actor continues its job, or starts another.
    #[expect(
        clippy::too_many_lines,
        reason = "an action of each kind is taken in its arm"
    )]
    fn act(&mut self, at: usize) {
        let job = std::mem::replace(&mut self.actors[at].job, Job::Rests);
        let actor = &mut self.actors[at];
        let next = match job {
            Job::Rests => self.next_job(at),
            Job::Opens(mut opening, asked) => match opening.poll(&mut actor.worker) {
                None => Job::Opens(opening, asked),
                Some(result) => self.opened(at, asked, result),
            },
            Job::Allocates => match actor.allocator.as_mut().unwrap().poll(&mut actor.worker) {
                None => Job::Allocates,
                Some(Ok(page)) => {
                    let fix = actor.worker.fix(page, Shared);
                    self.page_use.handed_out(self.who(at), page.number());
                    Job::Looks(fix)
                }
                Some(Err(error)) => self.not_allocated(at, error),
            },
            Job::Looks(fix) => match actor.worker.take(fix) {
                None => Job::Looks(fix),
                Some(Ok(guard)) => {
                    let page = guard.page();
                    let is_zero = guard.data().is_all(0);
                    assert!(is_zero || actor.is_mistaken, "{page} is not zero");
                    drop(guard);
                    Job::Writes(actor.worker.fix(page, Exclusive))
                }
                Some(Err(_)) => Job::Rests,
            },
            Job::Writes(fix) => match actor.worker.take(fix) {
                None => Job::Writes(fix),
                Some(result) => {
                    if let Ok(mut guard) = result {
                        guard.data_mut().fill(0xee);
                    }
                    Job::Rests
                }
            },
            Job::Frees(mut freeing, page) => match freeing.poll(&mut actor.worker) {
                None => Job::Frees(freeing, page),
                Some(result) => {
                    assert!(
                        matches!(result, Ok(()) | Err(AllocateError::Fix(_))),
                        "{page}: {result:?}"
                    );
                    // An actor that gets an error could retry later, but does not do so here.
                    if result.is_err() || actor.is_mistaken {
                        self.page_use.may_leak();
                    }
                    Job::Rests
                }
            },
            Job::Flushes(flush) => match actor.worker.take_flush(flush) {
                None => Job::Flushes(flush),
                Some(_) => Job::Rests,
            },
            Job::Retires => {
                let allocator = actor.allocator.as_mut().unwrap();
                match allocator.poll_retire(&mut actor.worker) {
                    None => Job::Retires,
                    Some(Ok(())) => {
                        actor.allocator = None;
                        Job::Retired
                    }
                    Some(Err(_)) => {
                        self.page_use.may_leak();
                        Job::Retires
                    }
                }
            }
            Job::Retired => Job::Retired,
        };
        self.actors[at].job = next;
    }

    fn next_job(&mut self, at: usize) -> Job {
        let actor = &mut self.actors[at];
        if actor.allocator.is_none() || self.rng.chance(0.7) {
            return Job::Rests;
        }
        match self.rng.below(20) {
            0..11 => Job::Allocates,
            11..18 => {
                // The model no longer has it: it may be handed out as soon as it is free.
                let Some(number) = self.page_use.pick(&mut self.rng, |_| true) else {
                    return Job::Rests;
                };
                let uses = |actor: &Actor| matches!(actor.job, Job::Looks(_) | Job::Writes(_));
                let is_used = self.actors.iter().any(uses);
                if is_used {
                    return Job::Rests;
                }
                self.page_use.free(number);
                let page = page(number - page(0).number());
                let layout = *self.actors[at].allocator.as_ref().unwrap().layout();
                Job::Frees(Freeing::new(layout, page), page)
            }
            18 => Job::Flushes(actor.worker.flush()),
            _ => {
                let allocator = actor.allocator.as_mut().unwrap();
                for page in allocator.take_lost() {
                    self.rack.accept_loss(page);
                }
                Job::Rests
            }
        }
    }

    fn opened(
        &mut self,
        at: usize,
        asked: OpenAsked,
        result: Result<Superblock, OpenError>,
    ) -> Job {
        match result {
            Ok(superblock) => {
                let Superblock {
                    clean, generation, ..
                } = superblock;
                self.page_use.opened(asked, clean, generation);
                self.opened_after_crash += u64::from(self.is_after_crash);
                self.is_after_crash = false;
                let actor = &mut self.actors[at];
                let layout = superblock.layout(STORE);
                actor.allocator = Some(Allocator::new(layout, actor.worker.pool()));
                Job::Rests
            }
            Err(OpenError::Fix(FixError::Lost(lost))) => {
                self.rack.accept_loss(lost);
                self.open(at)
            }
            Err(OpenError::Fix(_) | OpenError::Flush(_) | OpenError::Truncated { .. }) => {
                self.open(at)
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn not_allocated(&mut self, at: usize, error: AllocateError) -> Job {
        let has_faults = self.plan.faults > 0.0 || self.plan.deaths > 0.0;
        let has_faults = has_faults || self.plan.mistaken_deaths > 0.0;
        match error {
            AllocateError::StoreFull { .. } => {}
            AllocateError::Maps { .. } | AllocateError::Fix(_) if has_faults => {}
            other => panic!("{other}"),
        }
        if self.rng.chance(0.5) {
            for page in self.actors[at].allocator.as_mut().unwrap().take_lost() {
                self.rack.accept_loss(page);
            }
        }
        Job::Rests
    }

    /// A node dies, or storage fails, or a loss is accepted.
    fn misfortune(&mut self) {
        let plan = self.plan;
        if self.rng.chance(plan.power_cuts) {
            self.cut_power();
        }
        if self.rng.chance(plan.deaths) {
            let node = self.rng.below(plan.nodes as u64) as usize;
            self.kill(node);
            self.add_node(node);
            self.open_all();
        }
        let mistaken = self.rng.chance(plan.mistaken_deaths);
        if mistaken {
            let node = self.rng.below(plan.nodes as u64) as usize;
            for actor in self.actors.iter_mut().filter(|actor| actor.node == node) {
                actor.is_mistaken = true;
                let number = actor.worker.pool().config().node;
                self.rack.presume_dead(number);
            }
            self.page_use.may_leak();
        }
        if self.rng.chance(plan.faults) {
            let fault = [None, None, Some(0x006), Some(0x281)];
            self.rack.model().fault = fault[self.rng.below(4) as usize];
            self.page_use.may_leak();
        }
        // At once, while the node declared dead continues; or some time later.
        if self.rng.chance(plan.deaths + plan.mistaken_deaths) || (mistaken && self.rng.chance(0.5))
        {
            for page in self.rack.lost() {
                if self.rng.chance(0.7) {
                    self.rack.accept_loss(page);
                }
            }
        }
        if self.rng.chance(plan.closes) {
            self.close_and_reopen();
        }
    }

    fn cut_power(&mut self) {
        self.rack.model().fault = None;
        self.actors.clear();
        self.rack.cut_power();
        self.page_use.may_leak();
        self.is_after_crash = true;
        self.start();
        self.open_all();
    }

    fn kill(&mut self, node: usize) {
        self.page_use.may_leak();
        let number = |actor: &Actor| actor.worker.pool().config().node;
        let dead = self.actors.iter().filter(|actor| actor.node == node);
        let dead: BTreeSet<u16> = dead.map(number).collect();
        self.actors.retain(|actor| actor.node != node);
        for number in dead {
            self.rack.presume_dead(number);
        }
    }

    /// Ends all faults, and accepts all losses.
    fn calm(&mut self) {
        self.rack.model().fault = None;
        self.wait(|world| {
            world.step_jobs();
            let lost = world.rack.lost();
            for page in &lost {
                world.rack.accept_loss(*page);
            }
            lost.is_empty().then_some(())
        });
    }

    /// Actors finish their jobs.
    fn step_jobs(&mut self) {
        for at in 0..self.actors.len() {
            if !matches!(self.actors[at].job, Job::Rests) {
                self.act(at);
            }
        }
    }

    fn rest(&mut self) {
        self.wait(|world| {
            world.step_jobs();
            let mut actors = world.actors.iter();
            let rests = |actor: &Actor| matches!(actor.job, Job::Rests | Job::Retired);
            actors.all(rests).then_some(())
        });
    }

    /// Closes the store cleanly and opens it again.
    fn close_and_reopen(&mut self) {
        self.calm();
        self.rest();
        for actor in &mut self.actors {
            actor.job = Job::Retires;
        }
        self.rest();
        for at in 0..self.actors.len() {
            let flush = self.actors[at].worker.flush();
            self.wait(|world| {
                let worker = &mut world.actors[at].worker;
                worker.take_flush(flush).map(Result::unwrap)
            });
        }
        let mut closing = Closing::new(STORE);
        self.page_use.ask_close();
        self.wait(|world| {
            closing
                .poll(&mut world.actors[0].worker)
                .map(Result::unwrap)
        });
        self.page_use.closed();
        self.check_maps();
        self.actors.clear();
        // A closed store survives this as well.
        self.rack.cut_power();
        self.start();
        self.open_all();
        self.rest();
        self.check_maps();
    }

    /// Checks the maps. Returns how many pages can be handed out.
    fn check_maps(&mut self) -> u64 {
        let fix = self.actors[0].worker.fix(page(1), Shared);
        let guard = self.wait(|world| world.actors[0].worker.take(fix));
        self.page_use
            .judge_map(page(2).number(), &guard.unwrap().data().to_vec())
    }

    /// Every page that is free in the maps can be allocated.
    fn exhaust(&mut self) {
        let mut left = self.check_maps();
        loop {
            let result = self.wait(|world| {
                let actor = &mut world.actors[0];
                actor.allocator.as_mut().unwrap().poll(&mut actor.worker)
            });
            match result {
                Ok(page) => _ = self.page_use.handed_out(self.who(0), page.number()),
                Err(AllocateError::StoreFull { .. }) => break,
                Err(error) => panic!("{error}"),
            }
            left -= 1;
        }
        assert_eq!(left, 0, "pages that were free were not found");
    }
}

fn run(seed: u64, plan: HistoryPlan) -> Sum {
    println!("seed {seed}");
    let mut world = World::new(seed, plan);
    for _ in 0..plan.steps {
        world.step();
        world.misfortune();
    }
    world.close_and_reopen();
    world.exhaust();
    let sum = Sum {
        handed_out: world.page_use.counts().0,
        opened_after_crash: world.opened_after_crash,
    };
    assert_eq!(world.page_use.finish(), Ok(()));
    sum
}

fn check(seeds: std::ops::Range<u64>, plan: HistoryPlan) -> Sum {
    // For longer manual runs.
    let more = std::env::var("PAGE_STORE_SEEDS");
    let more: u64 = more.ok().and_then(|more| more.parse().ok()).unwrap_or(0);
    let mut sum = Sum::default();
    for seed in seeds.start..seeds.end + more {
        let one = run(seed, plan);
        sum.handed_out += one.handed_out;
        sum.opened_after_crash += one.opened_after_crash;
    }
    let (pages, opened) = (sum.handed_out, sum.opened_after_crash);
    println!("{pages} pages handed out, opened {opened} times after a power cut");
    sum
}

#[test]
fn without_crashes_nothing_is_leaked() {
    assert!(check(1..60, CALM).handed_out > 1000);
}

#[test]
fn a_power_cut_takes_no_allocation_back() {
    let plan = HistoryPlan {
        power_cuts: 0.002,
        ..CALM
    };
    assert!(check(1000..1100, plan).opened_after_crash > 50);
}

#[test]
fn the_death_of_a_node_takes_no_allocation_back() {
    let plan = HistoryPlan {
        nodes: 3,
        power_cuts: 0.0005,
        deaths: 0.002,
        ..CALM
    };
    check(2000..2100, plan);
}

#[test]
fn a_node_that_was_taken_for_dead_hands_out_nothing_that_is_anothers() {
    let plan = HistoryPlan {
        nodes: 3,
        workers: 3,
        mistaken_deaths: 0.01,
        ..CALM
    };
    check(3000..3100, plan);
}

#[test]
fn storage_that_fails_for_a_while_is_not_the_end() {
    let plan = HistoryPlan {
        faults: 0.005,
        deaths: 0.0005,
        power_cuts: 0.0005,
        ..CALM
    };
    check(4000..4080, plan);
}
