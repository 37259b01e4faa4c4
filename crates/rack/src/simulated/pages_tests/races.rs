//! Words of the server's memory that nodes and the controller change concurrently.

use super::*;
use rackweave_controller::{LocalRegions, NodeAddress, Site, TargetReply, TargetRequest};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_target::TargetError;
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::{FallbackLatch, PageLocation};
use std::cell::Cell;

const SERVER: NodeId = NodeId(3);

/// The page whose entry changes.
const PAGE_NUMBER: u64 = 5;

/// Loads a word of a node by way of another site.
trait Load: FnMut(&mut dyn Site, NodeId, Rkey, u64) -> Option<[u8; 8]> {}

impl<F> Load for F where F: FnMut(&mut dyn Site, NodeId, Rkey, u64) -> Option<[u8; 8]> {}

/// A site on which words of nodes are loaded by `load`.
struct Altered<'a, F> {
    inner: &'a mut dyn Site,
    load: F,
}

/// One word, at this offset of the server's memory, is `before` when it is loaded, and becomes
/// `after` at that moment; then `at` has its region.
fn racing<'a>(
    inner: &'a mut dyn Site,
    at: &'a Cell<Option<Rkey>>,
    (race, before, after): (u64, u64, u64),
) -> Altered<'a, impl Load> {
    let load = move |site: &mut dyn Site, node, rkey, offset| {
        if node != SERVER || offset != race || at.get().is_some() {
            return site.load_word(node, rkey, offset);
        }
        at.set(Some(rkey));
        site.store_word(node, rkey, offset, after.to_le_bytes());
        Some(before.to_le_bytes())
    };
    Altered { inner, load }
}

fn word(site: &mut dyn Site, at: &Cell<Option<Rkey>>, offset: u64) -> u64 {
    let rkey = at.get().expect("the word was looked at");
    let word = site.load_word(SERVER, rkey, offset);
    u64::from_le_bytes(word.expect("the server lives"))
}

impl<F: Load> Site for Altered<'_, F> {
    fn load_word(&mut self, node: NodeId, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        (self.load)(self.inner, node, rkey, offset)
    }

    fn now(&self) -> Instant {
        self.inner.now()
    }

    fn nodes(&self) -> Vec<(NodeId, NodeAddress)> {
        self.inner.nodes()
    }

    fn regions(&self) -> Option<&LocalRegions> {
        self.inner.regions()
    }

    fn node(&mut self, node: NodeId, act: &mut dyn FnMut(&mut dyn Verbs)) -> bool {
        self.inner.node(node, act)
    }

    fn target(
        &mut self,
        node: NodeId,
        request: TargetRequest,
    ) -> Option<Result<TargetReply, TargetError>> {
        self.inner.target(node, request)
    }

    fn switch(&mut self, act: &mut dyn FnMut(Instant, &mut Switch<Pipeline>)) {
        self.inner.switch(act);
    }
}

/// A page whose newest version is at node 1, unlatched, in the server's memory.
fn at_dying_node() -> (FallbackLatch, PageLocation) {
    let latch = LatchWord::default().changed().released();
    (
        FallbackLatch::new(latch, None),
        PageLocation::HOME.moved(1, 2),
    )
}

#[test]
fn what_a_living_node_publishes_while_another_dies_stays() {
    let bench = Bench::new(0, 0.0);
    let (_, dying) = at_dying_node();
    let published = dying.moved(0, 7);
    bench.rack.control(|controller, site| {
        let (at, offset) = (Cell::new(None), PAGE_NUMBER * 16 + 8);
        let mut site = racing(site, &at, (offset, dying.0, published.0));
        controller.node_died(&mut site, NodeId(1));
        assert_eq!(PageLocation(word(&mut site, &at, offset)), published);
        let lost = controller.lost_pages().iter();
        assert!(lost.clone().all(|lost| lost.page.index() != PAGE_NUMBER));
    });
}

#[test]
fn a_loss_is_not_accepted_over_a_latch_that_was_just_taken() {
    let bench = Bench::new(0, 0.0);
    let page = PageId::new(0, PAGE_NUMBER).unwrap();
    let (latch, _) = at_dying_node();
    let taken = FallbackLatch::new(latch.latch().locked(), Some(0));
    bench.rack.control(|controller, site| {
        // The place first: a lost page.
        let lost = PageLocation::HOME.moved(1, 2).died(1);
        assert!(lost.is_lost());
        let (at_place, at, offset) = (Cell::new(None), Cell::new(None), PAGE_NUMBER * 16);
        let mut place = racing(site, &at_place, (offset + 8, lost.0, lost.0));
        let mut site = racing(&mut place, &at, (offset, latch.0, taken.0));
        assert!(!controller.accept_loss(&mut site, page));
        assert_eq!(FallbackLatch(word(&mut site, &at, offset)), taken);
    });
}

/// The node has changed a page, and dies after so many of its words were loaded: what it had is not
/// taken for nothing.
#[test]
fn a_node_that_dies_while_a_directory_is_rebuilt_takes_its_pages_with_it() {
    for loads in [0, 3, 20] {
        let mut bench = Bench::new(PAGES, 0.0);
        bench.change(0, PAGE_NUMBER, 1);
        let mut simulation = bench.rack.get_mut();
        assert!(simulation.empty_switch_at(0).unwrap());
        let lost = simulation.control(|controller, site| {
            let mut left = loads;
            let load = |site: &mut dyn Site, node, rkey, offset| {
                if node == NodeId(0) {
                    left = i32::max(left - 1, -1);
                }
                let lives = node != NodeId(0) || left >= 0;
                lives.then(|| site.load_word(node, rkey, offset)).flatten()
            };
            let mut site = Altered { inner: site, load };
            controller.switch_restarted(&mut site).unwrap();
            let lost = controller.lost_pages().iter();
            lost.map(|lost| lost.page.index()).collect::<Vec<_>>()
        });
        assert!(lost.contains(&PAGE_NUMBER), "after {loads}: {lost:?}");
    }
}
