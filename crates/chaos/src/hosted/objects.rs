//! What the programs share: pages, an index, sequencers, one flow after another. The campaign makes
//! them, at a place for guests of its own, restarts what dies with a node, and at the end accepts
//! losses.

mod flows;
mod index;

use super::journal::{Event, FlowKind, Journal, PageEvent, SequencerEvent, System};
use super::shared::{
    FlowInUse, PAGES_FILE, page_options, publish, sequencer_name, sequencer_number,
};
use index::{Endpoint, make_index};
use rackweave_base::{NodeId, Rng};
use rackweave_rack::config::Role;
use rackweave_rack::hosted::HostedError;
use rackweave_rack::services::{
    CounterServerSpec, IndexService, IndexServiceError, PageError, PageService, PageServiceError,
    PageWorker, SequencerOptions, SequencerPlacement, SequencerService, SequencerServiceError,
};
use rackweave_rack::{Flow, Rack, RackConfig};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Pages that the programs share: more than a node has buffer frames.
const PAGES: usize = 24;

/// Numbers in a block of the sequencer in the switch: so few that it needs several in a run.
const BLOCK: u64 = 1024;

/// Shapes that flows have in turn, all of them after the repair.
const KINDS: [FlowKind; 3] = [FlowKind::Shuffle, FlowKind::Balanced, FlowKind::Replicated];

/// A flow that neither ends nor is aborted for so long hangs.
const FLOW_LIMIT: Duration = Duration::from_secs(30);

/// The ends of a flow see its end within this time.
const SEEN_WITHIN: Duration = Duration::from_secs(2);

/// Pause between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Orders to the thread that looks after the objects.
#[derive(Default)]
pub struct Orders {
    /// Nodes that have left the rack: what was at them is to be made again.
    pub left: Mutex<BTreeSet<NodeId>>,
    /// Everything is repaired: losses are to be accepted, then flows of all shapes must end.
    pub repaired: AtomicBool,
    /// Losses have been accepted, and everything has been made again.
    pub is_whole: AtomicBool,
    /// Flows of all shapes have ended since.
    pub flows_ended: AtomicBool,
    /// The thread is to end.
    pub ends: AtomicBool,
}

/// Why what programs share could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ObjectsError {
    /// The campaign could not join the rack.
    #[error(transparent)]
    Rack(#[from] HostedError),
    /// The node has no pages.
    #[error(transparent)]
    PageService(#[from] PageServiceError),
    /// A page could not be allocated or written.
    #[error(transparent)]
    Page(#[from] PageError),
    /// The index could not be made.
    #[error(transparent)]
    Index(#[from] IndexServiceError),
    /// A sequencer could not be made.
    #[error(transparent)]
    Sequencer(#[from] SequencerServiceError),
}

/// The newest sequencer of a kind.
struct Sequencer {
    placement: SequencerPlacement,
    generation: u32,
    /// Whether another one has to take its place.
    is_gone: bool,
    _service: SequencerService,
}

/// The objects.
pub struct Objects {
    rack: Rack,
    folder: PathBuf,
    journal: Arc<Journal>,
    worker: PageWorker,
    index: IndexService,
    endpoints: Vec<Endpoint>,
    sequencers: Vec<Sequencer>,
    flow: Option<(FlowInUse, Flow, std::time::Instant)>,
    /// Flows that are over, and since when: their ends see that as long as they are not closed.
    over: Vec<(Flow, std::time::Instant)>,
    flows: u32,
    /// How many flows have yet to end well after the repair.
    flows_left: usize,
}

impl Objects {
    /// Joins the rack and makes everything.
    ///
    /// # Errors
    /// If anything cannot be made.
    pub fn make(
        config: &RackConfig,
        folder: &Path,
        seed: u64,
        journal: &Arc<Journal>,
    ) -> Result<Self, ObjectsError> {
        let guests = config.nodes_of(Role::Guest);
        let own = guests
            .first()
            .map(|at| &config.node[usize::from(at.0)].name);
        let rack = Rack::join_as(config, &own.map_or(vec![], |name| vec![name.as_str()]))?;
        let here = rack.any_node().id();
        let service = PageService::new(&rack, &page_options())?;
        let worker = service.worker(here)?;
        let mut pages = Vec::new();
        for _ in 0..PAGES {
            let page = worker.allocate()?;
            journal.note(Event::Pages(0, PageEvent::Created(page.number())));
            pages.push(page);
        }
        worker.flush()?;
        let (index, endpoints) = make_index(&rack, seed, journal)?;
        let mut objects = Self {
            rack,
            folder: folder.to_owned(),
            journal: journal.clone(),
            worker,
            index,
            endpoints,
            sequencers: Vec::new(),
            flow: None,
            over: Vec::new(),
            flows: 0,
            flows_left: KINDS.len(),
        };
        let residents = config.residents().count() as u16;
        let [memory, server] = [2, 1].map(|from| NodeId(residents.saturating_sub(from)));
        for placement in [
            SequencerPlacement::Switch,
            SequencerPlacement::Memory(memory),
            SequencerPlacement::Server(CounterServerSpec::new(server)),
        ] {
            let kind = objects.sequencers.len();
            let made = objects.make_sequencer(placement, kind, 0)?;
            objects.sequencers.push(made);
        }
        publish(folder, PAGES_FILE, &pages);
        Ok(objects)
    }

    fn make_sequencer(
        &self,
        placement: SequencerPlacement,
        kind: usize,
        generation: u32,
    ) -> Result<Sequencer, SequencerServiceError> {
        let options = SequencerOptions {
            block: BLOCK,
            ..SequencerOptions::new(placement)
        };
        let made = SequencerService::with(&self.rack, &options)?;
        let (number, block) = (sequencer_number(kind, generation), options.block);
        self.note(Event::Sequencer(0, SequencerEvent::Made(number, block)));
        made.share(&sequencer_name(kind, generation))?;
        Ok(Sequencer {
            placement,
            generation,
            is_gone: false,
            _service: made,
        })
    }

    fn note(&self, event: Event) {
        self.journal.note(event);
    }

    /// Looks after the objects until `orders` end that.
    pub fn look_after(mut self, orders: &Orders, seed: u64) {
        let mut rng = Rng::new(seed).fork("flows");
        while !orders.ends.load(Ordering::Relaxed) {
            // A directory may ask this node about its pages.
            self.worker.poll();
            self.index.adapt(self.rack.now());
            let is_whole = self.make_again(orders);
            let is_repaired = orders.repaired.load(Ordering::Relaxed);
            if is_repaired && is_whole && !orders.is_whole.load(Ordering::Relaxed) {
                let accepted = self.accept_losses();
                orders.is_whole.store(accepted, Ordering::Relaxed);
            }
            self.next_flow(orders, &mut rng);
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Makes again what was at nodes that have left, each object once. False if something is left
    /// to do.
    fn make_again(&mut self, orders: &Orders) -> bool {
        let left = core::mem::take(&mut *orders.left.lock().expect("no holder panics"));
        self.look_at_endpoints(&left);
        for sequencer in &mut self.sequencers {
            sequencer.is_gone |= match sequencer.placement {
                SequencerPlacement::Switch => false,
                SequencerPlacement::Memory(home) => left.contains(&home),
                SequencerPlacement::Server(spec) => left.contains(&spec.node),
            };
        }
        let endpoints = (0..self.endpoints.len()).all(|at| self.restart_endpoint(at));
        let sequencers = (0..self.sequencers.len()).all(|kind| self.restart_sequencer(kind));
        endpoints && sequencers && self.has_all_copies()
    }

    fn restart_sequencer(&mut self, kind: usize) -> bool {
        let Sequencer {
            placement,
            generation,
            is_gone,
            ..
        } = self.sequencers[kind];
        if !is_gone {
            return true;
        }
        match self.make_sequencer(placement, kind, generation + 1) {
            Ok(made) => {
                self.sequencers[kind] = made;
                true
            }
            Err(error) => {
                self.note(Event::Failed(System::Sequencer, error.to_string()));
                false
            }
        }
    }

    /// Accepts the losses of all pages. False if the directory does not answer.
    fn accept_losses(&self) -> bool {
        let Ok(lost) = self.rack.lost_pages() else {
            return false;
        };
        let all = lost.iter().map(|it| (it.page.number(), it.version));
        self.note(Event::Pages(0, PageEvent::LostPages(all.collect())));
        for loss in &lost {
            let page = loss.page.number();
            self.note(Event::Pages(0, PageEvent::Accepts(page, loss.version)));
            let accepted = self.rack.accept_loss(loss.page);
            self.note(Event::Pages(0, PageEvent::Accepted(page, accepted)));
            if !accepted {
                return false;
            }
        }
        self.rack.lost_pages().is_ok_and(|lost| lost.is_empty())
    }
}
