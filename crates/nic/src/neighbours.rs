//! Neighbours: finds the Ethernet addresses of peers whose IP addresses are known.
//!
//! [`Neighbours`] works beside a [`Nic`](crate::Nic) whose peers may be foreign, such as Linux
//! hosts. It receives packets before the NIC does, answers ARP requests for its own IP address, and
//! requests the addresses of others (ARP, RFC 826). The code that connects queue pairs calls
//! [`Neighbours::resolve`] until the address is known; the NIC itself sends no requests.
//!
//! It accepts an address from two sources: a reply to its own open request, and a request addressed
//! to it, since the sender wants a reply. An address that it has requested stays fixed from then
//! on, whatever is claimed later; only [`Neighbours::forget`] reopens it, for a peer that no longer
//! answers. An address learned only from a request follows later requests. Entries do not age: a
//! rack has few peers, and connections keep the address that they started with.
//!
//! It knows ARP and time. It knows neither queue pairs nor the switch.

use rackweave_base::{Duration, Instant, MacAddr, Packet, Timers};
use rackweave_wire::ArpFrame;
use rackweave_wire::arp::{self, Operation};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Addresses, bounds and retry limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourConfig {
    /// This NIC's Ethernet address.
    pub mac: MacAddr,
    /// This NIC's IP address.
    pub ip: Ipv4Addr,
    /// Maximum neighbours known or being resolved; also the maximum number of queued replies and of
    /// queued events.
    pub neighbours_max: usize,
    /// Number of requests for one neighbour, at least one.
    pub tries: u8,
    /// How long to wait for an answer before repeating the request or giving up.
    pub interval: Duration,
    /// Whether to announce this NIC's addresses at the start (RFC 5227 3), so that hosts with an
    /// older entry learn this one.
    pub announce: bool,
}

impl NeighbourConfig {
    /// 64 neighbours, three requests a second apart (RFC 4861 10 specifies the same for IPv6), no
    /// announcement.
    pub const fn new(ip: Ipv4Addr, mac: MacAddr) -> Self {
        Self {
            mac,
            ip,
            neighbours_max: 64,
            tries: 3,
            interval: Duration::from_secs(1),
            announce: false,
        }
    }
}

/// The state of the resolution of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// The Ethernet address.
    Known(MacAddr),
    /// A request is in flight; an event will report the result.
    Asked,
    /// Every entry of the table holds a neighbour that was requested: forget one first.
    Full,
}

/// The result of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourEvent {
    /// The request was answered.
    Learned(Ipv4Addr, MacAddr),
    /// No request was answered.
    Unanswered(Ipv4Addr),
}

/// Counts of packets received and sent, by result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeighbourCounters {
    /// Requests sent, repetitions included.
    pub asked: u64,
    /// Requests for this NIC's address that were answered.
    pub answered: u64,
    /// Addresses learned, from replies and from requests.
    pub learned: u64,
    /// Dropped: frames that are not valid ARP.
    pub drop_malformed: u64,
    /// Dropped: requests for other addresses, replies to other nodes.
    pub drop_not_for_us: u64,
    /// Dropped: replies without an open request.
    pub drop_unasked: u64,
    /// Dropped: requests that arrived while the queue of replies was full.
    pub drop_busy: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    ip: Ipv4Addr,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Requested, `sent` times so far. A request that has been sent has a timer; one that is still
    /// to be sent is in `unsent`.
    Open { sent: u8 },
    /// Requested and known: the address stays fixed.
    Answered(MacAddr),
    /// Learned from a request, last at this time, and not requested yet.
    Heard(MacAddr, Instant),
}

/// The neighbours of one NIC.
pub struct Neighbours {
    config: NeighbourConfig,
    entries: Box<[Option<Entry>]>,
    /// By index into `entries`: the time when an open request expires.
    timers: Timers,
    /// Indices of open requests that are to be sent, each at most once.
    unsent: VecDeque<u32>,
    /// Replies, and the announcement.
    outgoing: VecDeque<ArpFrame>,
    events: VecDeque<NeighbourEvent>,
    counters: NeighbourCounters,
}

impl Neighbours {
    /// No neighbours yet. Numbers in `config` that are zero are treated as one.
    pub fn new(mut config: NeighbourConfig) -> Self {
        config.neighbours_max = config.neighbours_max.max(1);
        config.tries = config.tries.max(1);
        let max = config.neighbours_max;
        let mut outgoing = VecDeque::with_capacity(max);
        if config.announce {
            outgoing.push_back(ArpFrame::request(config.mac, config.ip, config.ip));
        }
        Self {
            config,
            entries: vec![None; max].into(),
            timers: Timers::new(max),
            unsent: VecDeque::with_capacity(max),
            outgoing,
            events: VecDeque::with_capacity(max),
            counters: NeighbourCounters::default(),
        }
    }

    /// Handles a packet that arrived. Returns true if it was ARP; then the NIC must not handle it.
    pub fn handle_packet(&mut self, now: Instant, packet: &Packet) -> bool {
        if !arp::is_arp(packet.header()) {
            return false;
        }
        let Ok(frame) = ArpFrame::of(packet) else {
            self.counters.drop_malformed += 1;
            return true;
        };
        // On a shared medium, a packet sent by this NIC may come back to it.
        let for_us = [self.config.mac, arp::BROADCAST].contains(&frame.ethernet.target)
            && frame.arp.sender_mac != self.config.mac;
        match frame.arp.operation {
            _ if !for_us || frame.arp.target_ip != self.config.ip => {
                self.counters.drop_not_for_us += 1;
            }
            Operation::Request => self.handle_question(now, &frame),
            Operation::Reply => self.handle_answer(&frame),
        }
        true
    }

    fn handle_question(&mut self, now: Instant, frame: &ArpFrame) {
        self.hear(now, frame.arp.sender_ip, frame.arp.sender_mac);
        if self.outgoing.len() == self.config.neighbours_max {
            self.counters.drop_busy += 1;
            return;
        }
        self.counters.answered += 1;
        self.outgoing.push_back(frame.reply(self.config.mac));
    }

    fn handle_answer(&mut self, frame: &ArpFrame) {
        let arp = &frame.arp;
        let place = self.find(arp.sender_ip).filter(|&at| self.is_open(at));
        match place {
            _ if arp.target_mac != self.config.mac => self.counters.drop_not_for_us += 1,
            Some(at) => self.close(at, arp.sender_ip, arp.sender_mac),
            None => self.counters.drop_unasked += 1,
        }
    }

    /// Learns the sender's address from a request.
    fn hear(&mut self, now: Instant, ip: Ipv4Addr, mac: MacAddr) {
        // A probe has no sender address yet, and no other node may have this NIC's address.
        if ip.is_unspecified() || ip == self.config.ip {
            return;
        }
        let known = self.find(ip);
        let Some(at) = known.or_else(|| self.entries.iter().position(Option::is_none)) else {
            return;
        };
        match self.entries[at].map(|entry| entry.state) {
            Some(State::Open { .. }) => self.close(at, ip, mac),
            Some(State::Answered(_)) => {}
            Some(State::Heard(old, _)) if old == mac => self.set(at, ip, State::Heard(mac, now)),
            Some(State::Heard(..)) | None => {
                self.counters.learned += 1;
                self.set(at, ip, State::Heard(mac, now));
            }
        }
    }

    /// The Ethernet address of `ip`, if it is known; otherwise requests it.
    pub fn resolve(&mut self, ip: Ipv4Addr) -> Resolution {
        if ip == self.config.ip {
            return Resolution::Known(self.config.mac);
        }
        if let Some(at) = self.find(ip) {
            let entry = self.entries[at].as_mut().expect("it was found");
            return match entry.state {
                State::Open { .. } => Resolution::Asked,
                State::Answered(mac) => Resolution::Known(mac),
                State::Heard(mac, _) => {
                    // The address is now in use, and no other node may claim it.
                    entry.state = State::Answered(mac);
                    Resolution::Known(mac)
                }
            };
        }
        let Some(at) = self.place() else {
            return Resolution::Full;
        };
        self.set(at, ip, State::Open { sent: 0 });
        self.unsent.push_back(at as u32);
        Resolution::Asked
    }

    /// A free entry, or that of the neighbour that was heard from longest ago.
    fn place(&self) -> Option<usize> {
        let free = self.entries.iter().position(Option::is_none);
        free.or_else(|| {
            let heard = self.entries.iter().enumerate().filter_map(|(at, entry)| {
                match entry.as_ref()?.state {
                    State::Heard(_, last) => Some((last, at)),
                    State::Open { .. } | State::Answered(_) => None,
                }
            });
            heard.min().map(|(_, at)| at)
        })
    }

    /// Forgets `ip`, so that the next [`Neighbours::resolve`] sends a new request. An open request
    /// ends without an event.
    pub fn forget(&mut self, ip: Ipv4Addr) {
        if let Some(at) = self.find(ip) {
            self.settle(at);
            self.entries[at] = None;
        }
    }

    /// The next packet to send, if there is one.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<Packet> {
        if let Some(frame) = self.outgoing.pop_front() {
            return Some(frame.packet());
        }
        let index = self.unsent.pop_front()?;
        let entry = self.entries[index as usize].as_mut();
        let entry = entry.expect("what is forgotten leaves the queue");
        if let State::Open { sent } = &mut entry.state {
            *sent += 1;
        }
        // The reply cannot arrive before the request has been sent.
        self.timers.set(index, now + self.config.interval);
        self.counters.asked += 1;
        Some(ArpFrame::request(self.config.mac, self.config.ip, entry.ip).packet())
    }

    /// The time to call [`Neighbours::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Advances time: repeats requests, or gives up.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.timers.pop_expired(now) {
            let place = &mut self.entries[index as usize];
            let entry = place.expect("what is forgotten has no timer");
            match entry.state {
                State::Open { sent } if sent < self.config.tries => self.unsent.push_back(index),
                _ => {
                    *place = None;
                    self.report(NeighbourEvent::Unanswered(entry.ip));
                }
            }
        }
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<NeighbourEvent> {
        self.events.pop_front()
    }

    /// The counters.
    pub fn counters(&self) -> &NeighbourCounters {
        &self.counters
    }

    fn find(&self, ip: Ipv4Addr) -> Option<usize> {
        let mut places = self.entries.iter();
        places.position(|entry| entry.is_some_and(|entry| entry.ip == ip))
    }

    fn is_open(&self, at: usize) -> bool {
        let state = self.entries[at].map(|entry| entry.state);
        matches!(state, Some(State::Open { .. }))
    }

    fn set(&mut self, at: usize, ip: Ipv4Addr, state: State) {
        self.entries[at] = Some(Entry { ip, state });
    }

    /// Closes an open request that has been answered.
    fn close(&mut self, at: usize, ip: Ipv4Addr, mac: MacAddr) {
        self.settle(at);
        self.set(at, ip, State::Answered(mac));
        self.counters.learned += 1;
        self.report(NeighbourEvent::Learned(ip, mac));
    }

    /// Cancels the timer and any request still to be sent.
    fn settle(&mut self, at: usize) {
        self.timers.cancel(at as u32);
        self.unsent.retain(|&index| index as usize != at);
    }

    /// Events report only that the result of [`Neighbours::resolve`] has changed, so the oldest may
    /// be dropped.
    fn report(&mut self, event: NeighbourEvent) {
        if self.events.len() == self.config.neighbours_max {
            self.events.pop_front();
        }
        self.events.push_back(event);
    }
}

#[cfg(test)]
#[path = "neighbours_tests.rs"]
mod tests;
