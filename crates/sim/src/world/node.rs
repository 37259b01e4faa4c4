//! A node of the world: NIC state machine, pipelines, two directions of cable, cores.

use super::lines::Outgoing;
use super::{NodeModel, SwitchPort};
use crate::cpu::{Core, CpuReport};
use crate::nic_model::NicPipelines;
use crate::queue::Alarm;
use crate::word_turns::WordTurns;
use crate::{LinkModel, SimLink};
use rackweave_base::{Instant, Memory, Packet, Rng};
use rackweave_link::{Fault, FaultConfig, FaultError, Link};
use rackweave_nic::Nic;
use std::collections::VecDeque;

/// A direction of a cable and the time of its scheduled arrival event.
pub(super) struct Pipe {
    pub(super) link: Fault<SimLink>,
    pub(super) ready: Alarm,
}

pub(super) struct Node {
    /// None after a crash.
    pub(super) nic: Option<Nic>,
    pub(super) model: NodeModel,
    /// The switch port that it is connected to.
    pub(super) place: SwitchPort,
    pub(super) pipelines: NicPipelines,
    pub(super) up: Pipe,
    pub(super) down: Pipe,
    /// Words held by atomics.
    pub(super) turns: WordTurns,
    /// Packets in the receive pipeline, in order, with the times at which they leave it.
    pub(super) receiving: VecDeque<(Instant, Packet)>,
    pub(super) receive_alarm: Alarm,
    /// Packets whose bytes are still being read, and those behind them.
    pub(super) outgoing: Outgoing,
    pub(super) leave_alarm: Alarm,
    pub(super) transmit_alarm: Alarm,
    pub(super) timer_alarm: Alarm,
    pub(super) cores: Vec<Core>,
    /// The core that the next actor gets.
    pub(super) next_core: usize,
    /// Actors that spin on this node's memory.
    pub(super) waiting: Vec<u32>,
    pub(super) cpu: CpuReport,
}

impl Pipe {
    pub(super) fn new(
        model: LinkModel,
        faults: &FaultConfig,
        rng: &mut Rng,
        memory: &Memory,
    ) -> Result<Self, FaultError> {
        let link = SimLink::new(model, rng.fork("link"));
        let link = Fault::new(link, *faults, rng.fork("fault"), memory.clone())?;
        Ok(Self {
            link,
            ready: Alarm::default(),
        })
    }

    /// When the next packet's event is to be entered, if it is not entered already.
    #[inline]
    pub(super) fn rearm(&mut self, now: Instant) -> Option<Instant> {
        let at = self.link.poll_timeout()?.max(now);
        self.ready.set(at).then_some(at)
    }
}

impl Node {
    pub(super) fn new(
        model: &NodeModel,
        place: SwitchPort,
        nic: Nic,
        faults: &FaultConfig,
        rng: &mut Rng,
        memory: &Memory,
    ) -> Result<Self, FaultError> {
        Ok(Self {
            nic: Some(nic),
            model: NodeModel {
                nic: model.nic.clamped(),
                ..*model
            },
            place,
            pipelines: NicPipelines::default(),
            up: Pipe::new(model.to_switch, faults, rng, memory)?,
            down: Pipe::new(model.from_switch, faults, rng, memory)?,
            turns: WordTurns::default(),
            receiving: VecDeque::with_capacity(64),
            receive_alarm: Alarm::default(),
            outgoing: Outgoing::default(),
            leave_alarm: Alarm::default(),
            transmit_alarm: Alarm::default(),
            timer_alarm: Alarm::default(),
            cores: vec![Core::default(); usize::from(model.cpu.cores.max(1))],
            next_core: 0,
            waiting: Vec::with_capacity(16),
            cpu: CpuReport::default(),
        })
    }

    /// Drops the state that a crash destroys. Its events in the queue then have no effect.
    pub(super) fn forget(&mut self) {
        self.receiving.clear();
        self.turns = WordTurns::default();
        self.outgoing.clear();
        self.pipelines = NicPipelines::default();
        self.cores.fill_with(Core::default);
        self.waiting.clear();
    }
}
