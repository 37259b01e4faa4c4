//! The test `failover`: kills the process of the switch that leads, again and again, and measures
//! when each system works again.
//!
//! One thread for each system calls it in a closed loop and verifies every result. A system works
//! again at the end of its first successful call that has begun after the death of the process. The
//! time counts from the signal. `rackweave up` starts the process again; with `[hosted.standby]`,
//! the other one takes over.

use super::test_run::TestRun;
use crate::globals::Interrupt;
use crate::outcome::CliError;
use crate::perf::messaging::rig::{ConnectionEnd, Rig};
use crate::programs::{Patience, RealRack};
use rackweave_base::NodeId;
use rackweave_endpoint::flow::Taken;
use rackweave_endpoint::index::Access;
use rackweave_endpoint::messaging::{Arrived, MessagingConfig};
use rackweave_rack::hosted::HostedRack;
use rackweave_rack::services::{
    IndexConnection, IndexOptions, IndexService, PageOptions, PageService, PageWorker,
    SequencerClient, SequencerService,
};
use rackweave_rack::{Flow, IndexNetworkSpec, Node};
use rackweave_wire::fabric::page::PageId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Kills, unless the user names another number.
const KILLS: u64 = 20;

/// Time between two kills: `rackweave up` forgets the last death meanwhile, and starts the process
/// again without further delay.
const BETWEEN: Duration = Duration::from_millis(3500);

/// Longest time until every system works again.
const LIMIT: Duration = Duration::from_secs(30);

/// How often that is checked.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Longest time from the signal to the end of the process.
const DEATH_LIMIT: Timespec = Timespec {
    tv_sec: 5,
    tv_nsec: 0,
};

/// A system under load.
struct Load {
    name: &'static str,
    state: Mutex<LoadState>,
}

/// What a system has done so far.
#[derive(Default)]
struct LoadState {
    calls: u64,
    failed: u64,
    /// The last error.
    error: Option<String>,
    /// When the process died, until a call that has begun later has succeeded.
    died: Option<Instant>,
    /// When it has, since the last signal.
    works: Option<Instant>,
    /// How long that took, for each signal.
    times: Vec<Duration>,
}

impl Load {
    /// Calls the system until `stop`.
    fn run(&self, mut call: Call, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            let result = call();
            let mut state = self.state.lock().expect("no holder panics");
            state.calls += 1;
            match result {
                Ok(()) if state.died.is_some_and(|died| died <= began) => {
                    state.works = Some(Instant::now());
                    state.died = None;
                }
                Ok(()) => {}
                Err(error) => {
                    state.failed += 1;
                    state.error = Some(error.to_string());
                }
            }
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut LoadState) -> R) -> R {
        act(&mut self.state.lock().expect("no holder panics"))
    }

    fn report(&self) -> Value {
        self.with(|state| {
            state.times.sort_unstable();
            let millis = |at: usize| Some(state.times.get(at)?.as_secs_f64() * 1e3);
            json!({
                "system": self.name,
                "median_ms": millis(state.times.len() / 2),
                "worst_ms": millis(state.times.len().saturating_sub(1)),
                "calls": state.calls,
                "failed_calls": state.failed,
                "last_error": state.error,
            })
        })
    }
}

/// Runs the test.
///
/// # Errors
/// If no rack of processes runs on this machine, or a system cannot be set up.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    let kills = test.args.iterations.unwrap_or(KILLS);
    test.steps = u32::try_from(kills).unwrap_or(u32::MAX);
    if !test.is_hosted() {
        return Err(CliError::usage(
            "failover kills a process of a running rack; start one with `rackweave up`, and give \
             --hosted or its configuration",
        ));
    }
    let rack = test.real_rack()?;
    let calls = calls(&rack, &test.nodes, &test.globals.interrupt)?;
    let load = |name| Load {
        name,
        state: Mutex::default(),
    };
    let loads: Vec<Load> = calls.iter().map(|(name, _)| load(*name)).collect();
    let stop = AtomicBool::new(false);
    let result = std::thread::scope(|scope| {
        for (load, (_, call)) in loads.iter().zip(calls) {
            scope.spawn(|| load.run(call, &stop));
        }
        let result = (0..kills).try_for_each(|_| {
            let due = Instant::now() + BETWEEN;
            while Instant::now() < due && !test.is_interrupted() {
                std::thread::sleep(LOOK_EVERY);
            }
            match test.is_interrupted() {
                true => Ok(()),
                false => kill_once(test, &loads),
            }
        });
        stop.store(true, Ordering::Relaxed);
        result
    });
    result?;
    let has_standby = test.config.hosted().standby.is_some();
    let systems: Vec<Value> = loads.iter().map(Load::report).collect();
    Ok(json!({"standby": has_standby, "kills": kills, "systems": systems}))
}

/// Kills the leader and waits until every system works again.
fn kill_once(test: &mut TestRun<'_>, loads: &[Load]) -> Result<(), CliError> {
    let pid = HostedRack::connect(&test.config)?.status()?.pid;
    let commands = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = commands.split(|&byte| byte == 0);
    let elsewhere = || CliError::run("the switch's process does not run on this machine");
    if !words.any(|word| word == b"switch") {
        return Err(elsewhere());
    }
    let pid = Pid::from_raw(pid.cast_signed()).ok_or_else(elsewhere)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).map_err(|_| elsewhere())?;
    let signalled = Instant::now();
    pidfd_send_signal(&process, Signal::KILL).map_err(CliError::run)?;
    let mut ends = [PollFd::new(&process, PollFlags::IN)];
    poll(&mut ends, Some(&DEATH_LIMIT)).map_err(CliError::run)?;
    let died = Instant::now();
    for load in loads {
        load.with(|state| (state.died, state.works) = (Some(died), None));
    }
    let all_work = || {
        loads
            .iter()
            .all(|load| load.with(|state| state.works.is_some()))
    };
    while !all_work() && signalled.elapsed() < LIMIT && !test.is_interrupted() {
        std::thread::sleep(LOOK_EVERY);
    }
    for load in loads {
        load.with(|state| {
            state.died = None;
            let took = state.works.map(|works| works - signalled);
            state.times.extend(took);
        });
    }
    test.step(all_work() || test.is_interrupted());
    Ok(())
}

/// A call.
type Call = Box<dyn FnMut() -> Result<(), CliError> + Send>;

/// Longest time of a call. Those that have limits of their own have shorter ones.
const CALL_LIMIT: Duration = Duration::from_secs(10);

/// Records of the index.
const RECORDS: u64 = 1000;

/// Bytes of an item and of a message.
const ITEM_BYTES: usize = 64;

/// Whether a call got what it should.
fn expect(what: &str, found: u64, expected: u64) -> Result<(), CliError> {
    match found == expected {
        true => Ok(()),
        false => Err(CliError::run(format!(
            "{what} is {found} instead of {expected}"
        ))),
    }
}

/// Waits for something that must come within [`CALL_LIMIT`].
fn wait<R>(
    node: &Node,
    mut poll: impl FnMut() -> Result<Option<R>, CliError>,
) -> Result<R, CliError> {
    let deadline = Instant::now() + CALL_LIMIT;
    let mut patience = Patience::new(node);
    loop {
        if let Some(found) = poll()? {
            return Ok(found);
        }
        if Instant::now() > deadline {
            let limit = CALL_LIMIT.as_secs();
            return Err(CliError::run(format!("nothing arrived within {limit} s")));
        }
        patience.wait(false);
    }
}

/// A call to each system, all of which this process sets up between the first two of `nodes`.
///
/// # Errors
/// If the rack has no capacity for one of them, or a connection fails.
pub fn calls(
    rack: &RealRack,
    nodes: &[NodeId],
    interrupt: &Interrupt,
) -> Result<Vec<(&'static str, Call)>, CliError> {
    let [first, second] = [nodes[0], nodes[1]];
    let page = SharedPage::new(rack, [first, second])?;
    let options = IndexOptions {
        keys: RECORDS,
        network: Some(IndexNetworkSpec::default()),
        node_bytes: 512,
        ..IndexOptions::default()
    };
    let index = IndexService::new(rack, &options)?;
    index.load((0..RECORDS).map(|key| (key, key.to_le_bytes())))?;
    index.load_network(CALL_LIMIT)?;
    let flow = rack.flow(&[first], &[second]);
    let flow = flow.item_bytes(ITEM_BYTES as u32).build()?;
    let sequencer = SequencerService::new(rack, 0)?;
    let config = MessagingConfig::default();
    let rig = Rig::new(rack, [first, second], &config, interrupt)?;
    Ok(vec![
        ("pages", pages(page)),
        ("index", lookups(index.connect(first, Access::InNetwork)?)),
        ("sequencer", numbers(sequencer.connect(first)?, sequencer)),
        ("flow", items(flow, rack.node_at(second))?),
        ("messages", messages(rig.storage, rig.compute)),
    ])
}

/// A page, and a worker of each of the nodes that share it.
struct SharedPage {
    page: PageId,
    workers: [PageWorker; 2],
    _service: PageService,
}

impl SharedPage {
    fn new(rack: &RealRack, [writer, reader]: [NodeId; 2]) -> Result<Self, CliError> {
        let service = PageService::new(rack, &PageOptions::default())?;
        let workers = [service.worker(writer)?, service.worker(reader)?];
        Ok(Self {
            page: workers[0].allocate()?,
            workers,
            _service: service,
        })
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        // A page that cannot be freed now is leaked, as after the death of this process.
        let _leaked = self.workers[0].free(self.page);
    }
}

/// One node changes a page, and the other one reads it.
fn pages(shared: SharedPage) -> Call {
    let mut last = 0u64;
    Box::new(move || {
        last += 1;
        let SharedPage { page, workers, .. } = &shared;
        workers[0].change(*page, |bytes| {
            bytes[..8].copy_from_slice(&last.to_le_bytes())
        })?;
        let found = workers[1].read(*page)?.data().u64_le(0);
        expect("the page", found, last)
    })
}

/// A lookup that the switch leads.
fn lookups(mut index: IndexConnection) -> Call {
    let mut key = 0;
    Box::new(move || {
        key = (key + 1) % RECORDS;
        let value = index.get(key)?;
        match value.as_deref() == Some(&key.to_le_bytes()[..]) {
            true => Ok(()),
            false => Err(CliError::run(format!("key {key} has the value {value:?}"))),
        }
    })
}

/// The next number of a sequencer in the switch. A takeover may leave a gap.
fn numbers(mut client: SequencerClient, service: SequencerService) -> Call {
    let mut next = 0;
    Box::new(move || {
        let _lives = &service;
        let range = client.next(1)?;
        expect("the number", range.start.min(next), next)?;
        next = range.end;
        Ok(())
    })
}

/// An item of a flow, from push to pop.
fn items(flow: Flow, node: Node) -> Result<Call, CliError> {
    let (mut producer, mut consumer) = (flow.take_producer(0)?, flow.take_consumer(0)?);
    let mut number = 0u64;
    Ok(Box::new(move || {
        let _lives = &flow;
        number += 1;
        let mut item = [0; ITEM_BYTES];
        item[..8].copy_from_slice(&number.to_le_bytes());
        wait(&node, || Ok(producer.push(&item).ok()))?;
        let found = wait(&node, || match consumer.pop(&mut item) {
            Taken::Items(()) => Ok(Some(u64::from_le_bytes(
                *item.first_chunk().expect("it fits"),
            ))),
            Taken::Empty => Ok(None),
            Taken::Ended | Taken::Aborted => Err(CliError::run("the flow has ended")),
        })?;
        expect("the item", found, number)
    }))
}

/// A message from node to node.
fn messages(mut from: ConnectionEnd, mut to: ConnectionEnd) -> Call {
    let mut number = 0u64;
    Box::new(move || {
        number += 1;
        let mut message = [0; ITEM_BYTES];
        message[..8].copy_from_slice(&number.to_le_bytes());
        from.post(&message)?;
        let ConnectionEnd { node, receiver, .. } = &mut to;
        let found = wait(node, || {
            from.sender.poll()?;
            let number = match receiver.peek()? {
                Arrived::Piece(piece) => piece.bytes.u64_le(0),
                Arrived::Empty => return Ok(None),
                _ => return Err(CliError::run("the connection has ended")),
            };
            receiver.release()?;
            receiver.poll()?;
            Ok(Some(number))
        })?;
        expect("the message", found, number)
    })
}
