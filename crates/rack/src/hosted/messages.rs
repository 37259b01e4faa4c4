//! Messages on control connections, after hello and welcome.
//!
//! On a connection only one side sends requests: the controller to a node, the node to the
//! controller on a second connection, so that neither waits behind the other, and a command to the
//! controller. Every request has one reply, in order, so that messages need no numbers.

use super::HostedFlow;
use super::elector::TermId;
use super::seal::Seal;
use crate::config::LinkKind;
use crate::statistics::RackStatistics;
use rackweave_base::{NodeId, Qpn, Rkey};
use rackweave_controller::ask::{AskError, Reply, Request};
use rackweave_controller::{
    PairError, PairRequest, RegionName, RegionPurpose, TargetReply, TargetRequest,
};
use rackweave_link::udp::Token;
use rackweave_target::TargetError;
use rackweave_verbs::{
    Access, CqError, CqId, ModifyError, Mtu, PdId, QpCapabilities, QpError, QpModify,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

/// The purpose that a node states in its hello.
pub(super) const PURPOSE_NODE: &str = "node";

/// The purpose that a command states in its hello.
pub(super) const PURPOSE_COMMAND: &str = "command";

/// The purpose of a node's second connection, on which it asks the controller.
pub(super) const PURPOSE_MEMBER: &str = "member";

/// The purpose of a node's third connection, on which the controller passes on what other nodes ask
/// its services.
pub(super) const PURPOSE_SERVER: &str = "server";

/// A node's part of its hello.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct NodeHello {
    pub link: LinkKind,
    /// Bytes of Ethernet payload that its end of the link carries; unknown before a link that the
    /// switch makes.
    pub mtu: Option<usize>,
    /// The claimed source address of its VXLAN packets, which it has to prove.
    pub udp: Option<SocketAddr>,
    pub pid: u32,
    /// A random number that changes when the node forgets what the controller has made there.
    pub incarnation: u64,
    /// The number of its process's memory, which nodes of one process share.
    pub memory: u64,
    /// The nodes to which it has a direct cable from the time of an earlier switch process.
    pub cables: Vec<NodeId>,
    /// The origins of the memories that it was given then.
    pub imports: Vec<u16>,
}

/// The controller's reply to a node that it admits.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct NodeWelcome {
    /// A random number of each controller. A switch process that restores the state of an earlier
    /// one is the same controller.
    pub controller: u64,
    /// The term for which this switch process leads.
    pub term: TermId,
    /// Whether the node keeps what the controller has made there; else it forgets it.
    pub keep: bool,
    /// The origin of the node's memory in packets.
    pub origin: u16,
    /// The token that the node sends to the Unix socket of the switch, to get its end of a link.
    pub token: String,
    /// The keys of the node's end, if its link is UDP and packets bear codes.
    pub seal: Option<Seal>,
}

/// What a node asks the controller, on a connection of its own.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum MemberRequest {
    Ask(Box<Request>),
    Statistics,
    /// The MTU of the link to the foreign host of this name.
    MtuToHost(String),
    /// For the service of this name, in any process.
    Call(ServiceCall),
}

/// A request to a service, which knows what it means.
#[derive(Serialize, Deserialize, Debug)]
pub(super) struct ServiceCall {
    pub name: String,
    pub body: Value,
}

/// The controller's reply.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum MemberReply {
    Answer(Result<Box<Reply>, AskError>),
    Statistics(Box<RackStatistics>),
    /// `None` if there is no such host.
    MtuToHost(Option<Mtu>),
    Called(Result<Value, String>),
}

/// The controller's requests to a node.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum NodeRequest {
    Ping,
    /// Before its end of a link in UDP is made: return the token that arrived there.
    Prove,
    /// The switch process ends regularly.
    Farewell,
    CreatePd,
    CreateCq {
        capacity: u32,
    },
    CreateQp {
        pd: PdId,
        send_cq: CqId,
        receive_cq: CqId,
        capabilities: QpCapabilities,
    },
    ModifyQp {
        qpn: Qpn,
        modify: QpModify,
    },
    DestroyQp {
        qpn: Qpn,
    },
    DestroyCq {
        cq: CqId,
    },
    ReadByReference {
        qpn: Qpn,
    },
    MakeRegion {
        pd: PdId,
        len: u64,
        access: Access,
        purpose: RegionPurpose,
    },
    RemoveRegion {
        region: RegionName,
    },
    LoadWords {
        rkey: Rkey,
        offsets: Vec<u64>,
    },
    StoreWord {
        rkey: Rkey,
        offset: u64,
        bytes: [u8; 8],
    },
    CompareSwapWord {
        rkey: Rkey,
        offset: u64,
        words: (u64, u64),
    },
    /// Connect queue pairs to the switch.
    ConnectPairs(Vec<PairRequest>),
    /// For the NVMe target of the node.
    Target(Vec<TargetRequest>),
    /// The memory of another node arrives on the Unix socket.
    Import {
        origin: u16,
    },
    Forget {
        origin: u16,
    },
    /// Make a direct cable to this node, and send its other end on the Unix socket.
    MakeCable {
        peer: NodeId,
    },
    /// The end of a direct cable to this node arrives on the Unix socket.
    TakeCable {
        peer: NodeId,
    },
    CutCable {
        peer: NodeId,
    },
    StartJob {
        job: u64,
        name: String,
        arguments: Value,
    },
    PollJob {
        job: u64,
    },
    StopJob {
        job: u64,
    },
    Counters,
}

/// A node's reply.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum NodeReply {
    /// To `Ping`.
    Pong {
        /// The node is about to leave.
        leaving: bool,
        /// A channel to the page directory requests a new connection.
        page_alarm: bool,
        /// Nodes to which a direct cable would be used.
        wanted: Vec<NodeId>,
    },
    /// To `Prove`; `None` if no token has arrived.
    Token(Option<Token>),
    Done,
    Pd(PdId),
    Cq(Result<CqId, CqError>),
    Qp(Result<Qpn, QpError>),
    Modified(Result<(), ModifyError>),
    Destroyed(Result<(), QpError>),
    CqDestroyed(Result<(), CqError>),
    Region(Result<RegionName, String>),
    Words(Option<Vec<[u8; 8]>>),
    Pairs(Vec<Result<Qpn, PairError>>),
    /// To `CompareSwapWord`: the previous value.
    Swapped(Option<u64>),
    /// `None` if the node has no target.
    Target(Option<Vec<Result<TargetReply, TargetError>>>),
    Imported(Result<(), String>),
    Cabled(Result<(), String>),
    Job(JobStatus),
    Counters(Counters),
}

/// Counters by name.
pub type Counters = BTreeMap<String, u64>;

/// The state of a job.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub enum JobStatus {
    /// It is running.
    Running {
        /// Its progress, in its own units.
        done: u64,
    },
    /// It has succeeded.
    Done {
        /// Its result.
        result: Value,
    },
    /// It has failed.
    Failed {
        /// The cause.
        error: String,
    },
    /// The job is unknown: its node has restarted since, or it was not polled for too long.
    Unknown,
}

/// The state of a flow.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub enum FlowStatus {
    /// Items move.
    Running,
    /// Everything has been delivered.
    Ended,
    /// It was aborted.
    Aborted {
        /// The cause.
        reason: String,
    },
    /// There is no such flow.
    Unknown,
}

/// The status of a node of a hosted rack.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// Its name.
    pub name: String,
    /// Whether it has joined.
    pub joined: bool,
    /// How its packets reach the switch.
    pub link: LinkKind,
    /// The RDMA MTU of its link in bytes, if it has joined.
    pub mtu: Option<u32>,
    /// Its process, if it has joined.
    pub pid: Option<u32>,
    /// Number of times it has joined since the switch started.
    pub joins: u64,
}

/// The status of a foreign host of a hosted rack.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq, Eq)]
pub struct HostStatus {
    /// Its name.
    pub name: String,
    /// The Ethernet address of its NIC.
    pub mac: String,
    /// The IP address of its NIC.
    pub ip: Ipv4Addr,
    /// Its port of the switch.
    pub port: u16,
    /// How its packets reach the switch.
    pub link: LinkKind,
    /// Where the switch reaches it: the address and port of a VXLAN device, or an interface.
    pub at: String,
    /// The RDMA MTU of the link in bytes.
    pub mtu: u32,
    /// Packets and bytes at its port since the switch started.
    pub counters: Counters,
}

/// The status of a hosted rack.
#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
pub struct RackStatus {
    /// The switch's process.
    pub pid: u32,
    /// Its name: `switch` or `standby`.
    pub process: String,
    /// The number of the term for which it leads.
    pub term: u64,
    /// Its uptime in seconds.
    pub up_seconds: f64,
    /// Its nodes, in the order of the configuration.
    pub nodes: Vec<NodeStatus>,
    /// Its foreign hosts, in the order of the configuration. They never join.
    pub hosts: Vec<HostStatus>,
    /// The counters of the switch that are not zero.
    pub switch_counters: Counters,
    /// Packets and unauthenticated connections dropped at the control port, by reason.
    pub refused: Counters,
    /// Lanes in use.
    pub lanes_used: usize,
}

/// A command's requests to the controller.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum CommandRequest {
    Status,
    Statistics,
    CreateFlow {
        producers: Vec<NodeId>,
        consumers: Vec<NodeId>,
        item_size: u32,
        ring_bytes: u32,
    },
    FlowState {
        flow: u32,
    },
    CloseFlow {
        flow: u32,
    },
    Connect {
        a: (NodeId, Qpn),
        b: (NodeId, Qpn),
        /// The maximum; the links may allow less.
        mtu: Mtu,
    },
    StartJob {
        node: NodeId,
        name: String,
        arguments: Value,
    },
    PollJob {
        node: NodeId,
        job: u64,
    },
    StopJob {
        node: NodeId,
        job: u64,
    },
    NodeCounters {
        node: NodeId,
    },
}

/// The controller's answer.
#[derive(Serialize, Deserialize, Debug)]
pub(super) enum CommandReply {
    Status(RackStatus),
    Statistics(Box<RackStatistics>),
    Flow(HostedFlow),
    FlowStatus(FlowStatus),
    Done,
    Job(u64),
    JobStatus(JobStatus),
    Counters(Counters),
    /// It failed, with the cause.
    Failed(String),
}
