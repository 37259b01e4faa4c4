//! Whether an event is permitted.

use super::{
    Channel, ChannelEnd, ChannelFault, ChannelName, Connection, Ended, MessageHistory,
    MessageSummary, MessageViolation, Peer, Position, SeenPiece, Sent, check_message,
};
use std::collections::BTreeMap;

/// A verdict.
pub(super) type Judged = Result<(), ChannelFault>;

impl Channel {
    pub fn begin(&mut self, opcode: u32, total: u64) -> Judged {
        let is_under_way = |last: &Sent| last.written < last.total;
        if self.sent.last().is_some_and(is_under_way) || self.finished {
            return Err(ChannelFault::Harness);
        }
        self.sent.push(Sent {
            opcode,
            total,
            written: 0,
        });
        Ok(())
    }

    pub fn wrote(&mut self, bytes: u64) -> Judged {
        match self.sent.last_mut() {
            Some(last) if last.written + bytes <= last.total => {
                last.written += bytes;
                Ok(())
            }
            _ => Err(ChannelFault::Harness),
        }
    }

    pub fn consumed(&mut self) -> Judged {
        let (read, written) = (self.read, self.written());
        self.arrived = written;
        match read == written {
            true => Ok(()),
            false => Err(ChannelFault::NotConsumed { read, written }),
        }
    }

    /// The message being read, if the sender has begun it.
    fn next(&self) -> Result<Sent, ChannelFault> {
        let read = self.read;
        if self.seen_finished {
            return Err(ChannelFault::AfterFinish { read });
        }
        let next = self.sent.get(read.message as usize).copied();
        next.ok_or(ChannelFault::Invented { read })
    }

    pub fn look(&mut self, name: ChannelName, seed: u64, piece: SeenPiece<'_>) -> Judged {
        let sent = self.next()?;
        let Position { message, offset } = self.read;
        let len = piece.bytes.len() as u64;
        let expect = (sent.opcode, message as u32, sent.total, offset);
        let got = (piece.opcode, piece.message, piece.total, piece.offset);
        if got != expect {
            return Err(ChannelFault::OtherPiece { got, expect });
        }
        if len == 0 && sent.total > 0 || offset + len > sent.written {
            let (read, written) = (self.read, sent.written);
            return Err(ChannelFault::Length { read, len, written });
        }
        self.looked = len;
        let read = self.read;
        check_message(piece.bytes, seed, name, message as u32, offset)
            .map_err(|wrong| ChannelFault::Content { read, wrong })
    }

    pub fn release(&mut self) -> Judged {
        let sent = self.next()?;
        self.advance(sent, self.looked);
        Ok(())
    }

    fn advance(&mut self, sent: Sent, len: u64) {
        self.bytes += len;
        self.read.offset += len;
        if self.read.offset >= sent.total {
            self.read = Position {
                message: self.read.message + 1,
                offset: 0,
            };
        }
        self.looked = 0;
    }

    pub fn copied(&mut self, name: ChannelName, seed: u64, bytes: &[u8]) -> Judged {
        if bytes.is_empty() {
            return Ok(());
        }
        let sent = self.next()?;
        let read = self.read;
        let (message, len) = (read.message as u32, bytes.len() as u64);
        if read.offset + len > sent.written {
            let written = sent.written;
            return Err(ChannelFault::Length { read, len, written });
        }
        let checked = check_message(bytes, seed, name, message, read.offset);
        self.bytes += len;
        // Completeness is reported separately.
        self.read.offset += len;
        checked.map_err(|wrong| ChannelFault::Content { read, wrong })
    }

    pub fn copied_whole(&mut self, opcode: u32, message: u32, length: u64) -> Judged {
        let sent = self.next()?;
        let read = self.read;
        let expect = (sent.opcode, read.message as u32, sent.total, read.offset);
        let got = (opcode, message, length, length);
        self.advance(sent, 0);
        if got == expect {
            return Ok(());
        }
        Err(ChannelFault::OtherPiece { got, expect })
    }

    pub fn saw_finished(&mut self) -> Judged {
        let (read, written) = (self.read, self.written());
        self.seen_finished = true;
        if self.finished && read == written {
            return Ok(());
        }
        Err(ChannelFault::EarlyFinish {
            read,
            written,
            said: self.finished,
        })
    }

    pub fn nothing_left(&mut self) -> Judged {
        let (read, arrived) = (self.read, self.arrived);
        match read >= arrived {
            true => Ok(()),
            false => Err(ChannelFault::LostArrived { read, arrived }),
        }
    }

    pub fn ended(&mut self, end: ChannelEnd, how: Ended) -> Judged {
        if self.ended[end as usize].replace(how).is_some() {
            return Err(ChannelFault::Harness);
        }
        let truly = match end {
            // A receiver that has seen the end has released everything.
            ChannelEnd::Sending => self.finished && self.seen_finished,
            ChannelEnd::Receiving => self.seen_finished,
        };
        if how == Ended::Well && !truly {
            return Err(ChannelFault::NotWell { end });
        }
        Ok(())
    }
}

impl Connection {
    /// Whether all its channels have to end well at both nodes.
    fn must_end_well(&self) -> bool {
        let nothing = |lists: &[Vec<u16>; 2]| lists.iter().all(Vec::is_empty);
        self.opened == [true, true]
            && !self.may_break
            && nothing(&self.wanted)
            && nothing(&self.lies)
    }

    /// Whether a node has a cause for the end that it reports.
    fn has_reason(&self, peer: Peer, how: Ended, broken: u16) -> bool {
        let (mine, theirs) = (peer.at(), peer.other().at());
        let peer_is_gone = !self.opened[theirs] || self.ended[theirs].is_some();
        match how {
            Ended::Well | Ended::Died => true,
            Ended::ClosedHere(reason) => {
                self.wanted[mine].contains(&reason) || self.lies[theirs].contains(&reason)
            }
            Ended::ClosedThere(reason) => match self.ended[theirs] {
                Some(Ended::ClosedHere(there)) => there == reason,
                Some(Ended::Broken) => reason == broken,
                // A rogue node writes what it likes, and a dead one reports nothing.
                None | Some(Ended::Died) => {
                    self.wanted[theirs].contains(&reason)
                        || self.lies[mine].contains(&reason)
                        || reason == broken
                }
                Some(Ended::Well | Ended::ClosedThere(_)) => false,
            },
            Ended::Broken => self.may_break || peer_is_gone || self.lies[theirs].contains(&broken),
        }
    }

    fn count(&self, summary: &mut MessageSummary) {
        if self.opened != [true, true] {
            return;
        }
        summary.connections += 1;
        let some = |is: fn(Ended) -> bool| self.ended.iter().flatten().any(|&how| is(how));
        if self.lies.iter().any(|lies| !lies.is_empty())
            && some(|how| matches!(how, Ended::ClosedHere(_)))
        {
            summary.accused += 1;
        } else if some(|how| matches!(how, Ended::Broken | Ended::Died)) {
            summary.broken += 1;
        } else if some(|how| matches!(how, Ended::ClosedHere(_) | Ended::ClosedThere(_))) {
            summary.closed += 1;
        }
    }
}

impl MessageHistory {
    /// Records that everything has ended.
    ///
    /// # Errors
    /// All violations, or the first of them.
    pub fn finish(mut self) -> Result<MessageSummary, Vec<MessageViolation>> {
        let mut summary = MessageSummary::default();
        let connections = core::mem::take(&mut self.connections);
        for (&connection, entry) in &connections {
            for peer in [Peer::Compute, Peer::Storage] {
                let Some(how) = entry.ended[peer.at()] else {
                    continue;
                };
                if !entry.has_reason(peer, how, self.broken) {
                    let other = entry.ended[peer.other().at()];
                    self.violations.push(MessageViolation::NoReason {
                        connection,
                        peer,
                        how,
                        other,
                    });
                }
            }
            entry.count(&mut summary);
        }
        let channels = core::mem::take(&mut self.channels);
        self.judge_channels(&connections, &channels);
        for channel in channels.values() {
            summary.messages += channel.read.message;
            summary.bytes += channel.bytes;
        }
        self.violations.judge(summary)
    }

    fn judge_channels(
        &mut self,
        connections: &BTreeMap<u32, Connection>,
        channels: &BTreeMap<ChannelName, Channel>,
    ) {
        for (&name, channel) in channels {
            let connection = &connections[&name.connection];
            for end in [ChannelEnd::Sending, ChannelEnd::Receiving] {
                if !connection.opened[name.peer(end).at()] {
                    continue;
                }
                let mut fail = |fault| self.violations.push(MessageViolation::Channel(name, fault));
                match channel.ended[end as usize] {
                    None => fail(ChannelFault::NeverEnded { end }),
                    Some(Ended::Well) => {}
                    Some(how) if connection.must_end_well() => {
                        fail(ChannelFault::EndedIll { end, how });
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
