//! Pages in doubt: the directory is lost and rebuilt, and a node determines what it has.

use super::bench::{Bench, PAGE, counter, increment, page};
use super::log::Log;
use crate::page_store::Mode::{Exclusive, Shared};
use crate::page_store::PoolConfig;
use rackweave_base::Duration;
use rackweave_wire::fabric::page::control::PoolLayout;
use rackweave_wire::fabric::page::{FrameState, LatchWord, PageId, PageLocation, control};

const FRAMES: u32 = 8;
const LAYOUT: PoolLayout = PoolLayout::new(PAGE as u32, FRAMES);
/// The version of pages that a rebuilt directory does not know.
const FIRST: u64 = 1 << 32;

fn state_at(frame: u32) -> u64 {
    LAYOUT.state_at(frame)
}

/// One page that only node 0 has changed.
struct Fixture {
    bench: Bench,
    page: PageId,
    frame: u32,
}

impl Fixture {
    fn new() -> Self {
        let mut bench = Bench::new(11, 0, 0, FRAMES, 200);
        bench.start(2, 1, |node| PoolConfig::new(node, PAGE as u32, FRAMES));
        bench.change(0, 1).unwrap();
        bench.settle();
        let page = page(1);
        let (_, frame) = bench.rack.entry(page).place.cached().unwrap();
        Self { bench, page, frame }
    }

    fn state(&self) -> FrameState {
        let at = state_at(self.frame);
        FrameState(self.bench.rack.model().control_word(0, at))
    }

    fn doubt_at(&self) -> u64 {
        LAYOUT.doubt_at(self.frame)
    }

    /// The directory is rebuilt and cannot read homes.
    fn doubt(&mut self, version: u64) {
        self.doubt_about(self.state(), version);
    }

    /// The same, and the node had reported this state.
    fn doubt_about(&mut self, state: FrameState, version: u64) {
        let doubt = control::Doubt {
            page: self.page,
            state,
            version,
        };
        let mut model = self.bench.rack.model();
        for (at, word) in (self.doubt_at()..).step_by(8).zip(doubt.words()) {
            model.set_control_word(0, at, word);
        }
        let entry = model.entries.get_mut(&self.page).unwrap();
        entry.latch = LatchWord::open(version).locked();
        entry.holder = Some(0);
        entry.is_doubted = true;
        entry.place = PageLocation::HOME.lost();
        model.beginnings += 1;
    }

    /// The directory is rebuilt, and finds that home is older than node 0's version.
    fn settle_on_node(&mut self) {
        let state = self.state();
        assert!(state.is_dirty() && !state.is_latched());
        let mut model = self.bench.rack.model();
        model.set_control_word(0, self.doubt_at() + control::DOUBT_VERSION_AT, 0);
        let entry = model.entries.get_mut(&self.page).unwrap();
        entry.latch = LatchWord::open(state.version());
        (entry.holder, entry.is_doubted) = (None, false);
        entry.place = PageLocation::dirty(0, self.frame);
        model.beginnings += 1;
    }

    /// Node 0 changes the page once more, under this LSN, and starts to release its latch.
    fn change(&mut self, lsn: u64) {
        let mut guard = self.bench.fix(0, 1, Exclusive).unwrap();
        increment(&mut guard);
        guard.set_lsn(lsn);
    }

    fn steps(&mut self, steps: u64) {
        for _ in 0..steps {
            self.bench.step();
        }
    }

    /// The latch word after the node has resolved the doubt.
    fn end(&mut self) -> LatchWord {
        let page = self.page;
        let latch = self.bench.wait(|bench| {
            let latch = bench.rack.entry(page).latch;
            (!latch.is_locked()).then_some(latch)
        });
        self.bench.settle();
        latch
    }

    /// The value that node 1 reads, and then changes.
    fn seen_by_the_other(&mut self) -> u64 {
        self.bench.settle();
        let seen = counter(&self.bench.fix(1, 1, Shared).unwrap());
        assert_eq!(self.bench.change(1, 1), Ok(seen + 1));
        assert_eq!(counter(&self.bench.fix(0, 1, Shared).unwrap()), seen + 1);
        seen
    }
}

/// The directory was lost before the node reported that it has the latch, and is being rebuilt.
#[test]
fn a_latch_that_a_lost_directory_had_granted_does_not_count() {
    for number in [1, 2] {
        let mut stage = Fixture::new();
        let survey = LAYOUT.survey_at();
        stage.bench.rack.model().set_control_word(0, survey, 1);
        let fix = stage.bench.workers[0].fix(page(number), Exclusive);
        stage.steps(100);
        assert!(stage.bench.workers[0].take(fix).is_none());
        let said = |frame| FrameState(stage.bench.rack.model().control_word(0, state_at(frame)));
        assert!((0..FRAMES).all(|frame| !said(frame).is_latched()));
        stage.bench.rack.model().beginnings = 1;
        let guard = stage.bench.take(0, fix).unwrap();
        assert_eq!(counter(&guard), u64::from(number == 1));
    }
}

#[test]
fn who_has_the_newest_version_publishes_it_above_the_directorys() {
    let mut stage = Fixture::new();
    stage.doubt(FIRST);
    assert_eq!(stage.end(), LatchWord::open(FIRST + 1));
    assert_eq!(stage.state(), FrameState::dirty(FIRST + 1));
    assert_eq!(stage.seen_by_the_other(), 1);
}

#[test]
fn what_has_come_home_is_given_up() {
    let mut stage = Fixture::new();
    let mut model = stage.bench.rack.model();
    let home = model.bytes(0, stage.frame);
    model.homes.insert(stage.page, home);
    drop(model);
    stage.doubt(FIRST);
    assert_eq!(stage.end(), LatchWord::open(FIRST));
    assert_eq!(stage.state(), FrameState::NOTHING);
}

/// Its version number changes when the directory receives the node's claim, slightly before the
/// node receives the answer. A fix of the page meanwhile must not consider it outdated.
#[test]
fn a_page_in_doubt_is_not_taken_for_old() {
    for mode in [Shared, Exclusive] {
        for steps in 0..80 {
            let mut stage = Fixture::new();
            stage.doubt(FIRST);
            stage.steps(steps);
            let guard = stage.bench.fix(0, 1, mode).unwrap();
            assert_eq!(counter(&guard), 1, "{mode:?} after {steps} steps");
            drop(guard);
            assert_eq!(stage.seen_by_the_other(), 1, "{mode:?} after {steps} steps");
        }
    }
}

/// Home may have been the newest version, so the node's may be older.
#[test]
fn what_has_a_damaged_home_is_given_up() {
    for header in [0x55, 0] {
        let mut stage = Fixture::new();
        let mut home = vec![1; PAGE];
        home[..512].fill(header);
        stage.bench.rack.model().homes.insert(stage.page, home);
        stage.doubt(FIRST);
        assert_eq!(stage.end(), LatchWord::open(FIRST), "{header}");
        assert_eq!(stage.state(), FrameState::NOTHING);
        let error = stage.bench.fix(1, 1, Shared).unwrap_err();
        assert!(error.is_damage(), "{error}");
    }
}

/// Whatever state the node's resolution is in.
#[test]
fn a_doubt_that_is_taken_back_gives_nothing_up() {
    for steps in 0..60 {
        let mut stage = Fixture::new();
        stage.doubt(FIRST);
        stage.steps(steps);
        stage.settle_on_node();
        assert_eq!(stage.seen_by_the_other(), 1, "after {steps} steps");
    }
}

#[test]
fn a_doubt_in_place_of_another_is_found_out_about() {
    for steps in 0..60 {
        let mut stage = Fixture::new();
        stage.doubt(FIRST);
        stage.steps(steps);
        stage.doubt(2 * FIRST);
        assert_eq!(stage.end(), LatchWord::open(2 * FIRST + 1), "{steps}");
        assert_eq!(stage.seen_by_the_other(), 1, "after {steps} steps");
    }
}

/// Whatever the previous directory and this one have received of it: only then does the log permit
/// it to leave.
#[test]
fn a_change_whose_latch_is_on_its_way_back_is_published() {
    for steps in 0..60 {
        let mut stage = Fixture::new();
        let log = Log::up_to(steps % 2);
        stage.bench.pools[0].set_log(log.clone());
        stage.change(1);
        stage.steps(steps / 2);
        stage.doubt(FIRST);
        stage.steps(steps);
        // All waits for the log are due.
        log.allow(1);
        stage.bench.now += Duration::from_micros(20);
        assert_eq!(stage.end(), LatchWord::open(FIRST + 1), "{steps}");
        assert_eq!(stage.bench.pools[0].losses(), [], "after {steps} steps");
        assert_eq!(stage.seen_by_the_other(), 2, "after {steps} steps");
    }
}

#[test]
fn a_change_that_the_directory_of_before_had_taken_is_published_anew() {
    let mut stage = Fixture::new();
    stage.change(1);
    let said = stage.state();
    assert!(said.is_changed());
    stage.bench.settle();
    assert_eq!(stage.state(), FrameState::dirty(said.content_version()));
    stage.doubt_about(said, FIRST);
    assert_eq!(stage.end(), LatchWord::open(FIRST + 1));
    assert_eq!(stage.state(), FrameState::dirty(FIRST + 1));
    assert_eq!(stage.seen_by_the_other(), 2);
}
