//! A directory that was lost is made again from what the nodes have.
//!
//! The switch forgets its directory when it restarts, a memory server its entries when it dies.
//! What counts then is which pages nodes hold latched and which they have changed: each says so in
//! a word beside the buffer frame ([`FrameState`]).
//!
//! - Who has a page's latch has its newest version; nobody else can have changed it.
//! - A changed page may have been changed again by another node, written home and dropped there;
//!   then nothing but the home shows it, whose header says in which directory's life it got which
//!   version. So the highest claim is compared with the home. If the target cannot tell, the node
//!   with that claim gets the latch, and finds out when it can
//!   (`rackweave_endpoint::page_store`); until then the page is locked, and counts as lost should
//!   that node die.
//! - All other pages are at home, under a version number that no copy bears.
//!
//! If a node does not answer, nobody knows what it had: all pages but those that others have
//! latched are lost.

use super::set_up::with_pages;
use super::{PageSetUpError, nvme};
use crate::{Controller, Site};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{NodeId, Rkey};
use rackweave_programs::pages::{EntryState, LostPage, NodeDeath};
use rackweave_wire::fabric::page::{
    FallbackLatch, FrameState, HEADER_LEN, LatchWord, PageHeader, PageId, Place, control,
};
use std::collections::{BTreeMap, BTreeSet};

/// Versions of pages that a new directory knows nothing of begin at a multiple of this: no page is
/// changed so often between two losses of the directory.
const VERSIONS: u64 = 1 << 32;

/// What a node says of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Claim {
    node: NodeId,
    frame: u32,
    state: FrameState,
}

/// What all nodes say.
#[derive(Debug, Default)]
struct Survey {
    claims: BTreeMap<PageId, Vec<Claim>>,
    /// What nodes have yet to find out for the directory of before: where that stands.
    doubts: BTreeMap<PageId, Vec<(NodeId, Rkey, u64)>>,
    /// A node did not answer, so some claims are missing.
    is_partial: bool,
    /// Versions of pages of which nothing is known.
    version: u64,
}

impl Controller {
    /// The switch has lost the directory: everything is connected afresh, the directory is made
    /// again, and requests under way are repeated.
    pub(crate) fn pages_restarted(&mut self, site: &mut dyn Site) {
        if self.pages.is_none() {
            return;
        }
        let connected = self.close_all_queues(site);
        if self.server_is_gone(site) {
            self.forget_server();
        }
        let is_partial = self.reconnect_nodes(site);
        for (store, connected) in (0u8..).zip(connected) {
            let is_up = connected && self.bring_store_up(site, store).is_ok();
            if !is_up {
                self.enter_store_without_target(site, store);
            }
        }
        let survey = self.survey(site, is_partial);
        let indexed = self.indexed_before(site);
        for page in indexed {
            let state = self.settle_claims(site, page, &survey);
            let _fits = with_pages(site, |pages| pages.insert(page, state));
        }
        self.unmark_writes(site);
        self.start_all_channels(site);
        if self
            .pages
            .as_ref()
            .is_some_and(|book| book.server.is_none())
        {
            self.server_died(site);
        }
    }

    /// Closes every queue at every target; which stores had their target.
    fn close_all_queues(&mut self, site: &mut dyn Site) -> Vec<bool> {
        let book = self.pages.as_mut().expect("as the caller knows");
        book.restarts += 1;
        let stores: Vec<_> = book.stores.iter_mut().map(Option::take).collect();
        let targets: Vec<NodeId> = book.spec.stores.iter().map(|store| store.target).collect();
        for (store, &target) in stores.iter().zip(&targets) {
            let Some(store) = store else { continue };
            for queue in store.queues.iter().flatten() {
                nvme::close(site, target, queue.node_qpn);
            }
            nvme::close(site, target, store.admin);
        }
        stores.iter().map(Option::is_some).collect()
    }

    /// Connects all nodes afresh that answer. True if one did not.
    fn reconnect_nodes(&mut self, site: &mut dyn Site) -> bool {
        let mut is_partial = false;
        for index in 0..self.pages.as_ref().map_or(0, |book| book.nodes.len()) {
            let node = self.pages.as_mut().and_then(|b| b.nodes[index].take());
            let Some(mut node) = node else { continue };
            if self.connect_node(site, index, &mut node).is_ok() {
                self.pages.as_mut().expect("as above").nodes[index] = Some(node);
                continue;
            }
            is_partial = true;
            let book = self.pages.as_ref().expect("as above");
            let slots = book.slots_of(index);
            let _of_the_dead = self.forget_node(site, &node, slots);
            let mut death = NodeDeath::default();
            self.fallback_died(site, node.pool.node.0, &mut death);
            self.note_lost(death.lost);
        }
        is_partial
    }

    /// Pages whose entries were in the switch: those whose entries the memory server has not; all,
    /// or as many as there is room for, if there is no server.
    fn indexed_before(&self, site: &mut dyn Site) -> Vec<PageId> {
        let book = self.pages.as_ref().expect("as the caller knows");
        let capacity = with_pages(site, |pages| pages.config().entries as usize);
        let mut indexed = Vec::new();
        for (store, spec) in (0u8..).zip(&book.spec.stores) {
            let region = book.fallback.get(usize::from(store));
            for page in (0..spec.pages).filter_map(|index| PageId::new(store, index)) {
                let word = region.zip(book.server).and_then(|(region, server)| {
                    let at = page.index() * super::fallback::ENTRY_LEN;
                    site.load_word(server, region.rkey, at)
                });
                let is_elsewhere =
                    word.is_some_and(|word| !FallbackLatch(u64::from_le_bytes(word)).is_indexed());
                if !is_elsewhere && indexed.len() < capacity {
                    indexed.push(page);
                }
            }
        }
        indexed
    }

    /// What all nodes say of their buffer frames.
    fn survey(&self, site: &mut dyn Site, is_partial: bool) -> Survey {
        let book = self.pages.as_ref().expect("as the caller knows");
        let page_size = book.spec.page_size;
        let mut survey = Survey {
            is_partial,
            version: book.restarts * VERSIONS,
            ..Survey::default()
        };
        for node in book.nodes.iter().flatten() {
            let (id, rkey, frames) = (node.pool.node, node.pool.region.rkey, node.pool.frames);
            for frame in 0..frames {
                let mut load = |at| site.load_word(id, rkey, at).map(u64::from_le_bytes);
                let doubt = control::doubt_at(page_size, frames, frame);
                let doubted = load(doubt + control::DOUBT_VERSION_AT).unwrap_or_default();
                let in_doubt = (doubted != 0)
                    .then(|| load(doubt).and_then(PageId::from_tag))
                    .flatten();
                if let Some(page) = in_doubt {
                    let doubts = survey.doubts.entry(page).or_default();
                    doubts.push((id, rkey, doubt));
                }
                let state = load(control::state_at(page_size, frames, frame));
                let mut state = FrameState(state.unwrap_or_default());
                if state == FrameState::NOTHING {
                    continue;
                }
                let at = u64::from(frame) * u64::from(page_size);
                let (tag, version) = (load(at), load(at + 8));
                let Some(page) = tag.and_then(PageId::from_tag) else {
                    continue;
                };
                let is_sure = state.is_latched() && !state.is_changed();
                if !is_sure && in_doubt == Some(page) && version == Some(doubted + 1) {
                    // The node gives it its new number just now.
                    state = state.renumbered(doubted);
                }
                if state.is_latched() && planted(Canary::PagesRebuiltUnlatched)
                    || state.is_dirty() && !state.is_latched() && planted(Canary::PagesRebuiltOlder)
                {
                    continue;
                }
                if is_sure || version == Some(state.content_version()) {
                    let claims = survey.claims.entry(page).or_default();
                    claims.push(Claim {
                        node: id,
                        frame,
                        state,
                    });
                }
            }
        }
        survey
    }

    /// What follows for a page from what the nodes say. Tells the node that has to find out.
    fn settle_claims(&mut self, site: &mut dyn Site, page: PageId, survey: &Survey) -> EntryState {
        // A node must not find out for a directory that is lost: it would give up what this one
        // believes it to have.
        for &(node, rkey, doubt) in survey.doubts.get(&page).into_iter().flatten() {
            site.store_word(node, rkey, doubt + control::DOUBT_VERSION_AT, [0; 8]);
        }
        let book = self.pages.as_ref().expect("as the caller knows");
        // What was given up does not come back.
        let floor = book.accepted.get(&page).copied().unwrap_or(0);
        let claims = survey.claims.get(&page).map_or(&[][..], Vec::as_slice);
        let counts = |claim: &&Claim| claim.state.version() >= floor;
        let claims: Vec<Claim> = claims.iter().filter(counts).copied().collect();
        let known = book.lost.iter().find(|lost| lost.page == page).copied();
        let lost = |version: u64| EntryState {
            latch: LatchWord::open(survey.version.max(version)),
            holder: None,
            doubted: false,
            place: Place::HOME.lost(),
        };
        let settled = match settled(&claims, survey) {
            Settled::Doubted(claim) => self.compare_with_home(site, page, claim, survey),
            settled => settled,
        };
        match (settled, known) {
            // Older than the one that was lost.
            (Settled::Newest(claim), Some(known))
                if claim.state.content_version() <= known.version =>
            {
                lost(known.version)
            }
            (Settled::Newest(claim), _) => state_of(claim),
            // Unless a newer version has come home since.
            (Settled::Certain(state), Some(known)) if state.holder.is_none() => {
                match self.home_version(site, page) {
                    Some(home) if home > known.version => state,
                    _ => lost(known.version),
                }
            }
            (Settled::Certain(mut state), _) => {
                let version = state.latch.version();
                if state.place.is_lost() && self.home_version(site, page) == Some(version) {
                    state.place = Place::HOME;
                }
                if state.place.is_lost() {
                    self.note_lost([LostPage { page, version }]);
                }
                state
            }
            // An older version than the one that was lost.
            (Settled::Doubted(claim), Some(known))
                if claim.state.content_version() <= known.version =>
            {
                lost(known.version)
            }
            (Settled::Doubted(claim), _) => {
                self.doubt(site, page, claim, survey.version);
                EntryState {
                    // If the home is newer, nobody knows by how much: a number behind the claim's
                    // may be that of a copy which is older than the home.
                    latch: LatchWord::open(survey.version).locked(),
                    holder: Some(claim.node.0),
                    doubted: true,
                    place: Place::HOME.lost(),
                }
            }
            (Settled::Lost(version), _) => {
                self.note_lost([LostPage { page, version }]);
                lost(version)
            }
        }
    }

    /// Looks at the home of a page that a node claims to have newer.
    fn compare_with_home(
        &self,
        site: &mut dyn Site,
        page: PageId,
        claim: Claim,
        survey: &Survey,
    ) -> Settled {
        match self.home_version(site, page) {
            None => Settled::Doubted(claim),
            Some(home) if home >= claim.state.content_version() => Settled::Certain(EntryState {
                latch: LatchWord::open(survey.version),
                holder: None,
                doubted: false,
                place: Place::HOME,
            }),
            Some(_) => Settled::Newest(claim),
        }
    }

    /// The version that this directory gave to what is at a page's home: 0 if it is of an
    /// earlier directory, nothing if the home cannot be seen.
    fn home_version(&self, site: &mut dyn Site, page: PageId) -> Option<u64> {
        let book = self.pages.as_ref().expect("as the caller knows");
        let store = book.spec.stores[usize::from(page.store())];
        let block = page.index() * u64::from(book.spec.page_size / store.block_size);
        let bytes = nvme::peek::<HEADER_LEN>(site, store.target, (store.nsid, block))?;
        let home = PageHeader::parse(&bytes)?;
        let is_of_this_directory = home.page == page.tag() && home.epoch == book.epoch;
        Some(if is_of_this_directory {
            home.version
        } else {
            0
        })
    }

    /// Tells a node that it has to find out whether it has the newest version.
    fn doubt(&self, site: &mut dyn Site, page: PageId, claim: Claim, version: u64) {
        let book = self.pages.as_ref().expect("as the caller knows");
        let page_size = book.spec.page_size;
        let pool = book
            .index(claim.node)
            .and_then(|index| book.nodes[index].as_ref())
            .map(|node| node.pool);
        if let Some(pool) = pool {
            let state = claim.state;
            let doubt = control::Doubt {
                page,
                state,
                version,
            };
            let [first, second, third] = doubt.words();
            let at = control::doubt_at(page_size, pool.frames, claim.frame);
            let mut store = |at, word: u64| {
                site.store_word(claim.node, pool.region.rkey, at, word.to_le_bytes())
            };
            store(at, first);
            store(at + 8, second);
            store(at + control::DOUBT_VERSION_AT, third);
        }
    }

    /// No write that was under way will end: their queues are closed.
    fn unmark_writes(&self, site: &mut dyn Site) {
        let book = self.pages.as_ref().expect("as the caller knows");
        let Some(server) = book.server else { return };
        for (region, spec) in book.fallback.iter().zip(&book.spec.stores) {
            for index in 0..spec.pages {
                let at = index * super::fallback::ENTRY_LEN;
                let mut load = |at| site.load_word(server, region.rkey, at);
                let (latch, place) = (load(at), load(at + 8));
                let place = Place(place.map_or(0, u64::from_le_bytes));
                let latch = FallbackLatch(latch.map_or(0, u64::from_le_bytes));
                if !latch.is_indexed() && place.is_writing() {
                    let word = place.not_writing().0.to_le_bytes();
                    site.store_word(server, region.rkey, at + 8, word);
                }
            }
        }
    }

    fn start_all_channels(&mut self, site: &mut dyn Site) {
        for index in 0..self.pages.as_ref().map_or(0, |book| book.nodes.len()) {
            let book = self.pages.as_ref().and_then(|b| b.nodes[index].as_ref());
            for worker in 0..book.map_or(0, |node| node.channels.len()) {
                let _table_fits = self.start_channel(site, index, worker);
            }
        }
    }

    fn server_is_gone(&self, site: &mut dyn Site) -> bool {
        let server = self.pages.as_ref().and_then(|book| book.server);
        server.is_some_and(|server| !site.node(server, &mut |_| {}))
    }

    fn forget_server(&mut self) {
        if let Some(book) = &mut self.pages {
            book.server = None;
            book.fallback.clear();
        }
    }

    /// The memory server has died: the next one takes its place.
    pub(super) fn server_died(&mut self, site: &mut dyn Site) {
        self.forget_server();
        self.next_server(site);
        if self
            .pages
            .as_ref()
            .is_some_and(|book| book.server.is_some())
        {
            self.renew_all_channels(site);
        }
    }

    /// A node that may be the memory server is there again.
    pub(super) fn server_returned(
        &mut self,
        site: &mut dyn Site,
        node: NodeId,
    ) -> Result<(), PageSetUpError> {
        let may_serve = self.pages.as_ref().is_some_and(|book| {
            let spec = &book.spec;
            let is_known = spec.fallback == Some(node) || spec.standbys.contains(&node);
            book.server.is_none() && is_known
        });
        if may_serve {
            self.server_died(site);
        }
        Ok(())
    }

    fn renew_all_channels(&mut self, site: &mut dyn Site) {
        for index in 0..self.pages.as_ref().map_or(0, |book| book.nodes.len()) {
            let book = self.pages.as_ref().and_then(|b| b.nodes[index].as_ref());
            for worker in 0..book.map_or(0, |node| node.channels.len()) {
                // A node that has died meanwhile needs nothing.
                let _dead = self.renew_channel(site, index, worker);
            }
        }
    }

    /// Makes the entries that the switch has not again in the memory of the first node that may
    /// have them and answers.
    fn next_server(&mut self, site: &mut dyn Site) {
        let Some(book) = &self.pages else { return };
        let mut candidates = book.spec.fallback.iter().chain(&book.spec.standbys);
        let found = candidates.find(|&&node| site.node(node, &mut |_| {}));
        let Some(&server) = found else { return };
        let book = self.pages.as_mut().expect("as above");
        book.server = Some(server);
        book.restarts += 1;
        if self.make_fallback(site).is_err() {
            return self.forget_server();
        }
        let book = self.pages.as_ref().expect("as above");
        let mut nodes = book.nodes.iter().flatten();
        let is_partial = nodes.any(|node| !site.node(node.pool.node, &mut |_| {}));
        let survey = self.survey(site, is_partial);
        let book = self.pages.as_ref().expect("as above");
        let stores = (0u8..).zip(&book.spec.stores);
        let pages = stores.flat_map(|(store, spec)| {
            (0..spec.pages).filter_map(move |index| PageId::new(store, index))
        });
        let pages: BTreeSet<PageId> = pages.collect();
        for page in pages {
            if with_pages(site, |pages| pages.entry(page)).is_some() {
                self.mark_indexed(site, page);
                continue;
            }
            let state = self.settle_claims(site, page, &survey);
            if let Some((server, rkey, offset)) = self.fallback_entry(page) {
                let latch = super::fallback::word(&state);
                site.store_word(server, rkey, offset + 8, state.place.0.to_le_bytes());
                site.store_word(server, rkey, offset, latch.0.to_le_bytes());
            }
        }
    }
}

/// What follows from the claims to a page.
enum Settled {
    Certain(EntryState),
    /// This one may be the newest version.
    Doubted(Claim),
    /// This one is.
    Newest(Claim),
    /// This version, at least, may have been the newest.
    Lost(u64),
}

/// The entry of a page whose newest version is what a node claims.
fn state_of(claim: Claim) -> EntryState {
    let latch = LatchWord::open(claim.state.version());
    match claim.state.is_changed() {
        // The latch is on its way back, and publishes the version.
        true => EntryState {
            latch: latch.locked(),
            holder: Some(claim.node.0),
            doubted: false,
            place: Place::HOME.lost(),
        },
        false => EntryState {
            latch,
            holder: None,
            doubted: false,
            place: Place::dirty(claim.node.0, claim.frame),
        },
    }
}

fn settled(claims: &[Claim], survey: &Survey) -> Settled {
    let sure = claims
        .iter()
        .find(|claim| claim.state.is_latched() && !claim.state.is_changed());
    if let Some(holder) = sure {
        let version = holder.state.version();
        // Who gave it back and has not heard yet that this was taken says that it changes it.
        let is_its = |claim: &&Claim| {
            let state = claim.state;
            (state.is_dirty() || state.is_changed()) && state.content_version() == version
        };
        let place = match claims.iter().find(is_its) {
            Some(at) => Place::dirty(at.node.0, at.frame),
            // It may have been a node's that does not answer.
            None if survey.is_partial => Place::HOME.lost(),
            None => Place::HOME,
        };
        return Settled::Certain(EntryState {
            latch: LatchWord::open(version).locked(),
            holder: Some(holder.node.0),
            doubted: false,
            place,
        });
    }
    let newest = claims
        .iter()
        .max_by_key(|claim| claim.state.content_version());
    match newest {
        _ if survey.is_partial => {
            Settled::Lost(newest.map_or(0, |claim| claim.state.content_version()))
        }
        Some(claim) => Settled::Doubted(*claim),
        None => Settled::Certain(EntryState {
            latch: LatchWord::open(survey.version),
            holder: None,
            doubted: false,
            place: Place::HOME,
        }),
    }
}
