//! The resources of a node for a connection, and how two nodes are connected.

mod division;

use super::config::{Agreed, MessagingConfig, Role};
use super::connection::Connection;
use super::receiver::{Receiver, ReceiverPlaces};
use super::sender::{SendTarget, Sender, SenderPlaces};
use super::shared::{End, SPARE_REQUESTS, Shared};
use super::{KeyedAddress, NodeKeys, QueuePairName};
use division::{Part, buffers_of, divide, sizes};
use rackweave_base::canary::{Canary, planted};
use rackweave_base::memory::MemoryError;
use rackweave_base::{Duration, Instant, KeyRng, Memory, Psn};
use rackweave_verbs::{
    Access, CqError, CqId, ModifyError, PdId, Peer, QpCapabilities, QpError, QpModify, ReceiveSide,
    Region, RegisterError, SendSide, Verbs,
};
use rackweave_wire::fabric::message::{inline_at, own_entry, peer_entry};
use std::sync::Arc;

/// A word that is written to the peer has its own cache line: any thread may write it.
const WORD_SPACING: usize = 64;

/// Words in front of those of the channels: the closing word and the pulse.
const WORDS_COMMON: usize = 2;

/// Why a connection was not set up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SetUpError {
    /// The buffers could not be allocated.
    #[error("no memory for {what}: {error}")]
    Memory {
        /// The buffers concerned.
        what: &'static str,
        /// The cause.
        error: MemoryError,
    },
    /// The NIC registers no further region.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// The NIC creates no completion queue.
    #[error(transparent)]
    Cq(#[from] CqError),
    /// The NIC creates no queue pair.
    #[error(transparent)]
    Qp(#[from] QpError),
    /// The NIC does not connect.
    #[error(transparent)]
    Modify(#[from] ModifyError),
    /// The peer names more or fewer queue pairs than there are channels.
    #[error("the peer names {theirs} queue pairs for {channels} channels")]
    QueuePairs {
        /// The number that it names.
        theirs: usize,
        /// The number of channels.
        channels: usize,
    },
    /// The peer's buffers would exceed the address space, or its words are not aligned.
    #[error("the peer's {what} at address {address:#x} cannot be")]
    Address {
        /// The memory concerned.
        what: &'static str,
        /// The address.
        address: u64,
    },
}

/// The resources of one node for a connection, before it knows the peer's keys.
#[derive(Debug)]
pub struct Prepared {
    agreed: Agreed,
    keepalive: Duration,
    timeout: Duration,
    retries: u8,
    buffer_info: Region,
    receive: Region,
    send: Region,
    /// Of outgoing channels, then of incoming ones.
    ends: Vec<Made>,
    /// By outgoing channel: how its part of the send buffer is divided.
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug)]
struct Made {
    name: QueuePairName,
    cq: CqId,
}

impl Prepared {
    /// Bytes of memory that [`Self::new`] allocates for a connection.
    pub fn memory_bytes(config: &MessagingConfig, agreed: &Agreed) -> u64 {
        sizes(agreed, &divide(config, agreed)).iter().sum()
    }

    /// Creates regions and queue pairs. On failure, everything is released.
    ///
    /// # Errors
    /// If there is no memory, or the NIC's tables are full.
    pub fn new(
        verbs: &mut dyn Verbs,
        memory: &Memory,
        config: &MessagingConfig,
        agreed: &Agreed,
        rng: &mut KeyRng,
    ) -> Result<Self, SetUpError> {
        let parts = divide(config, agreed);
        let pd = config.pd.unwrap_or_else(|| verbs.create_pd());
        let [info_bytes, receive_bytes, send_bytes] = sizes(agreed, &parts);
        let remote = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
        let mut regions = Vec::new();
        let wanted = [
            ("the buffer info", info_bytes, remote),
            ("the receive buffers", receive_bytes, remote),
            ("the send buffer", send_bytes, Access::empty()),
        ];
        for (what, bytes, access) in wanted {
            let made = usize::try_from(bytes).unwrap_or(usize::MAX);
            let made = memory
                .allocate(made)
                .map_err(|error| SetUpError::Memory { what, error })
                .and_then(|block| Ok(verbs.register(pd, block, access)?));
            match made {
                Ok(region) => regions.push(region),
                Err(error) => {
                    for region in &regions {
                        verbs.deregister(region);
                    }
                    return Err(error);
                }
            }
        }
        let [buffer_info, receive, send] = regions.try_into().expect("three were asked for");
        let mut prepared = Self {
            agreed: *agreed,
            keepalive: config.keepalive,
            timeout: config.timeout,
            retries: config.retries,
            buffer_info,
            receive,
            send,
            ends: Vec::new(),
            parts,
        };
        match prepared.make_ends(verbs, pd, rng) {
            Ok(()) => Ok(prepared),
            Err(error) => {
                prepared.abandon(verbs);
                Err(error)
            }
        }
    }

    fn make_ends(
        &mut self,
        verbs: &mut dyn Verbs,
        pd: PdId,
        rng: &mut KeyRng,
    ) -> Result<(), SetUpError> {
        let (outgoing, incoming) = (self.agreed.outgoing(), self.agreed.incoming());
        let sending = self.parts.iter().map(|part| 2 * part.slots as u32);
        let buffers = self.agreed.mine.receive_buffers;
        let receiving =
            (0..incoming).map(|channel| 2 * buffers_of(channel, incoming, buffers).count() as u32);
        let requests: Vec<u32> = sending.chain(receiving).collect();
        debug_assert_eq!(requests.len(), usize::from(outgoing + incoming));
        for requests in requests {
            let requests = requests + SPARE_REQUESTS;
            let cq = verbs.create_cq(requests)?;
            let capabilities = QpCapabilities {
                send_max: requests,
                receive_max: 1,
                ..QpCapabilities::default()
            };
            let psn = Psn::new(rng.next_u32());
            match verbs.create_qp(pd, cq, cq, capabilities) {
                Ok(qpn) => self.ends.push(Made {
                    name: QueuePairName { qpn, psn },
                    cq,
                }),
                Err(error) => {
                    // It exists and is unused.
                    let _ = verbs.destroy_cq(cq);
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// The agreed terms.
    pub fn agreed(&self) -> &Agreed {
        &self.agreed
    }

    /// The keys to be sent to the peer.
    pub fn keys(&self) -> NodeKeys {
        let keyed = |region: &Region| KeyedAddress {
            address: region.address,
            rkey: region.rkey,
        };
        let (away, here) = self.ends.split_at(usize::from(self.agreed.outgoing()));
        let (up, down) = match self.agreed.role {
            Role::Compute => (away, here),
            Role::Storage => (here, away),
        };
        NodeKeys {
            queue_pairs: up.iter().chain(down).map(|made| made.name).collect(),
            buffer_info: keyed(&self.buffer_info),
            receive: keyed(&self.receive),
        }
    }

    /// Connects this node's queue pairs to the peer's. On failure, everything is released.
    ///
    /// # Errors
    /// If the peer's keys are not valid, or the NIC refuses.
    pub fn connect(
        self,
        now: Instant,
        verbs: &mut dyn Verbs,
        theirs: &NodeKeys,
    ) -> Result<Connection, SetUpError> {
        let joined = self
            .check(theirs)
            .and_then(|()| self.join(verbs, &theirs.queue_pairs));
        if let Err(error) = joined {
            self.abandon(verbs);
            return Err(error);
        }
        Ok(self.into_connection(now, theirs))
    }

    fn check(&self, theirs: &NodeKeys) -> Result<(), SetUpError> {
        let channels = self.ends.len();
        if theirs.queue_pairs.len() != channels {
            return Err(SetUpError::QueuePairs {
                theirs: theirs.queue_pairs.len(),
                channels,
            });
        }
        let terms = &self.agreed.theirs;
        let bytes = u64::from(terms.receive_buffers) * u64::from(terms.receive_bytes);
        let info_bytes = terms.buffer_info_len();
        for (what, address, bytes) in [
            ("buffer info", theirs.buffer_info.address, info_bytes),
            ("receive buffers", theirs.receive.address, bytes),
        ] {
            if !address.is_multiple_of(8) || address.checked_add(bytes).is_none() {
                return Err(SetUpError::Address { what, address });
            }
        }
        Ok(())
    }

    fn join(&self, verbs: &mut dyn Verbs, theirs: &[QueuePairName]) -> Result<(), SetUpError> {
        let (up, down) = theirs.split_at(usize::from(self.agreed.channels_up));
        let (away, here) = match self.agreed.role {
            Role::Compute => (up, down),
            Role::Storage => (down, up),
        };
        for (made, theirs) in self.ends.iter().zip(away.iter().chain(here)) {
            let qpn = made.name.qpn;
            verbs.modify_qp(qpn, QpModify::Init)?;
            let receive = ReceiveSide {
                peer: Peer {
                    mac: self.agreed.theirs.mac,
                    ip: self.agreed.theirs.ip,
                    qpn: theirs.qpn,
                },
                psn: theirs.psn,
                mtu: self.agreed.mtu,
                access: Access::REMOTE_WRITE,
                reads_in_flight_max: 1,
                rnr_wait: Duration::ZERO,
            };
            verbs.modify_qp(qpn, QpModify::ReadyToReceive(receive))?;
            let send = SendSide {
                psn: made.name.psn,
                timeout: self.timeout,
                retries: self.retries,
                rnr_retries: 0,
                reads_in_flight_max: 1,
            };
            verbs.modify_qp(qpn, QpModify::ReadyToSend(send))?;
        }
        Ok(())
    }

    fn into_connection(self, now: Instant, theirs: &NodeKeys) -> Connection {
        let agreed = self.agreed;
        let shared = Arc::new(Shared::new(
            agreed,
            self.buffer_info,
            self.receive,
            self.send,
            theirs.buffer_info,
        ));
        let keepalive = self.keepalive;
        let end = |made: &Made| End::new(shared.clone(), made.name.qpn, made.cq, now, keepalive);
        let (away, here) = self.ends.split_at(usize::from(agreed.outgoing()));
        let (mine, their) = (&agreed.mine, &agreed.theirs);
        let word = |number: usize| number * WORD_SPACING;
        let mut next_word = WORDS_COMMON + usize::from(mine.receive_buffers);
        let slots: usize = self.parts.iter().map(|part| part.slots).sum();
        let mut next_byte = word(next_word + slots) as u64;
        let mut senders = Vec::new();
        for (channel, (made, part)) in away.iter().zip(&self.parts).enumerate() {
            let slots = (0..part.slots).map(|_| {
                let place = (next_byte, word(next_word));
                next_byte += part.slot_bytes as u64;
                next_word += 1;
                place
            });
            let slots = slots.collect();
            let buffers = buffers_of(channel as u8, agreed.outgoing(), their.receive_buffers);
            let buffers = buffers.map(|number| {
                let offset = u64::from(number) * u64::from(their.receive_bytes);
                let to = KeyedAddress {
                    address: theirs.receive.address + offset,
                    rkey: theirs.receive.rkey,
                };
                let inline = theirs.buffer_info.at(inline_at(number));
                SendTarget {
                    to,
                    inline: their.word_last.then_some(inline),
                    entry: own_entry(number),
                    free_entry: peer_entry(number),
                }
            });
            let places = SenderPlaces {
                slots,
                slot_bytes: part.slot_bytes,
                buffers: buffers.collect(),
            };
            senders.push(Sender::new(end(made), places));
        }
        let mut receivers = Vec::new();
        for (channel, made) in here.iter().enumerate() {
            let buffers = buffers_of(channel as u8, agreed.incoming(), mine.receive_buffers);
            let places = ReceiverPlaces {
                buffers: buffers
                    .map(|number| (number, word(WORDS_COMMON + usize::from(number))))
                    .collect(),
            };
            receivers.push(Receiver::new(end(made), places));
        }
        Connection { senders, receivers }
    }

    /// Releases everything.
    pub fn abandon(self, verbs: &mut dyn Verbs) {
        if planted(Canary::MessagingHalfOpen) {
            return;
        }
        for made in &self.ends {
            // They exist and are unused.
            let _ = verbs.destroy_qp(made.name.qpn);
            let _ = verbs.destroy_cq(made.cq);
        }
        for region in [&self.buffer_info, &self.receive, &self.send] {
            verbs.deregister(region);
        }
    }
}
