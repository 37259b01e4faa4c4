//! A machine with its links, driven by one thread at a time. Several switches are one machine.

pub(crate) mod arrivals;

use arrivals::Arrivals;
use rackweave_base::{Duration, Instant, NodeId, Packet, PortId};
use rackweave_link::Link;
use rackweave_nic::{CableId, CutThrough, Nic};
use rackweave_programs::Pipeline;
use rackweave_switch::Switch;
use rackweave_target::Target;
use rackweave_verbs::Service;
use std::collections::BTreeMap;

/// Maximum packets moved in one burst, so that a thread's turn at a machine ends.
const BURST: usize = 64;

/// Maximum work (see [`work`]) that a node moves in one burst, give or take one packet: some tens
/// of microseconds of copying, after which other threads may want the NIC.
const BURST_WORK: u32 = 512;

/// A node's NIC and its end of the link.
pub(crate) struct LinkedNode {
    pub nic: Nic,
    pub link: Box<dyn Link>,
    /// The direct cables to other nodes, by their numbers less one.
    pub direct: Vec<Option<DirectCable>>,
    /// The NVMe target behind the NIC, if the node has one.
    pub target: Option<Target>,
    pub dead: bool,
    /// Whether the last run ended before everything was done.
    pub has_more: bool,
}

/// A node's end of a cable to another node.
pub(crate) struct DirectCable {
    pub peer: NodeId,
    pub link: Box<dyn Link>,
    /// A packet that found the link full.
    held: Option<Packet>,
    /// Since when the link has been full.
    stuck_since: Option<Instant>,
}

/// A switch and its ends of all links, by port.
pub(crate) struct LinkedSwitch {
    pub switch: Switch<Pipeline>,
    pub links: Vec<Box<dyn Link>>,
    pub arrivals: Arrivals,
    /// The port that leads to the parent switch, if there is one.
    pub up: Option<PortId>,
    /// From this length on, an egress queue keeps further packets waiting on their links.
    pub egress_high: usize,
    /// The ports whose egress queues have had that length, and since when.
    pub stuck_since: BTreeMap<PortId, Instant>,
    /// When it ran last.
    pub ran: Instant,
}

/// All switches, switch 0 first, each after its parent.
pub(crate) struct LinkedSwitches(pub Vec<LinkedSwitch>);

/// How long a port that accepts nothing may block the others. After that it drops packets, as a
/// port of any switch does.
const STUCK_LIMIT: Duration = Duration::from_millis(20);

/// The longest pause between two runs that counts for [`STUCK_LIMIT`]. After a longer one the
/// threads of this process did not get to run, and those that take packets from the port neither.
/// Naps of waiting threads are shorter. A pause always counts for something, so that a port that
/// accepts nothing is given up after a few runs, however rare they are.
const PAUSE: Duration = Duration::from_millis(5);

fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The work of moving `packet`: one, plus one per KiB.
fn work(packet: &Packet) -> u32 {
    1 + (packet.payload.len() >> 10) as u32
}

impl DirectCable {
    #[cfg(any(test, feature = "hosted"))]
    pub fn new(peer: NodeId, link: Box<dyn Link>) -> Self {
        Self {
            peer,
            link,
            held: None,
            stuck_since: None,
        }
    }

    /// Sends a packet, or holds it while the link is full. If that lasts, packets are dropped, as a
    /// port of a switch drops them.
    fn send(&mut self, now: Instant, packet: Packet) {
        match self.link.send(now, packet) {
            Ok(()) => self.stuck_since = None,
            Err(packet) => {
                let since = *self.stuck_since.get_or_insert(now);
                self.held = (now < since + STUCK_LIMIT).then_some(packet);
            }
        }
    }

    /// Whether further packets have to wait for the one that is held.
    fn is_blocked(&mut self, now: Instant) -> bool {
        if let Some(packet) = self.held.take() {
            self.send(now, packet);
        }
        self.held.is_some()
    }
}

impl LinkedNode {
    /// Moves what can be moved, and returns the work done.
    #[cfg(any(test, feature = "hosted"))]
    pub fn run(&mut self, now: Instant) -> u32 {
        self.run_with(now, |_| CutThrough::default())
    }

    /// Moves what can be moved, and returns the work done. `cut_through` executes requests without
    /// packets before others are sent.
    pub fn run_with(
        &mut self,
        now: Instant,
        cut_through: impl FnOnce(&mut Nic) -> CutThrough,
    ) -> u32 {
        let mut moved = 0;
        self.has_more = true;
        for _ in 0..BURST {
            let Some(packet) = self.link.receive(now) else {
                self.has_more = false;
                break;
            };
            moved += work(&packet);
            if !self.dead {
                self.nic.handle_packet(now, packet);
            }
            if moved >= BURST_WORK {
                break;
            }
        }
        if self.dead {
            return moved;
        }
        moved += self.receive_direct(now);
        if self.nic.poll_timeout().is_some_and(|due| due <= now) {
            self.nic.handle_timeout(now);
            moved += 1;
        }
        // What the target executes is part of what the controller surveys when it is back.
        if let Some(target) = self.target.as_mut().filter(|_| !self.nic.is_unplugged()) {
            moved += u32::from(target.poll(now, &mut self.nic));
        }
        let blocks = |cable: &mut DirectCable| cable.is_blocked(now);
        if self.direct.iter_mut().flatten().any(blocks) {
            return moved;
        }
        let cut = cut_through(&mut self.nic);
        moved += cut.work + self.transmit(now);
        self.has_more |= cut.waits;
        moved
    }

    /// Sends what the NIC has to send, as far as the links take it.
    fn transmit(&mut self, now: Instant) -> u32 {
        if !self.nic.wants_to_send() {
            return 0;
        }
        let mut moved = 0;
        self.link.cork();
        // Reading the free capacity touches the other end's cache line, so it is done once a burst.
        let mut free = self.link.free().min(BURST);
        loop {
            if free == 0 {
                self.has_more = true;
                break;
            }
            let Some(packet) = self.nic.poll_transmit(now) else {
                break;
            };
            moved += work(&packet);
            free -= 1;
            match self.direct_cable(self.nic.cable()) {
                Some(cable) => {
                    cable.send(now, packet);
                    if cable.held.is_some() {
                        break;
                    }
                }
                None => {
                    let sent = self.link.send(now, packet);
                    debug_assert!(sent.is_ok(), "the link announced space");
                }
            }
        }
        self.link.uncork(now);
        moved
    }

    /// Takes what has arrived on direct cables. One whose other end has been cut is cut here, too:
    /// what is sent from then on goes by way of the switch.
    fn receive_direct(&mut self, now: Instant) -> u32 {
        let (mut moved, mut cut) = (0, None);
        for (at, cable) in self.direct.iter_mut().enumerate() {
            let Some(cable) = cable else { continue };
            let mut of_this = 0;
            while of_this < BURST_WORK
                && let Some(packet) = cable.link.receive(now)
            {
                of_this += work(&packet);
                self.nic.handle_direct(now, CableId(at as u8 + 1), packet);
            }
            if of_this == 0 && cable.link.is_peer_gone() {
                cut = Some(cable.peer);
            }
            moved += of_this;
        }
        if let Some(peer) = cut {
            self.disconnect_directly(peer);
        }
        moved
    }

    fn direct_cable(&mut self, cable: CableId) -> Option<&mut DirectCable> {
        let at = usize::from(cable.0).checked_sub(1)?;
        self.direct.get_mut(at)?.as_mut()
    }

    /// Connects a cable to another node, at this address, in place of an earlier one.
    #[cfg(any(test, feature = "hosted"))]
    pub fn connect_directly(&mut self, cable: DirectCable, ip: std::net::Ipv4Addr) {
        self.disconnect_directly(cable.peer);
        let free = self.direct.iter().position(Option::is_none);
        let at = free.unwrap_or(self.direct.len());
        let Ok(number) = u8::try_from(at + 1) else {
            // The packets go by way of the switch.
            return;
        };
        self.direct
            .resize_with(self.direct.len().max(at + 1), || None);
        self.direct[at] = Some(cable);
        self.nic.set_cable(CableId(number), Some(ip));
    }

    /// Removes all cables to other nodes.
    #[cfg(feature = "hosted")]
    pub fn disconnect_all(&mut self) {
        let peers: Vec<NodeId> = self.direct.iter().flatten().map(|it| it.peer).collect();
        for peer in peers {
            self.disconnect_directly(peer);
        }
    }

    /// Removes the cable to another node, if there is one.
    pub fn disconnect_directly(&mut self, peer: NodeId) {
        let is_to = |cable: &Option<DirectCable>| cable.as_ref().is_some_and(|it| it.peer == peer);
        if let Some(at) = self.direct.iter().position(is_to) {
            self.direct[at] = None;
            self.nic.set_cable(CableId(at as u8 + 1), None);
        }
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Instant> {
        if self.dead {
            return self.link.poll_timeout();
        }
        let target = self.target.as_ref().filter(|_| !self.nic.is_unplugged());
        let target = target.and_then(Service::poll_timeout);
        let machines = earliest(self.nic.poll_timeout(), target);
        earliest(machines, self.link.poll_timeout())
    }
}

impl LinkedSwitch {
    /// Moves what can be moved, and returns the work done.
    pub fn run(&mut self, now: Instant) -> u32 {
        let mut moved = 0;
        // What does not count of the time since the last run.
        let ignored = now.since(self.ran + PAUSE);
        for since in self.stuck_since.values_mut() {
            *since += ignored;
        }
        self.ran = now;
        if self.switch.poll_timeout().is_some_and(|due| due <= now) {
            self.switch.handle_timeout(now);
            moved += 1;
        }
        self.arrivals.collect();
        moved += self.flush(now);
        let mut from = 0;
        while let Some(port) = self.arrivals.next(from, self.links.len()) {
            from = port + 1;
            if !self.is_blocked(now, PortId(port as u16)) {
                moved += self.receive(now, port);
                moved += self.flush(now);
            }
        }
        self.arrivals.finish(self.switch.queued() > 0);
        moved
    }

    /// Takes what has arrived at a port.
    fn receive(&mut self, now: Instant, port: usize) -> u32 {
        let mut moved = 0;
        for _ in 0..BURST {
            let Some(packet) = self.links[port].receive(now) else {
                self.arrivals.emptied(port);
                break;
            };
            moved += work(&packet);
            self.switch.handle_packet(now, PortId(port as u16), packet);
        }
        moved
    }

    /// Whether packets from port `from` have to wait: some port's egress queue is at its limit, and
    /// has not been stuck for long. Packets from the parent never go back there, so that port does
    /// not count; otherwise two switches could wait for each other.
    fn is_blocked(&mut self, now: Instant, from: PortId) -> bool {
        if self.stuck_since.is_empty() && self.switch.queued() < self.egress_high {
            return false;
        }
        let above = self.up.filter(|&up| up == from);
        let mut blocked = false;
        for out in (0..self.links.len()).map(|port| PortId(port as u16)) {
            if self.switch.egress_len(out) < self.egress_high {
                self.stuck_since.remove(&out);
            } else {
                let since = *self.stuck_since.entry(out).or_insert(now);
                blocked |= above != Some(out) && now < since + STUCK_LIMIT;
            }
        }
        blocked
    }

    fn flush(&mut self, now: Instant) -> u32 {
        let (mut moved, mut from) = (0, PortId(0));
        while let Some(port) = self.switch.next_queued(from) {
            from = PortId(port.0 + 1);
            let Some(link) = self.links.get_mut(usize::from(port.0)) else {
                break;
            };
            link.cork();
            for _ in 0..self.switch.egress_len(port).min(link.free()) {
                let Some(packet) = self.switch.poll_transmit(port) else {
                    break;
                };
                moved += work(&packet);
                let sent = link.send(now, packet);
                debug_assert!(sent.is_ok(), "the link announced space");
            }
            link.uncork(now);
        }
        moved
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Instant> {
        let links = self
            .links
            .iter()
            .filter_map(|link| link.poll_timeout())
            .min();
        earliest(self.switch.poll_timeout(), links)
    }
}

impl LinkedSwitches {
    /// Moves what can be moved, and returns the work done. Runs the switches once bottom-up and
    /// once top-down, so that a packet passes all switches in one call.
    pub fn run(&mut self, now: Instant) -> u32 {
        let mut moved = 0;
        for linked in self.0.iter_mut().rev() {
            moved += linked.run(now);
        }
        for linked in self.0.iter_mut().skip(1) {
            moved += linked.run(now);
        }
        moved
    }

    /// When the next timer expires.
    pub fn deadline(&self) -> Option<Instant> {
        let deadlines = self.0.iter().map(LinkedSwitch::deadline);
        deadlines.fold(None, earliest)
    }
}

#[cfg(test)]
mod tests;
