//! Neighbours: the Ethernet addresses of peers that only their IP addresses are known of.
//!
//! [`Neighbours`] stands beside a [`Nic`](crate::Nic) whose peers may be foreign, such as Linux
//! hosts. It sees what comes in before the NIC does, answers questions for its own IP address, and
//! asks for the addresses of others (ARP, RFC 826). Whoever connects queue pairs calls
//! [`Neighbours::resolve`] until the address is known; the NIC itself asks for nothing.
//!
//! Whom it believes: an answer to a question of its own that is still open, and a question that is
//! put to it, since whoever asks wants to be answered. An address that it has asked for stays as it
//! is from then on, whatever is claimed later; only [`Neighbours::forget`] opens it again, for a
//! peer that no longer answers. One that it has merely heard in a question follows later questions.
//! Entries do not age: a rack has few peers, and connections keep the address that they began with.
//!
//! It knows ARP and time. It knows no queue pair and no switch.

use rackweave_base::{Duration, Instant, MacAddr, Packet, Timers};
use rackweave_wire::ArpFrame;
use rackweave_wire::arp::{self, Operation};
use std::collections::VecDeque;
use std::net::Ipv4Addr;

/// Addresses, bounds and patience.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighbourConfig {
    /// The own Ethernet address.
    pub mac: MacAddr,
    /// The own IP address.
    pub ip: Ipv4Addr,
    /// Neighbours known or asked for at a time; also how many answers and events may wait.
    pub neighbours_max: usize,
    /// How often to ask, at least once.
    pub tries: u8,
    /// How long to wait for an answer before asking again or giving up.
    pub interval: Duration,
    /// Whether to tell everybody the own addresses at the start (RFC 5227 3), so that hosts which
    /// know an older one learn this one.
    pub announce: bool,
}

impl NeighbourConfig {
    /// 64 neighbours, three questions a second apart (RFC 4861 10 has the same for IPv6), no
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

/// What is known of an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Resolution {
    /// The Ethernet address.
    Known(MacAddr),
    /// A question is on its way; an event will tell.
    Asked,
    /// Every place of the table is taken by neighbours that were asked for: forget one first.
    Full,
}

/// What has come of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NeighbourEvent {
    /// It was answered.
    Learned(Ipv4Addr, MacAddr),
    /// Nobody has answered any of the questions.
    Unanswered(Ipv4Addr),
}

/// What came in and went out, by what became of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NeighbourCounters {
    /// Questions sent, repeated ones included.
    pub asked: u64,
    /// Questions for the own address that were answered.
    pub answered: u64,
    /// Addresses learned, from answers and from questions.
    pub learned: u64,
    /// Dropped: frames that are not sound ARP.
    pub drop_malformed: u64,
    /// Dropped: questions for other addresses, answers to others.
    pub drop_not_for_us: u64,
    /// Dropped: answers to no open question.
    pub drop_unasked: u64,
    /// Dropped: questions for which there was no room among the answers that wait.
    pub drop_busy: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    ip: Ipv4Addr,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    /// Asked for, `sent` times so far. A question that has been sent has a timer; one that is
    /// still to be sent is in `unsent`.
    Open { sent: u8 },
    /// Asked for, and known: it stays.
    Answered(MacAddr),
    /// Heard in a question, the last time then, and not asked for yet.
    Heard(MacAddr, Instant),
}

/// The neighbours of one NIC.
pub struct Neighbours {
    config: NeighbourConfig,
    entries: Box<[Option<Entry>]>,
    /// By index into `entries`: when an open question has waited long enough.
    timers: Timers,
    /// Indices of open questions that are to be sent, each at most once.
    unsent: VecDeque<u32>,
    /// Answers, and the announcement.
    outgoing: VecDeque<ArpFrame>,
    events: VecDeque<NeighbourEvent>,
    counters: NeighbourCounters,
}

impl Neighbours {
    /// No neighbours yet. Numbers of `config` that are zero are taken for one.
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

    /// A packet has arrived. True if it was ARP; then it is none of the NIC's business.
    pub fn handle_packet(&mut self, now: Instant, packet: &Packet) -> bool {
        if !arp::is_arp(packet.header()) {
            return false;
        }
        let Ok(frame) = ArpFrame::of(packet) else {
            self.counters.drop_malformed += 1;
            return true;
        };
        // What we have sent may come back to us on a shared medium.
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

    /// Somebody who asks says who it is.
    fn hear(&mut self, now: Instant, ip: Ipv4Addr, mac: MacAddr) {
        // A probe has no address yet, and nobody else has ours.
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

    /// The Ethernet address of `ip`, if it is known; otherwise asks for it.
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
                    // Now it is in use, and nobody else may claim it.
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

    /// A free place, or that of the neighbour that was heard longest ago.
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

    /// Forgets `ip`, so that the next [`Neighbours::resolve`] asks anew. An open question ends
    /// without an event.
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
        // The answer cannot come before the question has left.
        self.timers.set(index, now + self.config.interval);
        self.counters.asked += 1;
        Some(ArpFrame::request(self.config.mac, self.config.ip, entry.ip).packet())
    }

    /// When to call [`Neighbours::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Time has passed: asks again, or gives up.
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

    /// What has come of a question.
    pub fn poll_event(&mut self) -> Option<NeighbourEvent> {
        self.events.pop_front()
    }

    /// What has been counted so far.
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

    /// An open question has been answered.
    fn close(&mut self, at: usize, ip: Ipv4Addr, mac: MacAddr) {
        self.settle(at);
        self.set(at, ip, State::Answered(mac));
        self.counters.learned += 1;
        self.report(NeighbourEvent::Learned(ip, mac));
    }

    /// Nothing more is to be sent or waited for.
    fn settle(&mut self, at: usize) {
        self.timers.cancel(at as u32);
        self.unsent.retain(|&index| index as usize != at);
    }

    /// Events say only that [`Neighbours::resolve`] has news, so the oldest may go.
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
