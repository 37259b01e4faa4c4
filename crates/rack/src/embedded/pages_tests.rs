//! The page directory of an embedded rack against the suite for all directories.

use super::*;
use crate::config::{NodeConfig, Role};
use crate::services::{PageOptions, PageService, Prepare, StoreMedium};
use rackweave_controller::PageNode;
use rackweave_endpoint::page_store::directory::conformance::{self, FRAMES, NODES, PAGES, World};
use rackweave_endpoint::page_store::directory::{Channel, Directory, Op, Reply, Ticket};
use rackweave_target::MemoryBackend;
use rackweave_wire::fabric::page::PageId;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE: u32 = 8 << 10;
const BLOCK: u32 = 512;

struct Racked {
    rack: EmbeddedRack,
    channels: Vec<Channel>,
    frames: Vec<Block>,
}

impl Racked {
    fn new(indexed: u64, faults: f64) -> Self {
        let compute = |at| NodeConfig::new(format!("compute{at}"), Role::Compute);
        let mut config = RackConfig {
            node: (0..NODES).map(compute).collect(),
            driver_threads: 0,
            ..RackConfig::default()
        };
        config.node.push(NodeConfig::new("storage", Role::Storage));
        config.node.push(NodeConfig::new("memory", Role::Memory));
        config.switch.consumer_rings = 0;
        config.switch.producer_rings = 0;
        config.switch.page_entries = 128;
        config.switch.page_size = PAGE;
        config.transfer.timeout_us = 2000;
        config.faults.loss = faults;
        config.faults.duplicate = faults;
        let rack = EmbeddedRack::new(&config).unwrap();
        let (storage, memory) = (NodeId(NODES as u16), NodeId(NODES as u16 + 1));
        let blocks = PAGES * u64::from(PAGE / BLOCK);
        let node = |at: usize| PageNode {
            node: NodeId(at as u16),
            frames: FRAMES,
            workers: 1,
            slots: 4,
        };
        let options = PageOptions {
            nodes: (0..NODES).map(node).collect(),
            indexed: Some(indexed),
            fallback: Some(memory),
            prepare: Prepare::Leave,
            ..PageOptions::default()
        };
        let store = StoreMedium {
            name: "memory".into(),
            node: storage,
            backend: Box::new(MemoryBackend::new(BLOCK, blocks)),
            page_size: None,
        };
        PageService::with_stores(&rack, &options, vec![store]).unwrap();
        let ends = (0..NODES).map(|at| rack.page_ends(NodeId(at as u16)).unwrap());
        let (channels, frames) = ends
            .map(|ends| (Channel::new(ends.channels[0].clone()), ends.frames))
            .unzip();
        Self {
            rack,
            channels,
            frames,
        }
    }
}

impl World for Racked {
    fn nodes(&self) -> usize {
        NODES
    }

    fn page_size(&self) -> usize {
        PAGE as usize
    }

    fn page(&self, n: u64) -> PageId {
        PageId::new(0, n % PAGES).unwrap()
    }

    fn beyond(&self) -> PageId {
        PageId::new(0, PAGES).unwrap()
    }

    fn frames(&self, node: usize) -> &Block {
        &self.frames[node]
    }

    fn begin(&mut self, node: usize, op: Op) -> Option<Ticket> {
        let (channel, now) = (&mut self.channels[node], self.rack.shared().time());
        let handle = self.rack.node_at(NodeId(node as u16));
        handle.with(|nic| channel.begin(now, nic, op))
    }

    fn poll(&mut self, node: usize) -> Option<Reply> {
        let (channel, now) = (&mut self.channels[node], self.rack.shared().time());
        let handle = self.rack.node_at(NodeId(node as u16));
        handle.with(|nic| channel.poll(now, nic))
    }

    fn step(&mut self) {
        self.rack.shared().drive();
    }
}

#[test]
fn the_switchs_directory_conforms() {
    conformance::all(&mut Racked::new(PAGES, 0.0));
}

#[test]
fn the_servers_directory_conforms() {
    conformance::all(&mut Racked::new(0, 0.0));
}

/// Two nodes read by leases what a third one changes, each in a thread of its own: no read is older
/// than the last change that had been committed when it began.
#[test]
fn no_thread_reads_by_a_lease_what_another_has_replaced() {
    let mut config = RackConfig::with_all_programs();
    config.switch.page_size = 4096;
    config.node.push(NodeConfig::new("compute2", Role::Compute));
    let rack = EmbeddedRack::new(&config).unwrap();
    let pages = PageService::new(&rack, &PageOptions::default()).unwrap();
    let worker = |name: &str| pages.worker(&rack.node(name).unwrap()).unwrap();
    let writer = worker("compute0");
    let page = writer.allocate().unwrap();
    let (committed, ends) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let readers = ["compute1", "compute2"].map(|name| {
            let reader = worker(name);
            let (committed, ends) = (&committed, &ends);
            scope.spawn(move || {
                while !ends.load(Ordering::Acquire) {
                    let floor = committed.load(Ordering::Acquire);
                    let found = reader.read(page).unwrap().data().u64_le(0);
                    assert!(found >= floor, "{found} was replaced by {floor}");
                }
                reader.statistics().leased_hits
            })
        });
        for round in 1..300u64 {
            writer
                .change(page, |bytes| {
                    bytes[..8].copy_from_slice(&round.to_le_bytes());
                })
                .unwrap();
            committed.store(round, Ordering::Release);
            std::thread::sleep(core::time::Duration::from_micros(200));
        }
        ends.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().unwrap() > 1000);
        }
    });
}

#[test]
fn both_conform_among_faults() {
    conformance::all(&mut Racked::new(PAGES, 0.01));
    conformance::all(&mut Racked::new(0, 0.01));
}
