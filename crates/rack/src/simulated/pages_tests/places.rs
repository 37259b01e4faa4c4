//! The two places of a page: which copies the directory knows, and where it reads a page.

use super::nodes::Nodes;
use super::*;
use rackweave_programs::pages::SecondPlace;

const PAGE_READ: u64 = 5;

impl Nodes {
    fn read(&mut self, node: usize, index: u64) {
        drop(self.fix(node, index, Mode::Shared));
    }

    /// Has a node read so many other pages that it drops [`PAGE_READ`].
    fn drop_page(&mut self, node: usize) {
        (20..20 + 2 * u64::from(FRAMES)).for_each(|index| self.read(node, index));
    }

    /// The nodes that the directory knows to have the page.
    fn places(&self) -> [Option<u16>; 2] {
        let entry = self.entry(PAGE_READ);
        [entry.place.cached(), entry.second.at()].map(|at| at.map(|(node, _)| node))
    }

    /// The source of the page that a node reads.
    fn source(&mut self, node: usize) -> PageSource {
        let counts = |nodes: &Self| {
            let worker = nodes.workers[node].borrow();
            let statistics = worker.statistics();
            (statistics.memory_indexed, statistics.storage_indexed)
        };
        let before = counts(self);
        self.read(node, PAGE_READ);
        match (counts(self).0 - before.0, counts(self).1 - before.1) {
            (1, 0) => PageSource::Memory,
            (0, 1) => PageSource::Storage,
            moved => panic!("the page was moved {moved:?} times"),
        }
    }
}

#[test]
fn a_page_that_one_of_two_nodes_has_dropped_comes_from_the_other() {
    let mut nodes = Nodes::new(2);
    assert_eq!(nodes.source(0), PageSource::Storage);
    assert_eq!(nodes.source(1), PageSource::Memory);
    assert_eq!(nodes.places(), [Some(0), Some(1)]);
    nodes.drop_page(0);
    assert_eq!(nodes.source(0), PageSource::Memory);
    assert_eq!(nodes.places(), [Some(0), Some(1)]);
    nodes.drop_page(1);
    assert_eq!(nodes.source(1), PageSource::Memory);
    nodes.drop_page(0);
    nodes.drop_page(1);
    assert_eq!(nodes.source(0), PageSource::Storage, "no node has it");
}

#[test]
fn a_refused_transfer_continues_at_the_other_place() {
    // The two places take turns, so one of two readers begins at the node that has dropped it.
    let mut refusals = 0;
    for dropped in [0, 1] {
        let mut nodes = Nodes::new(3);
        nodes.read(0, PAGE_READ);
        nodes.read(1, PAGE_READ);
        nodes.drop_page(dropped);
        let counters = |nodes: &Nodes| nodes.bench.rack.switch().program().pages.counters();
        let before = counters(&nodes);
        assert_eq!(nodes.source(2), PageSource::Memory);
        let refused = counters(&nodes).dropped_meanwhile - before.dropped_meanwhile;
        if refused > 0 {
            let places = nodes.places();
            assert!(!places.contains(&Some(dropped as u16)), "{places:?}");
            assert!(places.contains(&Some(3)), "{places:?}");
        }
        refusals += refused;
        nodes.drop_page(2);
        assert_eq!(nodes.source(2), PageSource::Memory);
    }
    assert_eq!(refusals, 1);
}

#[test]
fn a_copy_of_an_older_version_is_not_a_place() {
    let mut nodes = Nodes::new(2);
    nodes.read(0, PAGE_READ);
    nodes.read(1, PAGE_READ);
    let version = nodes.change(0, PAGE_READ);
    assert_eq!(nodes.places(), [Some(0), None]);
    // The copy of a version that is not at home yet.
    assert_eq!(nodes.source(1), PageSource::Memory);
    assert_eq!(nodes.places(), [Some(0), Some(1)]);
    nodes.drop_page(0);
    let guard = nodes.fix(0, PAGE_READ, Mode::Shared);
    assert_eq!(guard.version(), version);
    drop(guard);
    let state = nodes.entry(PAGE_READ);
    assert!(!state.place.is_dirty(), "it was written home");
}

#[test]
fn a_dead_node_is_not_a_place() {
    let mut nodes = Nodes::new(2);
    nodes.read(0, PAGE_READ);
    nodes.read(1, PAGE_READ);
    nodes.bench.rack.declare_dead(NodeId(1));
    assert_eq!(nodes.places(), [Some(0), None]);
    nodes.run(control::HOLD);
    nodes.change(0, PAGE_READ);
    nodes.bench.rack.declare_dead(NodeId(0));
    let state = nodes.entry(PAGE_READ);
    assert!(state.place.is_lost());
    assert_eq!(state.second, SecondPlace::NONE);
}

#[test]
fn entries_leave_the_switch_with_one_place() {
    let mut nodes = Nodes::new(2);
    nodes.read(0, PAGE_READ);
    nodes.read(1, PAGE_READ);
    assert!(nodes.bench.rack.demote(page(PAGE_READ)));
    assert!(nodes.bench.rack.promote(page(PAGE_READ)));
    assert_eq!(nodes.places(), [Some(0), None]);
}
