//! Messages, by the history of their connections.

use super::super::journal::{Ending, Event, FaultEvent, Life, MessageEvent, System};
use super::super::plan::DEAD_AFTER_MS;
use super::super::report::SeedReport;
use super::{Journals, add};
use rackweave_base::{Duration, Instant};
use rackweave_endpoint::messaging::CloseReason;
use rackweave_sim::checkers::MessageHistory;
use rackweave_sim::checkers::messages::{ChannelEnd, ChannelName, Ended, Peer, fill_message};
use std::collections::{BTreeMap, BTreeSet};

/// Longest time for which the switch moves no packets after a fault: a process that takes another's
/// place waits three times `dead_after` and a second for nodes, and it may have been absent.
const ABSENT_MAX: Duration = Duration::from_millis(5 * DEAD_AFTER_MS);

pub fn judge(journals: &Journals, seed: u64, report: &mut SeedReport) {
    let mut judge = Judge {
        history: MessageHistory::new(seed, CloseReason::TransportBroken as u16),
        seed,
        may_break: BTreeSet::new(),
        opened: BTreeMap::new(),
        ended: BTreeSet::new(),
        sent: Vec::new(),
        finished: BTreeSet::new(),
    };
    let spans = spans(journals);
    let may_break = |(connection, span): (&u32, &Span)| {
        let breaks = |(at, fault)| span.is_broken_by(at, fault);
        journals.faults().any(breaks).then_some(*connection)
    };
    judge.may_break = spans.iter().filter_map(may_break).collect();
    let mut died = Vec::new();
    for entry in &journals.0 {
        match &entry.event {
            Event::Message(connection, dials, event) => {
                judge.event(entry.life, (*connection, *dials), *event);
            }
            Event::Fault(FaultEvent::Death(life)) => died.push(*life),
            _ => {}
        }
    }
    judge.end_senders(&died);
    // Whatever a process that died, or was ended, has not reported died with it.
    for ((connection, dials), life) in judge.opened {
        if died.contains(&life) {
            judge.history.died(connection, peer(dials));
        }
    }
    if let Some(summary) = add(report, System::Messages, judge.history.finish()) {
        report.count("messages", summary.messages);
        report.count("connections", summary.connections);
        report.count("connections_broken", summary.broken);
    }
}

/// When a connection existed, and between which processes.
struct Span {
    from: Instant,
    until: Instant,
    lives: BTreeSet<Life>,
    /// The ends of its channels that have ended: of the dialling or listening side, the sending or
    /// receiving one.
    ended: BTreeSet<(bool, bool)>,
}

impl Span {
    /// Whether the connection may break because of this fault: one of its ends died, or the switch
    /// between them stood still for longer than queue pairs repeat a packet.
    fn is_broken_by(&self, at: Instant, fault: FaultEvent) -> bool {
        let is_over = self.ended.len() == 4 && at > self.until;
        match fault {
            _ if is_over || at + ABSENT_MAX < self.from => false,
            FaultEvent::Death(life) | FaultEvent::Ends(life) => self.lives.contains(&life),
            FaultEvent::SwitchDies | FaultEvent::SwitchStops => true,
            _ => false,
        }
    }
}

fn spans(journals: &Journals) -> BTreeMap<u32, Span> {
    let mut spans = BTreeMap::new();
    for entry in &journals.0 {
        if let Event::Message(connection, dials, event) = entry.event {
            let span = spans.entry(connection).or_insert_with(|| Span {
                from: entry.at,
                until: entry.at,
                lives: BTreeSet::new(),
                ended: BTreeSet::new(),
            });
            span.until = entry.at;
            span.lives.insert(entry.life);
            if let MessageEvent::Ended(sends, _) = event {
                span.ended.insert((dials, sends));
            }
        }
    }
    spans
}

struct Judge {
    history: MessageHistory,
    seed: u64,
    /// The connections that a fault may have broken.
    may_break: BTreeSet<u32>,
    /// The process at each end of each connection.
    opened: BTreeMap<(u32, bool), Life>,
    /// Ends of channels that have ended.
    ended: BTreeSet<(u32, bool, bool)>,
    /// Sending ends that have ended well: the peer's NIC may have said so before its program had
    /// recorded what it received.
    sent: Vec<(u32, bool)>,
    /// Connections and receiving ends that have seen the end.
    finished: BTreeSet<(u32, bool)>,
}

impl Judge {
    fn event(&mut self, life: Life, (connection, dials): (u32, bool), event: MessageEvent) {
        let history = &mut self.history;
        match event {
            MessageEvent::Opened => {
                self.opened.insert((connection, dials), life);
                let may_break = self.may_break.contains(&connection);
                history.open(connection, peer(dials), (1, 1), may_break);
            }
            MessageEvent::Sends(length) => {
                let channel = channel(connection, dials);
                history.begin(channel, connection, length);
                history.wrote(channel, length);
            }
            MessageEvent::Finishes => history.finish_channel(channel(connection, dials)),
            MessageEvent::Received(number, length) => {
                let channel = channel(connection, !dials);
                // The receiver has compared every byte.
                let mut bytes = vec![0; length as usize];
                fill_message(&mut bytes, self.seed, channel, number, 0);
                history.copied(channel, &bytes);
                history.copied_whole(channel, connection, number, length);
            }
            MessageEvent::SawFinish => {
                history.saw_finished(channel(connection, !dials));
                self.finished.insert((connection, dials));
            }
            MessageEvent::Ended(true, Ending::Well) => {
                self.ended.insert((connection, dials, true));
                self.sent.push((connection, dials));
            }
            MessageEvent::Ended(sends, how) => {
                let channel = channel(connection, dials == sends);
                let end = match sends {
                    true => ChannelEnd::Sending,
                    false => ChannelEnd::Receiving,
                };
                // The end of a connection is that of each end of a channel that had not ended.
                if self.ended.insert((connection, dials, sends)) {
                    history.ended(channel, end, ended(how));
                }
            }
        }
    }

    /// Ends the sending ends that have ended well. A receiver that died may have received more than
    /// it recorded.
    fn end_senders(&mut self, died: &[Life]) {
        for (connection, dials) in core::mem::take(&mut self.sent) {
            let peer = self.opened.get(&(connection, !dials));
            let is_dead = peer.is_none_or(|life| died.contains(life));
            let how = match is_dead && !self.finished.contains(&(connection, !dials)) {
                true => Ended::Broken,
                false => Ended::Well,
            };
            let channel = channel(connection, dials);
            self.history.ended(channel, ChannelEnd::Sending, how);
        }
    }
}

fn peer(dials: bool) -> Peer {
    match dials {
        true => Peer::Compute,
        false => Peer::Storage,
    }
}

/// The channel on which the dialling or the listening end sends.
fn channel(connection: u32, dials: bool) -> ChannelName {
    ChannelName {
        connection,
        sender: peer(dials),
        number: 0,
    }
}

fn ended(how: Ending) -> Ended {
    match how {
        Ending::Well => Ended::Well,
        Ending::ClosedHere(reason) => Ended::ClosedHere(reason),
        Ending::ClosedThere(reason) => Ended::ClosedThere(reason),
        Ending::Broken => Ended::Broken,
    }
}
