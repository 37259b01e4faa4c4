//! Lookups by a client on another node, in an embedded rack.

use super::{Task, key_of, value_of};
use crate::outcome::CliError;
use crate::patience::Patience;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::{NodeId, Rng};
use rackweave_endpoint::index::{
    Access, Answer, EndpointId, IndexClient, IndexClientConfig, Op, ReaderConfig,
};
use rackweave_endpoint::rpc::ClientConfig;
use rackweave_rack::config::{NodeConfig, Role};
use rackweave_rack::services::{IndexOptions, IndexService};
use rackweave_rack::statistics::RackObserver;
use rackweave_rack::{Attached, EmbeddedRack, Node, RackConfig};
use std::time::Instant;

const CLIENT: NodeId = NodeId(0);
const SERVER: NodeId = NodeId(1);
const ENDPOINT: EndpointId = EndpointId(0);

/// What was measured of a client.
#[derive(Clone, Copy, Debug)]
pub struct Remotely {
    pub per_s: f64,
    pub reads_per_lookup: Option<f64>,
    /// Whether everything was found, with its value.
    pub sound: bool,
}

/// A rack with an index that has all records.
pub struct Rig {
    rack: EmbeddedRack,
    index: IndexService,
}

impl Rig {
    pub fn new(config: &RackConfig, task: &Task<'_>, node_bytes: u32) -> Result<Self, CliError> {
        let mut config = config.clone();
        config.node = vec![
            NodeConfig::new("client", Role::Compute),
            NodeConfig::new("server", Role::Storage),
        ];
        let options = IndexOptions {
            nodes: vec![SERVER],
            keys: task.records,
            value_max: 8,
            node_bytes,
            ..IndexOptions::default()
        };
        let spec = options.spec(&config).map_err(CliError::run)?;
        let bytes = spec.endpoints[0].tree.bytes();
        config.memory_limit = config.memory_limit.max(bytes + (256 << 20));
        let rack = EmbeddedRack::new(&config)?;
        let index = IndexService::with_spec(&rack, spec, None, None).map_err(CliError::run)?;
        let shard = index.index().shard(ENDPOINT).cloned();
        let shard = shard.ok_or_else(|| CliError::run("the endpoint does not run"))?;
        // In the order in which the local tree got them, so that both have the same shape.
        for key in task.shuffled() {
            let value = value_of(key).to_le_bytes();
            shard.tree().insert(key, &value).map_err(CliError::run)?;
        }
        Ok(Self { rack, index })
    }

    /// Looks at its rack.
    pub fn observer(&self) -> RackObserver {
        self.rack.observer()
    }

    /// Looks up random keys for a while: by requests, or by READs with so many bytes of cache.
    pub fn lookups(
        &mut self,
        task: &Task<'_>,
        window: u16,
        cache_bytes: Option<u64>,
    ) -> Result<Remotely, CliError> {
        let defaults = IndexClientConfig::default();
        let config = IndexClientConfig {
            operations: window,
            access: match cache_bytes {
                None => Access::Rpc,
                Some(_) => Access::OneSided,
            },
            rpc: ClientConfig {
                window,
                ..defaults.rpc
            },
            reader: ReaderConfig {
                walks: window,
                cache_bytes: cache_bytes.unwrap_or(0),
                ..defaults.reader
            },
            ..defaults
        };
        let client = self.index.client(CLIENT, config);
        let mut asker = Asker {
            client: client.map_err(CliError::run)?,
            node: self.rack.node_at(CLIENT),
            rng: Rng::new(task.seed).fork("remote lookups"),
            // Answers may overtake each other, but not by so much.
            asked: vec![(0, 0); usize::from(window).next_power_of_two() * 16],
            done: 0,
            sound: true,
        };
        let driver = self.rack.progress();
        let ended = AtomicBool::new(false);
        let took = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut patience = Patience::new(&*driver);
                while !ended.load(Ordering::Relaxed) {
                    patience.wait(self.index.serve());
                }
            });
            let mut patience = Patience::new(&*driver);
            let started = Instant::now();
            while started.elapsed() < task.span && !task.interrupt.is_set() {
                let moved = asker.turn(task.records);
                patience.wait(moved);
            }
            let took = started.elapsed();
            ended.store(true, Ordering::Relaxed);
            took
        });
        let reader = asker.client.reader_statistics();
        let measured = Remotely {
            per_s: super::ratio(asker.done as f64, took.as_secs_f64()),
            reads_per_lookup: cache_bytes
                .map(|_| super::ratio(reader.reads as f64, reader.lookups as f64)),
            sound: asker.sound && asker.done > 0,
        };
        self.index.release(asker.client);
        Ok(measured)
    }
}

/// A client that keeps its window full.
struct Asker {
    client: Attached<IndexClient>,
    node: Node,
    rng: Rng,
    /// Tickets and keys of the last questions.
    asked: Vec<(u64, u64)>,
    done: u64,
    sound: bool,
}

impl Asker {
    fn place(&self, ticket: u64) -> usize {
        ticket as usize % self.asked.len()
    }

    /// Asks, and takes what came. True if anything did.
    fn turn(&mut self, records: u64) -> bool {
        for _ in 0..self.client.free() {
            let key = key_of(self.rng.below(records));
            match self.client.begin(&Op::Get { key }) {
                Ok(ticket) => {
                    let place = self.place(ticket.0);
                    self.asked[place] = (ticket.0, key);
                }
                Err(_) => self.sound = false,
            }
        }
        let (client, now) = (&mut self.client, self.node.now());
        let came = self.node.with(|nic| client.advance(now, nic));
        while let Some(reply) = self.client.take() {
            let (ticket, key) = self.asked[self.place(reply.ticket.0)];
            let word = match reply.result {
                Ok(Answer::Value(Some(value))) => value.word(),
                _ => None,
            };
            self.sound &= ticket == reply.ticket.0 && word == Some(value_of(key));
            self.done += 1;
        }
        came
    }
}
