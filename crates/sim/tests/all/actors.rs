//! Actors on the cores of nodes: time, turns, waiting.

use crate::support::{LONG, NicSettings, config, rack, run_to_end};
use rackweave_base::{Duration, Instant, NodeId};
use rackweave_sim::{Actor, Category, Context, Step, Stop};
use std::cell::RefCell;
use std::rc::Rc;

/// Executes a list of steps and records when each happened.
struct Script {
    steps: Vec<Step>,
    charge: Duration,
    log: Rc<RefCell<Vec<u64>>>,
}

impl Actor for Script {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        self.log.borrow_mut().push(context.now().as_nanos());
        context.charge(Category::Communication, self.charge);
        if self.steps.is_empty() {
            Step::Done
        } else {
            self.steps.remove(0)
        }
    }
}

fn script(steps: &[Step], charge: u64) -> (Box<Script>, Rc<RefCell<Vec<u64>>>) {
    let log = Rc::new(RefCell::new(Vec::new()));
    let charge = Duration::from_nanos(charge);
    (
        Box::new(Script {
            steps: steps.to_vec(),
            charge,
            log: log.clone(),
        }),
        log,
    )
}

const NS: fn(u64) -> Duration = Duration::from_nanos;

#[test]
fn an_actor_spends_the_time_that_it_says() {
    let mut rack = rack(config(1, 1), NicSettings::default());
    let (actor, log) = script(
        &[
            Step::Compute(NS(100)),
            Step::Sleep(NS(50)),
            Step::WaitForPacket,
        ],
        7,
    );
    let id = rack.world.spawn(NodeId(0), actor);
    rack.world.at(Instant::from_nanos(1000), 0);
    assert_eq!(rack.world.run(LONG), Stop::Control(0));
    assert!(!rack.world.is_done(id));
    rack.world.wake(NodeId(0));
    run_to_end(&mut rack.world);
    assert!(rack.world.is_done(id));
    assert_eq!(*log.borrow(), [0, 107, 164, 1040]);
    let cpu = rack.world.cpu_report(NodeId(0)).unwrap();
    assert_eq!(cpu.compute, NS(100));
    assert_eq!(cpu.communication, NS(28));
    assert_eq!(cpu.waiting, NS(1040 - 171));
    assert_eq!(rack.world.run(LONG), Stop::Stalled, "done is said once");
}

#[test]
fn actors_share_a_core_and_not_the_others() {
    let mut config = config(1, 1);
    config.nodes[0].cpu.cores = 2;
    let mut rack = rack(config, NicSettings::default());
    let logs: Vec<_> = (0..3)
        .map(|_| {
            let (actor, log) = script(&[Step::Compute(NS(100)), Step::Compute(NS(100))], 0);
            rack.world.spawn(NodeId(0), actor);
            log
        })
        .collect();
    run_to_end(&mut rack.world);
    // The first and the third take turns on one core.
    assert_eq!(*logs[1].borrow(), [0, 100, 200]);
    let mut turns: Vec<u64> = [&logs[0], &logs[2]]
        .iter()
        .flat_map(|l| l.borrow().clone())
        .collect();
    turns.sort_unstable();
    assert_eq!(turns, [0, 100, 200, 300, 400, 400]);
}

/// Increments a counter that its neighbour waits for.
struct Pair {
    counter: Rc<RefCell<u64>>,
    until: u64,
    parity: u64,
}

impl Actor for Pair {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        let mut counter = self.counter.borrow_mut();
        if *counter >= self.until {
            return Step::Done;
        }
        if *counter % 2 == self.parity {
            *counter += 1;
            context.wake_neighbours();
        }
        Step::WaitForPacket
    }
}

#[test]
fn neighbours_hand_over_through_memory() {
    let mut rack = rack(config(1, 1), NicSettings::default());
    let counter = Rc::new(RefCell::new(0));
    for parity in 0..2 {
        let pair = Pair {
            counter: counter.clone(),
            until: 10,
            parity,
        };
        rack.world.spawn(NodeId(0), Box::new(pair));
    }
    assert_eq!(
        rack.world.run(LONG),
        Stop::Stalled,
        "the one who counts to ten waits for ever"
    );
    assert_eq!((*counter.borrow(), rack.world.actors_active()), (10, 1));
    // Each hand-over takes one spin, except the first two: both actors start at once.
    assert_eq!(rack.world.now(), Instant::from_nanos(9 * 40));
}

#[test]
fn an_actor_without_cost_does_not_stop_the_clock() {
    let mut rack = rack(config(1, 1), NicSettings::default());
    let (actor, log) = script(&[Step::Compute(NS(0)), Step::Sleep(NS(0))], 0);
    rack.world.spawn(NodeId(0), actor);
    run_to_end(&mut rack.world);
    assert_eq!(*log.borrow(), [0, 1, 2]);
}

#[test]
fn waits_that_end_early_leave_nothing_behind() {
    const WAITS: u64 = 100;
    let due = Instant::from_nanos(1_000_000);
    let mut rack = rack(config(1, 1), NicSettings::default());
    let (actor, log) = script(&[Step::WaitUntil(due); WAITS as usize + 1], 0);
    let id = rack.world.spawn(NodeId(0), actor);
    for at in 1..=WAITS {
        rack.world.at(Instant::from_nanos(at * 1000), 0);
        assert_eq!(rack.world.run(LONG), Stop::Control(0));
        rack.world.wake(NodeId(0));
    }
    rack.world.at(Instant::from_nanos(500_000), 0);
    assert_eq!(rack.world.run(LONG), Stop::Control(0));
    assert!(!rack.world.is_done(id), "the last wait is not over");
    let before = rack.world.events();
    run_to_end(&mut rack.world);
    assert_eq!(log.borrow().len() as u64, WAITS + 2);
    assert_eq!(*log.borrow().last().expect("a step"), due.as_nanos());
    let after = rack.world.events() - before;
    assert!(after <= 3, "{after} events for one wait that was over");
}

#[test]
fn a_later_wait_that_is_due_earlier_is_over_in_time() {
    let mut rack = rack(config(1, 1), NicSettings::default());
    let at = Instant::from_nanos;
    let (actor, log) = script(
        &[
            Step::WaitUntil(at(9000)),
            Step::WaitUntil(at(2000)),
            Step::WaitUntil(at(5000)),
            Step::WaitUntil(at(12_000)),
        ],
        0,
    );
    rack.world.spawn(NodeId(0), actor);
    rack.world.at(at(1000), 0);
    assert_eq!(rack.world.run(LONG), Stop::Control(0));
    rack.world.wake(NodeId(0));
    run_to_end(&mut rack.world);
    let woken = log.borrow()[1];
    assert_eq!(*log.borrow(), [0, woken, 2000, 5000, 12_000]);
    assert!((1000..2000).contains(&woken), "{woken}");
}
