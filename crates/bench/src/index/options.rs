//! The options of a run, and what follows from them: the rack, the trees, the clients.

use super::loaded::reserve_network;
use super::records::Keys;
use crate::ycsb::prelude::*;
use rackweave_endpoint::btree::TreeConfig;
use rackweave_endpoint::index::{self, IndexClientConfig, ReaderConfig};
use rackweave_endpoint::rpc::{ClientConfig, ServerConfig};
use rackweave_rack::BRANCHES;

/// Bytes of the longest record: it fits a request together with its header.
pub const RECORD_BYTES_MAX: u32 = 65_400;

/// Bytes of a request before a value, rounded up.
const REQUEST_BYTES: u32 = 96;

/// How workers reach the tree.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Threads of the storage node call it.
    Local,
    /// Threads of compute nodes send requests to its endpoint.
    #[default]
    Rpc,
    /// Threads of compute nodes READ it, and send requests to change it.
    OneSided,
    /// As one-sided, but each READ starts at the deepest tree node that the switches know.
    InNetwork,
}

/// A run of YCSB over the index.
#[derive(Clone, PartialEq, Debug)]
pub struct IndexOptions {
    /// The operations, with threads of each compute node. With local access these are threads of
    /// the storage node, which run one operation at a time.
    pub load: Load,
    /// How workers reach the tree.
    pub access: Access,
    /// Bytes of a tree node: 512, 1024, 2048 or 4096.
    pub node_size: u32,
    /// The maximum number of children of an inner tree node; 0: as many as fit, but no more than a
    /// switch holds of one tree node if access is in-network.
    pub fan_out: u16,
    /// 1: the storage node has all keys; 2: its DPU has the upper half of the initial keys, and all
    /// new keys.
    pub endpoints: u16,
    /// Bytes of upper tree nodes that each client caches for each endpoint, if it READs.
    pub cache_bytes: u64,
    /// Parts into which a READing client divides a scan, to read them concurrently; 1: no division.
    pub scan_parts: u16,
    /// Server threads of each endpoint.
    pub server_threads: u16,
}

impl Access {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Rpc => "rpc",
            Self::OneSided => "one-sided",
            Self::InNetwork => "in-network",
        }
    }

    /// Whether workers READ the tree.
    pub const fn is_by_read(self) -> bool {
        matches!(self, Self::OneSided | Self::InNetwork)
    }
}

impl Default for IndexOptions {
    fn default() -> Self {
        Self {
            load: Load::default(),
            access: Access::default(),
            node_size: 2048,
            fan_out: 0,
            endpoints: 1,
            cache_bytes: 0,
            scan_parts: 1,
            server_threads: 1,
        }
    }
}

impl IndexOptions {
    /// Checks that this can be run.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn check(&self) -> Result<()> {
        self.load.check(256, "1 to 256 are possible")?;
        let (servers, range) = (
            self.server_threads.into(),
            "1 to 64 per endpoint are possible",
        );
        in_range("the number of server threads", servers, 64, range)?;
        let parts = self.scan_parts.into();
        let range = "1 to 16 are possible";
        in_range("the number of parts of a scan", parts, 16, range)?;
        let (most, range) = match self.access {
            Access::Local => (1, "local threads call one tree; 1 is possible"),
            _ => (2, "1 (the host) and 2 (the host and its DPU) are possible"),
        };
        let endpoints = self.endpoints.into();
        in_range("the number of endpoints", endpoints, most, range)?;
        let (record, most) = (self.load.ycsb.record_size.into(), RECORD_BYTES_MAX.into());
        let range = "a request to an index holds 65400 at most";
        in_range("the size of a record in bytes", record, most, range)?;
        Ok(self.tree().check()?)
    }

    /// The keys of the records.
    pub fn keys(&self) -> Keys {
        Keys::new(self.load.ycsb.records_max())
    }

    /// Number of clients or local threads on this many compute nodes.
    pub fn workers(&self, compute: usize) -> u32 {
        let nodes = match self.access {
            Access::Local => 1,
            _ => compute as u32,
        };
        nodes * u32::from(self.load.threads)
    }

    /// The operations, with the concurrency that the access allows.
    pub(super) fn load(&self) -> Load {
        let depth = match self.access {
            Access::Local => 1,
            _ => self.load.depth,
        };
        Load {
            depth,
            ..self.load.clone()
        }
    }

    /// Configuration of an endpoint's tree. All inserts may go to one endpoint.
    pub fn tree(&self) -> TreeConfig {
        let ycsb = &self.load.ycsb;
        let inserts = ycsb.records_max() - ycsb.records;
        let records = ycsb.records.div_ceil(self.endpoints.max(1).into()) + inserts;
        let config = TreeConfig::for_keys(records, self.node_size, ycsb.record_size);
        match (self.fan_out, self.access) {
            (0, Access::InNetwork) => config.with_fan_out(BRANCHES as u16),
            (0, _) => config,
            (given, _) => config.with_fan_out(given),
        }
    }

    /// Configuration of a server thread for `clients` clients.
    pub fn server(&self, clients: u32) -> ServerConfig {
        let config = ServerConfig::new(1);
        ServerConfig {
            clients_max: clients.div_ceil(self.server_threads.max(1).into()).max(1) as u16,
            payload_max: self.payload(config.payload_max),
            ..config
        }
    }

    /// Configuration of a client.
    pub fn client(&self) -> IndexClientConfig {
        let rpc = ClientConfig::default();
        IndexClientConfig {
            operations: self.load.depth,
            access: match self.access {
                Access::OneSided => index::Access::OneSided,
                Access::InNetwork => index::Access::InNetwork,
                _ => index::Access::Rpc,
            },
            rpc: ClientConfig {
                window: self.load.depth,
                payload_max: self.payload(rpc.payload_max),
                ..rpc
            },
            scan_parts: self.scan_parts,
            reader: ReaderConfig {
                walks: self.load.depth.saturating_mul(self.scan_parts.max(1)),
                cache_bytes: self.cache_bytes,
                ..ReaderConfig::default()
            },
            ..IndexClientConfig::default()
        }
    }

    fn payload(&self, usual: u32) -> u32 {
        usual.max(self.load.ycsb.record_size + REQUEST_BYTES)
    }

    /// `config`, enlarged for the trees and the clients.
    pub fn rack(&self, config: &RackConfig, nodes: &Nodes) -> RackConfig {
        let mut config = config.clone();
        let workers = u64::from(self.workers(nodes.compute.len()));
        let (client, server) = (self.client(), self.server(workers as u32));
        let buffers = |payload: u32, count: u16| u64::from(payload + 256) * u64::from(count);
        let walk = u64::from(self.node_size)
            + u64::from(client.reader.records) * u64::from(self.load.ycsb.record_size + 128);
        let connection = buffers(client.rpc.payload_max, client.rpc.window + 2)
            + buffers(client.rpc.payload_max, client.rpc.send_buffers)
            + buffers(server.payload_max, server.receives + 2)
            + buffers(server.payload_max, server.send_buffers)
            + walk * u64::from(client.reader.walks)
            + (64 << 10);
        let endpoints = u64::from(self.endpoints);
        let needs = endpoints * (self.tree().bytes() + workers * connection) + (64 << 20);
        config.memory_limit = config.memory_limit.max(needs);
        let pairs = (endpoints * (workers * 2 + u64::from(self.server_threads)) + 64) as u32;
        config.nic.queue_pairs = config.nic.queue_pairs.max(pairs);
        config.nic.completion_queues = config.nic.completion_queues.max(pairs);
        config.nic.regions = config.nic.regions.max(pairs);
        if self.access == Access::InNetwork {
            reserve_network(&mut config, endpoints, workers);
        }
        config
    }
}
