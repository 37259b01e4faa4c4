//! Two switch processes, of which one leads.

use super::programs::{join, pages, rack_of_programs};
use super::*;
use crate::config::StandbySection;
use crate::hosted::elector::{Elector, ElectorError, Part};
use crate::services::SequencerService;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, channel};

const AMPLE: Time = Time::from_secs(10);

/// Runs a switch process that waits until it leads. Its events are sent.
fn run_elected(
    rack: &Rack,
    is_standby: bool,
    elector: Option<Arc<dyn Elector>>,
) -> (impl FnOnce(&AtomicBool) + Send, Receiver<SwitchEvent>) {
    let (report, reported) = channel();
    let report = Mutex::new(report);
    let options = SwitchOptions {
        config: rack.config.clone(),
        listen: None,
        is_standby,
        elector,
    };
    let run = move |stop: &AtomicBool| {
        let Some(process) = SwitchProcess::elected(options, stop, |_| {}).unwrap() else {
            return;
        };
        process.run(stop, &|event| {
            println!(
                "{}: {event:?}",
                if is_standby { "standby" } else { "switch" }
            );
            let _gone = report.lock().expect("no holder panics").send(event);
        });
    };
    (run, reported)
}

/// Waits for an event.
fn wait_for(events: &Receiver<SwitchEvent>, is_it: impl Fn(&SwitchEvent) -> bool) {
    while !is_it(&events.recv_timeout(AMPLE).expect("it happens in time")) {}
}

fn with_standby(mut rack: Rack, control: Option<SocketAddr>) -> Rack {
    let standby = StandbySection {
        control,
        ..StandbySection::default()
    };
    rack.config.hosted.as_mut().expect("it is hosted").standby = Some(standby);
    rack
}

#[test]
fn each_of_two_switch_processes_takes_over_when_the_other_one_ends() {
    let restored = |event: &SwitchEvent| match event {
        SwitchEvent::Restored { absent } => {
            assert!(absent.is_empty(), "{absent:?}");
            true
        }
        SwitchEvent::StateLeft { why } => panic!("{why}"),
        _ => false,
    };
    for (control, link) in [
        (None, LinkKind::SharedMemory),
        (Some(free_port()), LinkKind::SharedMemory),
        (Some(free_port()), LinkKind::Udp),
    ] {
        let rack = with_standby(rack_of_programs("standby", link), control);
        let use_it = || {
            let (program, made, sequencer, mut numbers) =
                while_running(run_elected(&rack, false, None).0, || {
                    let program = join(&rack.config, "first");
                    let made = pages(&program);
                    let sequencer = SequencerService::new(&program, 100).unwrap();
                    let mut client = sequencer.connect(NodeId(1)).unwrap();
                    let numbers: Vec<u64> = client.next(5).unwrap().collect();
                    (program, made, sequencer, numbers)
                });
            let mut page = None;
            for round in 0..4 {
                let (run, events) = run_elected(&rack, round % 2 == 0, None);
                while_running(run, || {
                    wait_for(&events, restored);
                    let writer = made.worker(NodeId(1)).unwrap();
                    let page = *page.get_or_insert_with(|| writer.allocate().unwrap());
                    writer.change(page, |bytes| bytes[round] = 7).unwrap();
                    let written = writer.read(page).map(|it| it.data().u64_le(0));
                    assert_eq!(written, Ok(0x0707_0707 >> (8 * (3 - round))));
                    let mut client = sequencer.connect(NodeId(1)).unwrap();
                    numbers.extend(client.next(5).unwrap());
                });
            }
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), 25, "no number is handed out twice");
            drop(program);
        };
        while_running(run_node(&rack, "storage"), use_it);
        std::fs::remove_dir_all(&rack.folder).unwrap();
    }
}

/// An elector whose terms are as the test says.
#[derive(Default)]
struct Scripted {
    epoch: u64,
    /// Until when the leader leads.
    until: Mutex<Option<Instant>>,
    is_lost: AtomicBool,
    /// How often the term was extended.
    renewals: AtomicU32,
    /// Whether that takes long.
    is_slow: AtomicBool,
    parts: Mutex<BTreeMap<String, String>>,
}

impl Scripted {
    fn with_a_long_term() -> Arc<Self> {
        Arc::new(Self {
            epoch: 1,
            until: Mutex::new(Some(Instant::now() + Time::from_secs(3600))),
            ..Self::default()
        })
    }
}

fn has_joined(event: &SwitchEvent) -> bool {
    matches!(event, SwitchEvent::Joined { .. })
}

fn has_stepped_down(event: &SwitchEvent) -> bool {
    matches!(event, SwitchEvent::SteppedDown { .. })
}

impl Elector for Scripted {
    fn campaign_every(&self) -> Time {
        Time::from_millis(5)
    }

    fn campaign(&self) -> Result<Option<u64>, ElectorError> {
        Ok(Some(self.epoch))
    }

    fn renew(&self) -> Result<Option<Instant>, ElectorError> {
        while self.is_slow.load(Ordering::Relaxed) {
            std::thread::sleep(Time::from_millis(1));
        }
        self.renewals.fetch_add(1, Ordering::Relaxed);
        match self.is_lost.load(Ordering::Relaxed) {
            true => Err(ElectorError::Failed("no answer".into())),
            false => Ok(*self.until.lock().unwrap()),
        }
    }

    fn load(&self) -> Result<BTreeMap<String, String>, ElectorError> {
        Ok(self.parts.lock().unwrap().clone())
    }

    fn store(&self, parts: &[Part<'_>]) -> Result<(), ElectorError> {
        if self.is_lost.load(Ordering::Relaxed) {
            return Err(ElectorError::Lost);
        }
        let parts = parts
            .iter()
            .map(|part| (part.name.into(), part.text.into()));
        self.parts.lock().unwrap().extend(parts);
        Ok(())
    }

    fn resign(&self) {}
}

#[test]
fn a_node_refuses_a_controller_of_an_earlier_term() {
    let rack = Rack::new("old-term", LinkKind::SharedMemory);
    let of_term = |epoch| {
        let elector = Scripted {
            epoch,
            ..Scripted::default()
        };
        run_elected(&rack, false, Some(Arc::new(elector)))
    };
    let (report, reported) = channel();
    let node = rack.node("a").unwrap();
    let run_node = move |stop: &AtomicBool| {
        node.run(stop, &|event| _ = report.send(event)).unwrap();
    };
    while_running(run_node, || {
        for epoch in [2, 3] {
            let (run, events) = of_term(epoch);
            while_running(run, || wait_for(&events, has_joined));
        }
        // Another process with the number of an earlier one has an elector that forgot it.
        for epoch in [2, 3] {
            let (run, events) = of_term(epoch);
            while_running(run, || {
                loop {
                    match reported.recv_timeout(AMPLE).expect("the node says why") {
                        NodeEvent::Waiting { why } if why.contains("not obeyed") => break,
                        _ => {}
                    }
                }
                assert!(!events.try_iter().any(|event| has_joined(&event)));
            });
            while reported.try_recv().is_ok() {}
        }
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

/// Its nodes may have got farewells meanwhile.
#[test]
fn a_leader_whose_term_was_extended_too_late_steps_down() {
    let rack = Rack::new("term-late", LinkKind::SharedMemory);
    let elector = Scripted::with_a_long_term();
    let (run, events) = run_elected(&rack, false, Some(elector.clone()));
    while_running(run_node(&rack, "a"), || {
        while_running(run, || {
            wait_for(&events, has_joined);
            let ends = Instant::now() + Time::from_secs(1);
            *elector.until.lock().unwrap() = Some(ends);
            let before = elector.renewals.load(Ordering::Relaxed);
            eventually("its end is known", || {
                elector.renewals.load(Ordering::Relaxed) > before
            });
            elector.is_slow.store(true, Ordering::Relaxed);
            wait_for(&events, |event| matches!(event, SwitchEvent::Left { .. }));
            *elector.until.lock().unwrap() = Some(Instant::now() + Time::from_secs(3600));
            elector.is_slow.store(false, Ordering::Relaxed);
            wait_for(&events, has_stepped_down);
        });
    });
    std::fs::remove_dir_all(&rack.folder).unwrap();
}

#[test]
fn a_leader_whose_term_has_ended_stops_acting() {
    // It notices by time, or when it stores something.
    for by_time in [true, false] {
        let rack = Rack::new("term-ends", LinkKind::SharedMemory);
        let elector = Scripted::with_a_long_term();
        let (run, events) = run_elected(&rack, false, Some(elector.clone()));
        while_running(run_node(&rack, "a"), || {
            while_running(run, || {
                wait_for(&events, has_joined);
                let mut client = HostedRack::connect(&rack.config).unwrap();
                let mut create = || client.create_flow(&[NodeId(0)], &[NodeId(0)], 64, 4096);
                create().unwrap();
                if by_time {
                    *elector.until.lock().unwrap() = Some(Instant::now());
                    eventually("the term ends", || create().is_err());
                } else {
                    elector.is_lost.store(true, Ordering::Relaxed);
                    assert!(create().is_err(), "a reply after the end of the term");
                }
                wait_for(&events, has_stepped_down);
                assert!(HostedRack::connect(&rack.config).is_err());
            });
        });
        std::fs::remove_dir_all(&rack.folder).unwrap();
    }
}
