//! A node that writes arbitrary words into the directory's entries in the memory server, by
//! compare-and-swap with its own queue pair, as a worker that violates the protocol can.

use super::*;
use rackweave_base::Rkey;
use rackweave_endpoint::page_store::directory::ChannelParts;
use rackweave_verbs::{CompletionStatus, Operation, Segment, Verbs, WorkRequest};
use rackweave_wire::fabric::page::{FallbackLatch, PageLocation};

const SERVER: NodeId = NodeId(3);

/// The entries' address and key.
type Key = (u64, Rkey);

/// Sets words of entries, whatever their previous values.
struct Forger {
    parts: ChannelParts,
    key: Key,
    /// Offsets and new values.
    words: Vec<(u64, u64)>,
    compare: u64,
    is_waiting: bool,
    ends: Arc<Mutex<Vec<CompletionStatus>>>,
}

impl Actor for Forger {
    fn step(&mut self, context: &mut Context<'_>) -> Step {
        while let Some(&(offset, swap)) = self.words.last() {
            let nic = context.nic();
            if self.is_waiting {
                let mut completions = Vec::new();
                if nic.poll_cq(self.parts.cq, 1, &mut completions) == 0 {
                    return Step::WaitForPacket;
                }
                self.is_waiting = false;
                if completions[0].status != CompletionStatus::Success {
                    self.ends.lock().unwrap().push(completions[0].status);
                    return Step::Done;
                }
                let mut before = [0; 8];
                self.parts.control.read(0, &mut before);
                let before = u64::from_le_bytes(before);
                if before == self.compare {
                    self.ends.lock().unwrap().push(CompletionStatus::Success);
                    self.words.pop();
                }
                self.compare = before;
                continue;
            }
            let operation = Operation::CompareSwap {
                address: self.key.0 + offset,
                rkey: self.key.1,
                compare: self.compare,
                swap,
            };
            let segment = Segment {
                address: self.parts.control_address,
                length: 8,
                lkey: self.parts.control_lkey,
            };
            let request = WorkRequest::new(1, operation, &[segment]);
            let qpn = self.parts.fallback[0].qpn;
            nic.post_send(qpn, request)
                .expect("the queue pair is connected");
            self.is_waiting = true;
        }
        Step::Done
    }
}

impl Bench {
    fn key(&self, node: u16) -> Key {
        let ends = self.rack.page_ends(NodeId(node)).unwrap();
        let entries = ends.channels[0].fallback[0];
        (entries.address, entries.rkey)
    }

    /// Has node 1 set entries with this key; returns the outcome for each word.
    fn forge(
        &mut self,
        key: Key,
        entries: &[(u64, FallbackLatch, PageLocation)],
    ) -> Vec<CompletionStatus> {
        let ends = Arc::new(Mutex::new(Vec::new()));
        let word = |&(index, latch, place): &(u64, FallbackLatch, PageLocation)| {
            [(16 * index, latch.0), (16 * index + 8, place.0)]
        };
        let forger = Forger {
            parts: self.rack.page_ends(NodeId(1)).unwrap().channels[0].clone(),
            key,
            words: entries.iter().flat_map(word).collect(),
            compare: 0,
            is_waiting: false,
            ends: ends.clone(),
        };
        self.rack.spawn(NodeId(1), Box::new(forger));
        let until = self.rack.now() + Duration::from_secs(1);
        assert_eq!(self.rack.run(until), RunEnd::Done);
        let ends = ends.lock().unwrap();
        ends.clone()
    }

    /// The reply to an operation of node 0, which ends in time whatever it is.
    fn ends(&mut self, op: Op) -> Answer {
        let replies = self.begin(0, &[op]);
        let until = self.rack.now() + Duration::from_millis(1_200);
        assert_eq!(self.rack.run(until), RunEnd::Done, "{op:?} does not end");
        let replies = replies.lock().unwrap();
        replies[0].answer
    }
}

/// The words that a rogue writes, for consecutive pages beginning with the first.
fn forgeries() -> Vec<(FallbackLatch, PageLocation)> {
    let open = LatchWord::open(5);
    let nobody = 0x3ffe;
    let latches = [
        FallbackLatch::new(open, None),
        FallbackLatch::new(open.locked(), None),
        FallbackLatch::new(open.locked(), Some(0)),
        FallbackLatch::new(open.locked(), Some(nobody)),
        FallbackLatch::new(open.locked(), Some(0)).doubted(),
        FallbackLatch::new(LatchWord::open((1 << 47) - 1), None),
        FallbackLatch::INDEXED,
        FallbackLatch(u64::MAX),
    ];
    let places = [
        PageLocation::dirty(0, 7),
        PageLocation::clean(1, 2),
        PageLocation::dirty(1, 2).writing(),
        PageLocation::dirty(u16::MAX, 0xff_ffff),
        PageLocation(u64::MAX),
    ];
    let with = |latch| places.map(|place| (latch, place));
    latches.into_iter().flat_map(with).collect()
}

/// The first of the attacked pages.
const FIRST: u64 = 16;

fn attacked() -> Bench {
    let mut bench = Bench::new(0, 0.0);
    // The contents of the buffer frame of node 1 that forged places name.
    bench.fill(1, 2, page(3), 0x33);
    let key = bench.key(1);
    let entries: Vec<_> = (FIRST..)
        .zip(forgeries())
        .map(|(index, (latch, place))| (index, latch, place))
        .collect();
    let ends = bench.forge(key, &entries);
    // A member's key opens the entries: the guarantees assume that.
    assert_eq!(ends.len(), 2 * entries.len());
    assert!(ends.iter().all(|end| *end == CompletionStatus::Success));
    bench
}

/// A page that was not attacked moves from node to node.
fn another_page_goes_around(bench: &mut Bench) {
    bench.change(0, 5, 1);
    bench.void(0, 2);
    let op = fetch(5, Mode::Shared, 2);
    assert_eq!(bench.answers(0, &[op]), [served(PageSource::Memory, false)]);
    let (page, frame, keep) = (page(5), 1, false);
    let evict = Op::Evict { page, frame, keep };
    assert_eq!(bench.answers(0, &[evict]), [Answer::Done]);
}

#[test]
fn forged_entries_end_in_time_and_bring_no_other_page() {
    let mut bench = attacked();
    let mut answers = Vec::new();
    for (index, forged) in (FIRST..).zip(forgeries()) {
        for mode in [Mode::Shared, Mode::Exclusive] {
            bench.void(0, 0);
            let answer = bench.ends(fetch(index, mode, 0));
            if let Answer::Fetched(_) = answer {
                assert_ne!(bench.byte(0, 0), 0x33, "{forged:?}");
            }
            answers.push(answer);
        }
        bench.ends(Op::Verify {
            page: page(index),
            lease: None,
        });
    }
    for expect in [Answer::Locked, Answer::Gone, Answer::Lost] {
        assert!(answers.contains(&expect), "{expect:?}: {answers:?}");
    }
    another_page_goes_around(&mut bench);
}

/// The controller moves forged entries into the switch and out of it, also when a node dies and the
/// directory is rebuilt.
#[test]
fn forged_entries_do_not_stop_the_controller() {
    let mut bench = attacked();
    let pages = FIRST..FIRST + forgeries().len() as u64;
    let promoted = pages
        .clone()
        .filter(|&index| bench.rack.promote(page(index)));
    let promoted: Vec<u64> = promoted.collect();
    assert!(promoted.len() > 10, "{promoted:?}");
    for &index in &promoted {
        bench.void(0, 0);
        bench.ends(fetch(index, Mode::Exclusive, 0));
    }
    for &index in &promoted {
        assert!(
            bench.rack.demote(page(index)) || index % 5 == 2,
            "page {index}"
        );
    }
    another_page_goes_around(&mut bench);
    bench.rack.restart_switch().unwrap();
    bench.rack.crash_node(NodeId(1));
    bench.void(0, 0);
    let answer = bench.ends(fetch(6, Mode::Exclusive, 0));
    assert_eq!(answer, served(PageSource::Storage, false));
}

#[test]
fn a_key_of_before_is_refused_when_the_store_is_closed() {
    let mut bench = Bench::new(0, 0.0);
    let (old, forged) = (
        bench.key(1),
        (5, FallbackLatch::INDEXED, PageLocation::HOME),
    );
    let fetched = bench.answers(0, &[fetch(5, Mode::Exclusive, 1)]);
    assert_eq!(fetched, [served(PageSource::Storage, false)]);
    assert!(bench.rack.open_store_to(0, &[NodeId(0)]));
    assert_eq!(bench.key(1), (control::NO_ENTRIES, Rkey(0)));
    assert_ne!(bench.key(0).1, old.1);
    let refused = |bench: &mut Bench| {
        let nic = bench.rack.nic_mut(SERVER).unwrap();
        let counters = nic.counters();
        let mut found = counters.iter();
        found.find_map(|(name, count)| (name == "resp_remote_access_errors").then_some(count))
    };
    let before = refused(&mut bench);
    assert_eq!(
        bench.forge(old, &[forged]),
        [CompletionStatus::RemoteAccess]
    );
    assert_eq!(refused(&mut bench), before.map(|count| count + 1));
    // The switch executes nothing for it either.
    let answer = bench.answers(1, &[fetch(5, Mode::Shared, 0)]);
    assert_eq!(answer, [Answer::NotMember]);
    // A member still has its latch.
    let release = Op::Release { page: page(5) };
    assert_eq!(
        bench.answers(0, &[release, release]),
        [Answer::Done, Answer::Superseded]
    );
    assert!(bench.rack.open_store_to(0, &[NodeId(0), NodeId(1)]));
    let answer = bench.answers(1, &[fetch(5, Mode::Shared, 0)]);
    assert_eq!(answer, [served(PageSource::Storage, false)]);
}
