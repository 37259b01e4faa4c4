//! The event loop: takes the next event and advances the state machine that it concerns.

use super::switches::{CablePipe, Far, SwitchSlot};
use super::{Event, ReadLines, Stop, SwitchPort, World};
use crate::word_turns;
use rackweave_base::{Instant, MacAddr, Packet, PortId};
use rackweave_link::Link;
use rackweave_nic::Reach;
use rackweave_switch::Program;

impl<P: Program> World<P> {
    /// Runs until the caller has something to do, or until `until`.
    ///
    /// Events at `until` itself are included.
    pub fn run(&mut self, until: Instant) -> Stop {
        loop {
            if self.done_unreported {
                self.done_unreported = false;
                return Stop::Done;
            }
            let Some(at) = self.queue.next_at() else {
                return Stop::Stalled;
            };
            if at > until {
                self.now = self.now.max(until);
                return Stop::Deadline;
            }
            let Some((at, event)) = self.queue.pop() else {
                return Stop::Stalled;
            };
            debug_assert!(at >= self.now, "time only goes forward");
            self.now = at;
            self.events += 1;
            if let Some(stop) = self.handle(event) {
                return stop;
            }
        }
    }

    fn handle(&mut self, event: Event) -> Option<Stop> {
        match event {
            Event::AtSwitch(node) => self.at_switch(usize::from(node)),
            Event::AtNode(node) => self.at_node(usize::from(node)),
            Event::Receive(node) => self.receive(usize::from(node)),
            Event::Transmit(node) => self.transmit(usize::from(node)),
            Event::Leave(node) => self.leave(usize::from(node)),
            Event::NicTimer(node) => self.nic_timer(usize::from(node)),
            Event::AtCable(pipe) => self.at_cable(usize::from(pipe)),
            Event::SwitchTimer(switch) => self.switch_timer(usize::from(switch)),
            Event::Step(index) => self.want_core(index),
            Event::WaitOver(index) => self.wait_over(index),
            Event::Core(node, core) => self.core_free(usize::from(node), usize::from(core)),
            Event::Digest => return (!self.digests.is_empty()).then_some(Stop::Digest),
            Event::Control(index) => {
                self.tokens_free.push(index);
                return Some(Stop::Control(self.tokens[index as usize]));
            }
        }
        None
    }

    fn at_switch(&mut self, node: usize) {
        self.nodes[node].up.ready.fired(self.now);
        let at = self.nodes[node].place;
        let switch = usize::from(at.switch);
        while let Some(packet) = self.nodes[node].up.link.receive(self.now) {
            self.note(at.trace_id(), &packet);
            self.switches[switch].handle_packet(self.now, at.port, packet);
        }
        if let Some(at) = self.nodes[node].up.rearm(self.now) {
            self.queue.push(at, Event::AtSwitch(node as u16));
        }
        self.drain_switch(switch);
    }

    fn at_cable(&mut self, pipe: usize) {
        self.cables[pipe].pipe.ready.fired(self.now);
        let at = self.cables[pipe].to;
        let switch = usize::from(at.switch);
        while let Some(packet) = self.cables[pipe].pipe.link.receive(self.now) {
            self.note(at.trace_id(), &packet);
            self.switches[switch].handle_packet(self.now, at.port, packet);
        }
        if let Some(at) = self.cables[pipe].pipe.rearm(self.now) {
            self.queue.push(at, Event::AtCable(pipe as u16));
        }
        self.drain_switch(switch);
    }

    fn switch_timer(&mut self, switch: usize) {
        self.switches[switch].handle_timeout(self.now);
        self.drain_switch(switch);
    }

    /// Takes packets and digests from a switch, and its next timer.
    pub(super) fn drain_switch(&mut self, switch: usize) {
        let enters = self.now + self.switch_model.pipeline_latency;
        let slot = &mut self.switches[switch];
        for (port, &far) in (0u16..).map(PortId).zip(&slot.ports) {
            let (pipe, arrives) = match far {
                Far::Nothing => continue,
                Far::Node(node) => {
                    let pipe = &mut self.nodes[usize::from(node)].down;
                    (pipe, Event::AtNode(node))
                }
                Far::Cable(pipe) => {
                    let arrives = Event::AtCable(pipe);
                    (&mut self.cables[usize::from(pipe)].pipe, arrives)
                }
            };
            let mut sent = false;
            while let Some(packet) = slot.machine.poll_transmit(port) {
                // A simulated link accepts or drops every packet, so none is returned.
                let _taken = pipe.link.send(enters, packet).is_ok();
                sent = true;
            }
            if sent && let Some(at) = pipe.rearm(self.now) {
                self.queue.push(at, arrives);
            }
        }
        if let Some(at) = slot.machine.poll_timeout() {
            let at = at.max(self.now);
            if slot.alarm.set(at) {
                self.queue.push(at, Event::SwitchTimer(switch as u16));
            }
        }
        let mut news = false;
        while let Some(digest) = slot.machine.poll_digest() {
            self.digests.push_back(digest);
            news = true;
        }
        if news {
            self.queue
                .push(self.now + self.switch_model.digest_latency, Event::Digest);
        }
    }

    fn at_node(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.down.ready.fired(self.now);
        while let Some(packet) = node.down.link.receive(self.now) {
            if node.nic.is_some() {
                let model = &node.model.nic;
                let ready = node.pipelines.receive(self.now, &packet, model);
                let ready = node.turns.turn(ready, &packet, model);
                word_turns::enter(&mut node.receiving, ready, packet);
            }
        }
        if let Some(at) = node.down.rearm(self.now) {
            self.queue.push(at, Event::AtNode(index as u16));
        }
        self.enter_receive(index);
    }

    fn enter_receive(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if let Some(&(ready, _)) = node.receiving.front()
            && node.receive_alarm.set(ready)
        {
            self.queue.push(ready, Event::Receive(index as u16));
        }
    }

    fn receive(&mut self, index: usize) {
        self.nodes[index].receive_alarm.fired(self.now);
        let mut handled = false;
        while let Some((ready, _)) = self.nodes[index].receiving.front()
            && *ready <= self.now
            && let Some((_, packet)) = self.nodes[index].receiving.pop_front()
        {
            self.note(index as u64, &packet);
            let node = &mut self.nodes[index];
            if let Some(nic) = &mut node.nic {
                node.outgoing.before_packet(&self.memory, self.now, &packet);
                nic.handle_packet(self.now, packet);
                handled = true;
            }
        }
        self.enter_receive(index);
        if handled {
            self.pump(index);
            self.wake_waiting(index);
        }
    }

    fn nic_timer(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.timer_alarm.fired(self.now);
        let Some(nic) = &mut node.nic else { return };
        nic.handle_timeout(self.now);
        self.pump(index);
        // A timeout may have produced completions with errors.
        self.wake_waiting(index);
    }

    /// Schedules a poll of the NIC's state machine for packets at `at`.
    pub(super) fn enter_transmit(&mut self, index: usize, at: Instant) {
        if self.nodes[index].transmit_alarm.set(at) {
            self.queue.push(at, Event::Transmit(index as u16));
        }
    }

    fn transmit(&mut self, index: usize) {
        self.nodes[index].transmit_alarm.fired(self.now);
        self.pump(index);
    }

    /// Takes packets from a NIC's state machine while its transmit pipeline has space, and
    /// schedules its next timer.
    pub(super) fn pump(&mut self, index: usize) {
        if self.cut_through.0 > 0.0 {
            self.cut_through(index);
        }
        let node = &mut self.nodes[index];
        let Some(nic) = &mut node.nic else { return };
        let mut sent = false;
        let wait = loop {
            let wait = node.pipelines.transmit_wait(self.now);
            if wait.is_some() {
                break wait;
            }
            let Some(packet) = nic.poll_transmit(self.now) else {
                break None;
            };
            let link = &node.model.to_switch;
            let enters = node
                .pipelines
                .transmit(self.now, &packet, &node.model.nic, link);
            let packet = match self.read_lines {
                ReadLines::AtOnce if node.outgoing.next_at().is_none() => Some(packet),
                _ => {
                    let within = node.model.nic.memory_read_latency;
                    let rng = &mut self.lines_rng;
                    node.outgoing.take(self.now, within, enters, packet, rng)
                }
            };
            if let Some(packet) = packet {
                let _taken = node.up.link.send(enters, packet).is_ok();
                sent = true;
            }
        };
        if let Some(at) = node.outgoing.next_at()
            && node.leave_alarm.set(at)
        {
            self.queue.push(at, Event::Leave(index as u16));
        }
        if let Some(at) = nic.poll_timeout() {
            let at = at.max(self.now);
            if node.timer_alarm.set(at) {
                self.queue.push(at, Event::NicTimer(index as u16));
            }
        }
        if sent && let Some(at) = node.up.rearm(self.now) {
            self.queue.push(at, Event::AtSwitch(index as u16));
        }
        if let Some(at) = wait {
            self.enter_transmit(index, at);
        }
    }

    /// Executes requests of a node at the NICs of other nodes.
    fn cut_through(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        if node.up.link.is_down() {
            return;
        }
        let place = node.place;
        let Some(mut nic) = node.nic.take() else {
            return;
        };
        let mac = nic.mac();
        let (share, rng) = &mut self.cut_through;
        let (nodes, mut reached) = (&mut self.nodes, Vec::new());
        let (switches, cables) = (&self.switches, &self.cables);
        nic.cut_through(u32::MAX, |peer, act| {
            let peer = usize::from(peer);
            let other = &mut nodes[peer];
            let is_down = other.up.link.is_down() || !rng.chance(*share);
            let Some(other_nic) = other.nic.as_mut().filter(|_| !is_down) else {
                return Reach::Unreachable;
            };
            let there = (place, peer, other_nic.mac());
            let back = (other.place, index, mac);
            if ![there, back].iter().all(|way| leads(switches, cables, way)) {
                return Reach::Unreachable;
            }
            act(other_nic);
            reached.push(peer);
            Reach::Reached
        });
        self.nodes[index].nic = Some(nic);
        if !reached.is_empty() {
            reached.push(index);
        }
        for peer in reached {
            self.wake_waiting(peer);
        }
    }

    /// Sends the packets whose bytes have been read.
    fn leave(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.leave_alarm.fired(self.now);
        while let Some((enters, packet)) = node.outgoing.leave(&self.memory, self.now) {
            let _taken = node.up.link.send(enters, packet).is_ok();
        }
        if let Some(at) = node.outgoing.next_at()
            && node.leave_alarm.set(at)
        {
            self.queue.push(at, Event::Leave(index as u16));
        }
        if let Some(at) = node.up.rearm(self.now) {
            self.queue.push(at, Event::AtSwitch(index as u16));
        }
    }

    /// Adds a delivery to the trace.
    #[inline]
    fn note(&mut self, trace_id: u64, packet: &Packet) {
        self.trace.word(self.now.as_nanos());
        self.trace
            .word(trace_id << 32 | packet.payload.len() as u64);
        self.trace.bytes(packet.header());
        // A missing check value differs from one of zeros.
        let check = packet
            .check
            .map_or(u64::MAX, |check| u64::from(u32::from_be_bytes(check)));
        self.trace.word(check);
    }
}

/// Whether the switches would forward packets from a node's place to another node, over cables that
/// are whole.
fn leads<P: Program>(
    switches: &[SwitchSlot<P>],
    cables: &[CablePipe],
    &(from, node, mac): &(SwitchPort, usize, MacAddr),
) -> bool {
    let mut at = from.switch;
    for _ in switches {
        let switch = &switches[usize::from(at)];
        let port = switch.machine.program().port_of(mac);
        match port.map(|port| switch.ports[usize::from(port.0)]) {
            Some(Far::Node(found)) => return usize::from(found) == node,
            Some(Far::Cable(cable)) if !cables[usize::from(cable)].pipe.link.is_down() => {
                at = cables[usize::from(cable)].to.switch;
            }
            _ => return false,
        }
    }
    false
}
