//! A rogue with a connection: it writes data into its peer's memory that no honest node would
//! write.

use super::forger::Rogue;
use super::misbehaviour::Lie;
use super::receiving::Hearer;
use super::sending::Talker;
use rackweave_base::{Instant, Memory, Qpn};
use rackweave_endpoint::messaging::Agreed;
use rackweave_verbs::{Access, Operation, PdId, QpState, Region, Verbs, WorkRequest};
use rackweave_wire::fabric::message::handshake::{Keys, WriteTarget};
use rackweave_wire::fabric::message::{
    CONNECTION_ENTRY, CloseReason, ENTRY_LEN, own_entry, peer_entry,
};

/// Bytes of the region from which lies are written, and the offset of the word in it.
const STAGE_BYTES: usize = 1 << 10;
const WORD_AT: u64 = 512;

/// What a rogue needs in order to lie once.
pub(super) struct Liar {
    lie: Lie,
    /// The index of the channel it uses.
    which: u64,
    keys: Keys,
    agreed: Agreed,
    pd: PdId,
    stage: Option<Region>,
    /// When it lied.
    pub said: Option<Instant>,
    /// The queue pair on which it lied.
    qpn: Option<Qpn>,
}

impl Liar {
    pub fn new(lie: Lie, which: u64, rogue: &Rogue) -> Self {
        Self {
            lie,
            which,
            keys: rogue.keys.clone(),
            agreed: rogue.agreed,
            pd: rogue.pd,
            stage: None,
            said: None,
            qpn: None,
        }
    }

    /// The reason for which the peer has to close the connection.
    pub fn reason(&self) -> CloseReason {
        self.lie.reason()
    }

    /// Lies if the channel is idle, so that the lie is what the peer sees next. Returns whether it
    /// did.
    pub fn lie(
        &mut self,
        now: Instant,
        nic: &mut dyn Verbs,
        memory: &Memory,
        talkers: &[Talker],
        hearers: &[Hearer],
    ) -> bool {
        let quiet = talkers.iter().all(Talker::is_quiet)
            && (!self.lie.is_receivers() || hearers.iter().all(Hearer::is_settled));
        let Some(stage) = self.stage(nic, memory).filter(|_| quiet) else {
            return false;
        };
        let (qpn, writes) = match self.lie.is_receivers() {
            true => self.as_receiver(hearers),
            false => self.as_sender(talkers),
        };
        let at = [0, WORD_AT];
        for ((place, bytes), at) in writes.iter().zip(at) {
            stage.block.write(at as usize, bytes);
            let to = Operation::Write {
                address: place.address,
                rkey: place.rkey,
                immediate: None,
            };
            let mut request = WorkRequest::new(0, to, &[stage.segment(at, bytes.len() as u32)]);
            // Its completion is ignored: the connection does not know of this request.
            request.signaled = false;
            if nic.post_send(qpn, request).is_err() {
                return false;
            }
        }
        (self.said, self.qpn) = (Some(now), Some(qpn));
        true
    }

    /// Whether a receiver's lie may have been lost. The channel of a receiver may be over; then its
    /// queue pair may break and the connection stays open.
    pub fn may_be_lost(&self, nic: &dyn Verbs) -> bool {
        let state = self.qpn.and_then(|qpn| nic.qp_state(qpn));
        self.lie.is_receivers() && state == Some(QpState::Error)
    }

    fn stage(&mut self, nic: &mut dyn Verbs, memory: &Memory) -> Option<Region> {
        if self.stage.is_none() {
            let block = memory.allocate(STAGE_BYTES).ok()?;
            self.stage = nic.register(self.pd, block, Access::empty()).ok();
        }
        self.stage.clone()
    }

    fn info(&self, entry: usize) -> WriteTarget {
        self.keys.buffer_info.at(entry as u64 * ENTRY_LEN)
    }

    /// What it writes in place of its next package, the word last.
    fn as_sender(&self, talkers: &[Talker]) -> (Qpn, Vec<(WriteTarget, Vec<u8>)>) {
        let channels = talkers.len() as u64;
        let channel = self.which % channels;
        let sender = &talkers[channel as usize].sender;
        let (size, count) = (
            self.agreed.theirs.receive_bytes,
            self.agreed.theirs.receive_buffers,
        );
        match self.lie {
            Lie::ForeignConnection => {
                let word = 0x99_u64.to_le_bytes().to_vec();
                return (sender.qpn(), vec![(self.info(CONNECTION_ENTRY), word)]);
            }
            Lie::OutOfBounds => {
                let end = u64::from(count) * u64::from(size);
                return (
                    sender.qpn(),
                    vec![(self.keys.receive.at(end - 8), vec![1; 64])],
                );
            }
            _ => {}
        }
        let counters = sender.counters();
        let (package, message) = (counters.packages, counters.messages as u32);
        let own = u64::from(count).saturating_sub(channel).div_ceil(channels);
        let buffer = channel + channels * (package % own);
        let bytes = self.lie.package(message, self.agreed.message_max);
        let word = self.lie.filled(package, bytes.len() as u32, size);
        let writes = vec![
            (self.keys.receive.at(buffer * u64::from(size)), bytes),
            (
                self.info(own_entry(buffer as u8)),
                word.to_le_bytes().to_vec(),
            ),
        ];
        (sender.qpn(), writes)
    }

    /// What it writes in place of a word that marks a buffer as free.
    fn as_receiver(&self, hearers: &[Hearer]) -> (Qpn, Vec<(WriteTarget, Vec<u8>)>) {
        let channel = self.which % hearers.len() as u64;
        let receiver = &hearers[channel as usize].receiver;
        let word = self.lie.free(receiver.counters().packages);
        let place = self.info(peer_entry(channel as u8));
        (receiver.qpn(), vec![(place, word.to_le_bytes().to_vec())])
    }

    /// Frees its resources.
    pub fn destroy(self, nic: &mut dyn Verbs) {
        if let Some(stage) = self.stage {
            nic.deregister(&stage);
        }
    }
}
