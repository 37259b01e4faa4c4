//! Requests to endpoints. Data, so that they can travel.

use crate::IndexEndpointSpec;
use crate::index::running::{Accepted, Purpose};
use rackweave_endpoint::btree::OutlineNode;
use rackweave_endpoint::index::{DatagramServerConfig, EndpointId, PartitionMap};
use rackweave_wire::fabric::tree::NodePointer;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// How an endpoint is started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EndpointStart {
    /// Its node, threads and sizes.
    pub spec: IndexEndpointSpec,
    /// Whether and how it answers datagrams.
    pub datagrams: Option<DatagramServerConfig>,
    /// Bytes of a packet on its connections.
    pub mtu: u32,
    /// The assignment of keys.
    pub map: PartitionMap,
    /// The number of this start among all starts of endpoints of the index.
    pub start: u64,
}

/// A request to an endpoint, by the process that made the index or by a user of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EndpointRequest {
    /// Start, in place of an earlier start: with the tree that was kept for this, or empty.
    Start(Box<EndpointStart>),
    /// Stop. `forever`: it will not start again.
    Stop { forever: bool },
    /// Make queue pairs for one more user.
    Accept(Purpose),
    /// They are connected: requests will arrive.
    Open(Accepted),
    /// They are no longer used.
    Release(Accepted),
    /// Its map.
    Map,
    /// Entries for an empty tree, which is filled with the last of them.
    Load {
        entries: Vec<(u64, Hex)>,
        is_last: bool,
    },
    /// Another endpoint, which is down, is about to be restarted.
    BeginRestart(EndpointId),
    /// It is restarted with this map, or not.
    EndRestart(Option<PartitionMap>),
    /// Enter the endpoint at the switches as a server with this number.
    Lead { number: u16 },
    /// The upper levels of the tree, at most `most` tree nodes; `again`: what is left of them.
    Outline { most: usize, again: bool },
    /// Pin tree nodes, each given by its pointer and its least key.
    Pin {
        bank: usize,
        wanted: Vec<(NodePointer, u64)>,
    },
    /// Unpin those of a bank.
    Unpin { bank: usize },
    /// Keys of requests since the last time.
    Sample,
}

/// Bytes, which travel in hexadecimal.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hex(pub Vec<u8>);

impl Serialize for Hex {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * self.0.len());
        for byte in &self.0 {
            let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or('0');
            text.extend([digit(byte >> 4), digit(byte & 15)]);
        }
        to.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Hex {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let digit = |digit: u8| char::from(digit).to_digit(16);
        let byte = |&[high, low]: &[u8; 2]| Some((digit(high)? << 4 | digit(low)?) as u8);
        let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
        let bytes = bytes.filter(|_| rest.is_empty());
        let wrong = || D::Error::custom("bytes are an even number of hexadecimal digits");
        bytes.map(Self).ok_or_else(wrong)
    }
}

/// A part of an outline.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OutlinePart {
    /// The least and greatest key of the tree.
    pub bounds: (u64, u64),
    /// Tree nodes, from the root down.
    pub nodes: Vec<OutlineNode>,
    /// Whether there are more.
    pub is_last: bool,
}

/// An endpoint's reply.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EndpointReply {
    Done,
    /// The endpoint does not run here.
    NotRunning,
    Accepted(Accepted),
    Map(PartitionMap),
    /// `None` if it has no keys.
    Outline(Option<OutlinePart>),
    /// Positions of tree nodes that could not be pinned.
    NotPinned(Vec<usize>),
    Keys(Vec<u64>),
}
