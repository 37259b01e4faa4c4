//! Words of the server's memory that nodes and the controller change concurrently.

use super::*;
use rackweave_controller::{LocalRegions, NodeAddress, Site, TargetReply, TargetRequest};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_target::TargetError;
use rackweave_verbs::Verbs;
use rackweave_wire::fabric::page::{FallbackLatch, PageLocation};

const SERVER: NodeId = NodeId(3);

/// The page whose entry changes.
const PAGE_NUMBER: u64 = 5;

/// A site on which one word is `before` when it is loaded, and becomes `after` at that moment.
struct Racing<'a> {
    inner: &'a mut dyn Site,
    offset: u64,
    before: u64,
    after: u64,
    at: Option<Rkey>,
}

impl Racing<'_> {
    fn word(&mut self, offset: u64) -> u64 {
        let rkey = self.at.expect("the word was looked at");
        let word = self.inner.load_word(SERVER, rkey, offset);
        u64::from_le_bytes(word.expect("the server lives"))
    }
}

impl Site for Racing<'_> {
    fn load_word(&mut self, node: NodeId, rkey: Rkey, offset: u64) -> Option<[u8; 8]> {
        if node != SERVER || offset != self.offset || self.at.is_some() {
            return self.inner.load_word(node, rkey, offset);
        }
        self.at = Some(rkey);
        let words = [self.before, self.after].map(u64::to_le_bytes);
        self.inner.store_word(node, rkey, offset, words[1]);
        Some(words[0])
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
        let mut site = Racing {
            inner: site,
            offset: PAGE_NUMBER * 16 + 8,
            before: dying.0,
            after: published.0,
            at: None,
        };
        controller.node_died(&mut site, NodeId(1));
        assert_eq!(PageLocation(site.word(PAGE_NUMBER * 16 + 8)), published);
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
        let mut place = Racing {
            inner: site,
            offset: PAGE_NUMBER * 16 + 8,
            before: lost.0,
            after: lost.0,
            at: None,
        };
        let mut site = Racing {
            inner: &mut place,
            offset: PAGE_NUMBER * 16,
            before: latch.0,
            after: taken.0,
            at: None,
        };
        assert!(!controller.accept_loss(&mut site, page));
        assert_eq!(FallbackLatch(site.word(PAGE_NUMBER * 16)), taken);
    });
}
