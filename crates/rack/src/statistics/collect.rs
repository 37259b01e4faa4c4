//! One look: each lock is taken once, for as long as copying numbers takes.

use super::flows::FlowTotals;
use super::split::{is_drop, split_nic};
use super::{
    Counters, Described, FlowStatistics, IndexStatistics, NodeStatistics, PageStatistics,
    RackStatistics, SequencerStatistics, SwitchStatistics, TargetStatistics,
};
use crate::RackConfig;
use rackweave_base::NodeId;
use rackweave_controller::{Controller, Site, TargetReply, TargetRequest, Topology};
use rackweave_programs::index::IndexCounters;
use rackweave_programs::pages::PageCounters;
use rackweave_switch as switch;
use std::sync::Mutex;
use std::time::Duration as Time;

/// Maximum number of ended flows that are reported: those that were set up last.
const ENDED_MAX: usize = 24;

/// How often an observer tries to lock the controller before it reports the last known state, and
/// how long it sleeps in between: some milliseconds, in which a flow is set up.
const TRIES: u32 = 10;
const NAP: Time = Time::from_millis(1);

/// The last known state of the controller.
#[derive(Default)]
pub(crate) struct Seen {
    totals: FlowTotals,
    flows: Vec<FlowStatistics>,
    flows_made: u64,
    sequencers: Vec<SequencerStatistics>,
    pages: Option<(u64, u64)>,
}

/// State copied from a switch.
struct SwitchNow {
    counters: switch::Counters,
    /// Page size, indexed pages and replies.
    pages: Option<(u32, u64, PageCounters)>,
    index: Option<IndexCounters>,
}

/// State shared by all observers of a rack.
pub(crate) struct Observed {
    described: Described,
    /// The last known state.
    seen: Mutex<Seen>,
}

impl Observed {
    pub fn new(config: &RackConfig, topology: &Topology) -> Self {
        Self {
            described: Described::new(config, topology),
            seen: Mutex::default(),
        }
    }

    /// Reads the state that only the controller has.
    pub fn ask(&self, controller: &Controller, site: &mut dyn Site) {
        let mut seen = self.seen.lock().expect("no holder of this lock panics");
        seen.update(controller, site, &self.described);
    }

    /// Reads the state of a controller that others use meanwhile: `try_control` calls back if it is
    /// free.
    pub fn ask_soon(
        &self,
        mut try_control: impl FnMut(&mut dyn FnMut(&Controller, &mut dyn Site)) -> bool,
    ) {
        for _ in 0..TRIES {
            if try_control(&mut |controller, site| self.ask(controller, site)) {
                return;
            }
            std::thread::sleep(NAP);
        }
    }

    /// The state of the rack at this moment, with the last known state of the controller. `nic`
    /// returns the counters of a node's NIC by name; `None` if they are gone with the node.
    pub fn look(
        &self,
        site: &mut dyn Site,
        nic: impl Fn(NodeId) -> Option<Counters>,
    ) -> RackStatistics {
        let Described { nodes, switches } = &self.described;
        let switches_now = (0..switches.len()).filter_map(|at| switch_now(site, at));
        let switches_now: Vec<SwitchNow> = switches_now.collect();
        let seen = self.seen.lock().expect("no holder of this lock panics");
        RackStatistics {
            elapsed_seconds: site.now().as_nanos() as f64 / 1e9,
            nodes: (0u16..)
                .zip(nodes)
                .map(|(node, described)| {
                    let node = NodeId(node);
                    let counters = nic(node);
                    let counters = counters
                        .unwrap_or_else(|| by_name(rackweave_nic::Counters::default().iter()));
                    node_statistics(site, node, counters, described)
                })
                .collect(),
            flows: seen.flows.clone(),
            flows_made: seen.flows_made,
            pages: seen.pages.and_then(|known| pages(&switches_now, known)),
            index: index(&switches_now),
            sequencers: seen.sequencers.clone(),
            switches: switches_now
                .iter()
                .zip(switches)
                .map(|(now, role)| switch_statistics(now, role))
                .collect(),
        }
    }
}

impl Seen {
    fn update(&mut self, controller: &Controller, site: &mut dyn Site, described: &Described) {
        let looks = controller.look_at_flows(site, ENDED_MAX);
        self.flows = self.totals.update(&looks, |node| described.name(node));
        self.flows_made = controller.flows_made() as u64;
        self.pages = controller
            .page_spec()
            .map(|spec| (spec.pages(), controller.lost_pages().len() as u64));
        let sequencers = controller.look_at_sequencers(site).into_iter();
        let sequencers = sequencers.map(|(id, next)| SequencerStatistics { id: id.0, next });
        self.sequencers = sequencers.collect();
    }
}

fn node_statistics(
    site: &mut dyn Site,
    node: NodeId,
    counters: Counters,
    (name, role): &(String, &'static str),
) -> NodeStatistics {
    let target = match site.target(node, TargetRequest::Counters) {
        Some(Ok(TargetReply::Counters(counters))) => Some(counters),
        _ => None,
    };
    let dead = !site.node(node, &mut |_| {});
    let (drops, rest) = split_nic(counters);
    let count = |name: &str| rest.get(name).copied().unwrap_or(0);
    NodeStatistics {
        name: name.to_owned(),
        role: (*role).to_owned(),
        dead,
        packets_in: count("rcvd_pkts"),
        packets_out: count("sent_pkts"),
        bytes_in: count("rdma_rx_bytes") + count("cut_through_rx_bytes"),
        bytes_out: count("rdma_tx_bytes") + count("cut_through_tx_bytes"),
        counters: rest,
        drops,
        target: target.map(|it| TargetStatistics {
            reads: it.reads,
            writes: it.writes,
            bytes_read: it.bytes_read,
            bytes_written: it.bytes_written,
            errors: it.errors.values().sum(),
        }),
    }
}

fn switch_now(site: &mut dyn Site, at: usize) -> Option<SwitchNow> {
    let mut seen = None;
    site.switch_at(at, &mut |_, switch| {
        let program = switch.program();
        let (pages, index) = (&program.pages, &program.index);
        seen = Some(SwitchNow {
            counters: switch.counters().clone(),
            pages: pages.is_present().then(|| {
                (
                    pages.config().frame_size,
                    pages.len() as u64,
                    pages.counters(),
                )
            }),
            index: index.is_present().then(|| index.counters()),
        });
    });
    seen
}

fn switch_statistics(now: &SwitchNow, role: &str) -> SwitchStatistics {
    let all = by_name(now.counters.iter());
    let (drops, counters) = all.into_iter().partition(|(name, _)| is_drop(name));
    SwitchStatistics {
        role: role.to_owned(),
        counters,
        drops,
    }
}

/// Only switch 0 has a directory; it is reported if it was set up.
fn pages(switches: &[SwitchNow], (pages, pages_lost): (u64, u64)) -> Option<PageStatistics> {
    let (page_bytes, pages_indexed, answers) = switches.iter().find_map(|now| now.pages)?;
    Some(PageStatistics {
        page_bytes,
        pages,
        pages_indexed,
        answers: by_name(answers.list()),
        pages_lost,
    })
}

fn index(switches: &[SwitchNow]) -> Option<IndexStatistics> {
    let all = switches.iter().filter_map(|now| now.index);
    let all = all.reduce(|mut sum, more| {
        sum += &more;
        sum
    })?;
    let IndexCounters {
        queries,
        lookups,
        by_depth,
        unknown_pair,
        unknown_server,
        other_server,
        no_range,
        beyond,
        not_loaded,
        no_bank,
        forged,
        hops,
    } = all;
    Some(IndexStatistics {
        queries,
        lookups,
        by_depth: by_depth.to_vec(),
        other: by_name([
            ("unknown_pair", unknown_pair),
            ("unknown_server", unknown_server),
            ("other_server", other_server),
            ("no_range", no_range),
            ("beyond", beyond),
            ("not_loaded", not_loaded),
            ("no_bank", no_bank),
            ("forged", forged),
            ("hops", hops),
        ]),
    })
}

/// Counters with owned names.
pub(crate) fn by_name(counters: impl IntoIterator<Item = (&'static str, u64)>) -> Counters {
    let named = counters.into_iter();
    named
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}
