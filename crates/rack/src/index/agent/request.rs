//! Requests to endpoints. Data, so that they can travel.

use crate::IndexEndpointSpec;
use crate::index::running::{Accepted, Purpose};
use rackweave_base::{NodeId, Qpn};
use rackweave_controller::connect::PairAttributes;
use rackweave_endpoint::btree::OutlineNode;
use rackweave_endpoint::index::{DatagramServerConfig, EndpointId, PartitionMap, ReplicationState};
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
    /// The number of this start among all starts of endpoints and replicas of the index.
    pub start: u64,
    /// Whether endpoints of the index have replicas: then it does not outlive that its node is
    /// declared dead, because its replica may take its place.
    pub has_replicas: bool,
    /// Whether it starts with the tree that was kept for this, which must be there, or empty.
    pub keeps: bool,
}

/// How a replica of an endpoint is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ReplicaStart {
    /// The endpoint's specification, with the replica's node.
    pub spec: IndexEndpointSpec,
    /// Number of the endpoint's threads, each of which gets a connection.
    pub threads: u16,
    /// Its number among all starts of endpoints and replicas of the index.
    pub start: u64,
}

impl ReplicaStart {
    /// The name of its tree.
    pub fn name(&self, endpoint: EndpointId) -> u64 {
        name_of(endpoint, self.start)
    }
}

/// A number for a start of an endpoint or of a replica, different for each.
pub(crate) fn name_of(endpoint: EndpointId, start: u64) -> u64 {
    (u64::from(endpoint.0) + 1) << 48 | start
}

/// A request to the replica of an endpoint, at its node.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum ReplicaRequest {
    /// Make it, in place of an earlier one.
    Start(Box<ReplicaStart>),
    /// It is connected: requests will arrive.
    Open,
    /// Whether it is there, and the newest map that it knows.
    Look,
    /// Remove it.
    Stop,
    /// End it, and keep its tree for the endpoint, which will start here.
    Promote,
}

/// A request to an endpoint, by the process that made the index or by a user of it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum EndpointRequest {
    /// Start, in place of an earlier start.
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
    /// What concerns the replica of an epoch.
    Replica { epoch: u64, request: ReplicaRequest },
    /// Connect every thread to the replica of an epoch, which has made these queue pairs for that.
    /// A node connects its own queue pairs only.
    ConnectReplica {
        epoch: u64,
        to: Vec<(NodeId, Qpn)>,
        attributes: PairAttributes,
    },
    /// Send it all values and writes.
    Replicate { epoch: u64 },
    /// Go on without it.
    Uncover { epoch: u64 },
    /// How far the replica is.
    Replication,
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
    /// Queue pairs, with their nodes.
    Pairs(Vec<(NodeId, Qpn)>),
    Replication(ReplicationState),
}
