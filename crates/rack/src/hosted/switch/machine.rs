//! The switch and its links, as the machine that a pump drives.

use super::minder::News;
use super::term::Term;
use crate::config::RackConfig;
use crate::hosted::HostedError;
use crate::hosted::ports::Unplugged;
use crate::hosted::pump::{LinkedMachine, Pump};
use crate::linked::LinkedSwitch;
use crate::linked::arrivals::Arrivals;
use rackweave_base::{Instant, PortId};
use rackweave_link::Link;
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use std::sync::Arc;

/// The switch and its links: to the nodes, then to foreign hosts. Those to nodes that have not
/// joined are [`Unplugged`].
pub(in crate::hosted) struct SwitchMachine {
    pub linked: LinkedSwitch,
    pub(super) news: Arc<News>,
    term: Arc<Term>,
}

impl LinkedMachine for SwitchMachine {
    fn run(&mut self, now: Instant) -> u32 {
        if !self.term.leads() {
            return 0;
        }
        let moved = self.linked.run(now);
        if moved > 0 && self.linked.switch.has_digest() {
            self.news.tell();
        }
        moved
    }

    fn deadline(&self) -> Option<Instant> {
        self.linked.deadline()
    }

    fn links(&mut self) -> impl Iterator<Item = &mut dyn Link> {
        let links = self.linked.links.iter_mut();
        links.map(|link| &mut **link as &mut dyn Link)
    }
}

impl LinkedSwitch {
    /// A switch to which no node is connected yet.
    fn unplugged(switch: Switch<Pipeline>, config: &RackConfig) -> Self {
        let ports = config.node.len() + config.host.len();
        let links = (0..ports).map(|_| Box::new(Unplugged) as Box<dyn Link>);
        Self {
            switch,
            links: links.collect(),
            arrivals: Arrivals::Anywhere,
            up: None,
            egress_high: config.switch.egress_packets as usize / 2,
            stuck_since: Default::default(),
            ran: Instant::ZERO,
        }
    }
}

impl SwitchMachine {
    /// A switch to which no node is connected yet, with its pump.
    pub(super) fn pump(
        switch: Switch<Pipeline>,
        config: &RackConfig,
        news: Arc<News>,
        term: Arc<Term>,
    ) -> Result<Pump<Self>, HostedError> {
        let linked = LinkedSwitch::unplugged(switch, config);
        let machine = Self { linked, news, term };
        let pump = Pump::new(machine, std::time::Instant::now());
        pump.map_err(|error| HostedError::System {
            what: "no event descriptor",
            error,
        })
    }

    pub fn plug(&mut self, port: PortId, link: Option<Box<dyn Link>>) {
        let at = usize::from(port.0);
        self.linked.links[at] = link.unwrap_or_else(|| Box::new(Unplugged));
    }
}
