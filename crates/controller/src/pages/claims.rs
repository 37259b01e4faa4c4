//! What nodes claim about their buffer frames when a lost directory is rebuilt, and the resulting
//! state of each page.
//!
//! - A node that holds a page's latch has its newest version; no other node can have changed it.
//! - A changed page may have been changed again by another node, written home (to storage) and
//!   dropped there; then only the home shows it: its header contains the directory's epoch and the
//!   version. So the highest claim is compared with the home. If the target cannot tell, the node
//!   with that claim gets the latch, and finds out when it can (`rackweave_endpoint::page_store`);
//!   until then the page is locked, and counts as lost should that node die.
//! - All other pages are at home, under a version number that no copy has.
//!
//! If a node does not reply, its claims are unknown: all pages except those that others have
//! latched are lost.

use super::{PagePool, nvme};
use crate::{Controller, Site};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::{NodeId, Rkey};
use rackweave_programs::pages::{EntryState, LostPage};
use rackweave_wire::fabric::page::{
    FrameState, LatchWord, PageHeader, PageId, PageLocation, control,
};
use std::collections::BTreeMap;
use std::sync::atomic::{Ordering, fence};

/// Versions of pages without known state in a new directory begin at a multiple of this: no page is
/// changed so often between two losses of the directory.
const VERSIONS: u64 = 1 << 32;

/// Words of a buffer frame that are read for its claim.
const WORDS: usize = 5;

/// A node's claim about a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Claim {
    node: NodeId,
    frame: u32,
    state: FrameState,
}

/// The claims of all nodes.
#[derive(Debug, Default)]
pub(super) struct Survey {
    claims: BTreeMap<PageId, Vec<Claim>>,
    /// Open questions of the previous directory to nodes: where their words are.
    doubts: BTreeMap<PageId, Vec<(NodeId, Rkey, u64)>>,
    /// A node did not reply, so some claims are missing.
    is_partial: bool,
    /// The version of pages without known state.
    version: u64,
}

impl Survey {
    /// Adds the claims and the open questions of a node. `None` if it does not reply.
    fn ask(&mut self, site: &mut dyn Site, pool: &PagePool) -> Option<()> {
        let (node, rkey, layout) = (pool.node, pool.region.rkey, pool.layout);
        let words = |frame| {
            let doubt = layout.doubt_at(frame);
            let version = doubt + control::DOUBT_VERSION_AT;
            let (state, page) = (layout.state_at(frame), layout.frame_at(frame));
            [version, doubt, state, page, page + 8]
        };
        let offsets: Vec<u64> = (0..layout.frames).flat_map(words).collect();
        let found = site.load_words(node, rkey, &offsets)?;
        let (found, _) = found.as_chunks::<WORDS>();
        for (frame, words) in (0..).zip(found) {
            let [doubted, in_doubt, state, tag, version] = words.map(u64::from_le_bytes);
            let in_doubt = PageId::from_tag(in_doubt).filter(|_| doubted != 0);
            if let Some(page) = in_doubt {
                let doubts = self.doubts.entry(page).or_default();
                doubts.push((node, rkey, layout.doubt_at(frame)));
            }
            let mut state = FrameState(state);
            let Some(page) = PageId::from_tag(tag).filter(|_| state != FrameState::NOTHING) else {
                continue;
            };
            let is_sure = state.is_latched() && !state.is_changed();
            if !is_sure && in_doubt == Some(page) && version == doubted + 1 {
                // The node is giving it the new number just now.
                state = state.renumbered(doubted);
            }
            if state.is_latched() && planted(Canary::PagesRebuiltUnlatched)
                || state.is_dirty() && !state.is_latched() && planted(Canary::PagesRebuiltOlder)
            {
                continue;
            }
            if is_sure || version == state.content_version() {
                let claims = self.claims.entry(page).or_default();
                claims.push(Claim { node, frame, state });
            }
        }
        Some(())
    }
}

impl Controller {
    /// Collects the claims of all nodes about their buffer frames.
    pub(super) fn survey(&self, site: &mut dyn Site, is_partial: bool) -> Survey {
        let registry = self.pages.as_ref().expect("as the caller knows");
        let mut survey = Survey {
            is_partial,
            version: registry.restarts * VERSIONS,
            ..Survey::default()
        };
        for node in registry.nodes.iter().flatten() {
            let pool = &node.pool;
            let (at, word) = (pool.layout.survey_at(), registry.restarts.to_le_bytes());
            site.store_word(pool.node, pool.region.rkey, at, word);
        }
        fence(Ordering::SeqCst);
        for node in registry.nodes.iter().flatten() {
            // A node may die after it was found alive.
            survey.is_partial |= survey.ask(site, &node.pool).is_none();
        }
        survey
    }

    /// The state of a page that results from the claims. Notifies the node that has to find out.
    pub(super) fn settle_claims(
        &mut self,
        site: &mut dyn Site,
        page: PageId,
        survey: &Survey,
    ) -> EntryState {
        // A node must not find out for a lost directory: it would give up what this directory
        // believes it to have. By now this directory may have asked about another page there.
        for &(node, rkey, doubt) in survey.doubts.get(&page).into_iter().flatten() {
            let in_doubt = site.load_word(node, rkey, doubt).map(u64::from_le_bytes);
            if in_doubt == Some(page.tag()) {
                site.store_word(node, rkey, doubt + control::DOUBT_VERSION_AT, [0; 8]);
            }
        }
        let registry = self.pages.as_ref().expect("as the caller knows");
        // Versions that were given up do not come back.
        let floor = registry.accepted.get(&page).copied().unwrap_or(0);
        let claims = survey.claims.get(&page).map_or(&[][..], Vec::as_slice);
        let counts = |claim: &&Claim| claim.state.version() >= floor;
        let claims: Vec<Claim> = claims.iter().filter(counts).copied().collect();
        let known = registry.lost.iter().find(|lost| lost.page == page).copied();
        let lost = |version: u64| EntryState {
            latch: LatchWord::open(survey.version.max(version)),
            place: PageLocation::HOME.lost(),
            ..EntryState::default()
        };
        let settled = match settled(&claims, survey) {
            Settled::Doubted(claim) => self.compare_with_home(site, page, claim, survey),
            settled => settled,
        };
        match (settled, known) {
            // Older than the lost version.
            (Settled::Newest(claim), Some(known))
                if claim.state.content_version() <= known.version =>
            {
                lost(known.version)
            }
            (Settled::Newest(claim), _) => state_of(claim),
            // Unless a newer version has been written home since.
            (Settled::Certain(state), Some(known)) if state.holder.is_none() => {
                match self.home_of(site, page) {
                    Home::Has(version) if version > known.version => state,
                    _ => lost(known.version),
                }
            }
            (Settled::Certain(mut state), _) => {
                let version = state.latch.version();
                if state.place.is_lost() && self.home_of(site, page) == Home::Has(version) {
                    state.place = PageLocation::HOME;
                }
                if state.place.is_lost() {
                    self.note_lost([LostPage { page, version }]);
                }
                state
            }
            // An older version than the lost one.
            (Settled::Doubted(claim), Some(known))
                if claim.state.content_version() <= known.version =>
            {
                lost(known.version)
            }
            (Settled::Doubted(claim), _) => {
                self.doubt(site, page, claim, survey.version);
                EntryState {
                    // If the home is newer, the difference is unknown: a number just above the
                    // claim's may be that of a copy which is older than the home.
                    latch: LatchWord::open(survey.version).locked(),
                    holder: Some(claim.node.0),
                    doubted: true,
                    place: PageLocation::HOME.lost(),
                    ..EntryState::default()
                }
            }
            (Settled::Lost, _) => {
                // The version at home may be older than the lost one, whatever its number.
                let version = survey.version;
                self.note_lost([LostPage { page, version }]);
                lost(version)
            }
        }
    }

    /// Checks the home of a page of which a node claims a newer version.
    fn compare_with_home(
        &self,
        site: &mut dyn Site,
        page: PageId,
        claim: Claim,
        survey: &Survey,
    ) -> Settled {
        match self.home_of(site, page) {
            Home::Unseen => Settled::Doubted(claim),
            Home::Has(version) if version < claim.state.content_version() => Settled::Newest(claim),
            Home::Has(_) => Settled::Certain(EntryState {
                latch: LatchWord::open(survey.version),
                place: PageLocation::HOME,
                ..EntryState::default()
            }),
            // An earlier write may still complete there, and make it a valid older version.
            Home::Damaged => Settled::Lost,
        }
    }

    /// The state of a page's home.
    fn home_of(&self, site: &mut dyn Site, page: PageId) -> Home {
        let registry = self.pages.as_ref().expect("as the caller knows");
        let store = registry.spec.stores[usize::from(page.store())];
        let blocks = u64::from(store.page_size / store.block_size);
        let first = page.index() * blocks;
        let mut peek =
            |block: u64| nvme::peek(site, store.target, (store.nsid, block), store.block_size);
        let Some(header) = peek(first).and_then(|bytes| PageHeader::parse(&bytes)) else {
            return Home::Unseen;
        };
        let is_zero = |bytes: Vec<u8>| bytes.iter().all(|byte| *byte == 0);
        let is_blank = || (first..first + blocks).all(|block| peek(block).is_some_and(is_zero));
        match header.home_version(page, registry.epoch, is_blank) {
            Some(version) => Home::Has(version),
            None => Home::Damaged,
        }
    }

    /// Requests a node to find out whether it has the newest version.
    fn doubt(&self, site: &mut dyn Site, page: PageId, claim: Claim, version: u64) {
        let registry = self.pages.as_ref().expect("as the caller knows");
        let pool = registry
            .index(claim.node)
            .and_then(|index| registry.nodes[index].as_ref())
            .map(|node| node.pool);
        if let Some(pool) = pool {
            let state = claim.state;
            let doubt = control::Doubt {
                page,
                state,
                version,
            };
            let [first, second, third] = doubt.words();
            let at = pool.layout.doubt_at(claim.frame);
            let mut store = |at, word: u64| {
                site.store_word(claim.node, pool.region.rkey, at, word.to_le_bytes())
            };
            // No question is visible while the words belong to two questions.
            store(at + control::DOUBT_VERSION_AT, 0);
            store(at, first);
            store(at + 8, second);
            store(at + control::DOUBT_VERSION_AT, third);
        }
    }
}

/// The state of a page's home.
#[derive(PartialEq, Eq)]
enum Home {
    /// The target is missing, or cannot tell.
    Unseen,
    /// Its contents are not the page, and may have been any version of it.
    Damaged,
    /// The version that this directory gave to it, or 0.
    Has(u64),
}

/// The result of the claims to a page.
enum Settled {
    Certain(EntryState),
    /// This one may be the newest version.
    Doubted(Claim),
    /// This one is the newest version.
    Newest(Claim),
    /// A node that does not reply, or a damaged home, may have had the newest version.
    Lost,
}

/// The entry of a page whose newest version is in a node's claim.
fn state_of(claim: Claim) -> EntryState {
    let latch = LatchWord::open(claim.state.version());
    match claim.state.is_changed() {
        // The latch is being given back, which publishes the version.
        true => EntryState {
            latch: latch.locked(),
            holder: Some(claim.node.0),
            place: PageLocation::HOME.lost(),
            ..EntryState::default()
        },
        false => EntryState {
            latch,
            place: PageLocation::dirty(claim.node.0, claim.frame),
            ..EntryState::default()
        },
    }
}

fn settled(claims: &[Claim], survey: &Survey) -> Settled {
    let sure = claims
        .iter()
        .find(|claim| claim.state.is_latched() && !claim.state.is_changed());
    if let Some(holder) = sure {
        let version = holder.state.version();
        // A node that gave it back and has no reply yet still claims that it is changing it.
        let is_its = |claim: &&Claim| {
            let state = claim.state;
            (state.is_dirty() || state.is_changed()) && state.content_version() == version
        };
        let place = match claims.iter().find(is_its) {
            Some(at) => PageLocation::dirty(at.node.0, at.frame),
            // It may have been at a node that does not reply.
            None if survey.is_partial => PageLocation::HOME.lost(),
            None => PageLocation::HOME,
        };
        return Settled::Certain(EntryState {
            latch: LatchWord::open(version).locked(),
            holder: Some(holder.node.0),
            place,
            ..EntryState::default()
        });
    }
    let newest = claims
        .iter()
        .max_by_key(|claim| claim.state.content_version());
    match newest {
        _ if survey.is_partial => Settled::Lost,
        Some(claim) => Settled::Doubted(*claim),
        None => Settled::Certain(EntryState {
            latch: LatchWord::open(survey.version),
            place: PageLocation::HOME,
            ..EntryState::default()
        }),
    }
}
