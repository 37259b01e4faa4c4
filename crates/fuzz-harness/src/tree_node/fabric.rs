//! A NIC and the memory that it reads: READs are answered at once.

use super::memory::{NODE_BYTES, SOUND, VALUE_MAX};
use rackweave_base::{Memory, Qpn, Rkey};
use rackweave_endpoint::index::{Found, Query, Reader, ReaderConfig, RemoteTree};
use rackweave_verbs::scripted::{ScriptedNic, Tables};
use rackweave_verbs::{
    CompletionOpcode, CompletionStatus, Operation, PdId, PostError, WorkRequest,
};

pub const VERSION: u64 = 7;

const TREE_ADDRESS: u64 = 0x1_0000_0000;
const TREE_KEY: Rkey = Rkey(1);
const VERSION_ADDRESS: u64 = 0x2_0000_0000;
const VERSION_KEY: Rkey = Rkey(2);
/// No walk takes this many READs: every leaf of the tree, on paths that start again as often as
/// they may.
const READS_MAX: u32 = 50_000;

/// The NIC, and the memory of the other side.
pub struct Fabric {
    pub bytes: Vec<u8>,
    /// The tree node to which the network leads.
    leads: u32,
    tables: Tables,
    version: u64,
    reads: u32,
}

impl Fabric {
    pub fn new(bytes: Vec<u8>, leads: u32) -> Self {
        Self {
            bytes,
            leads: leads % SOUND.superblock.tree_nodes,
            tables: Tables::default(),
            version: VERSION,
            reads: 0,
        }
    }

    pub fn reader(&mut self, choice: u8) -> Reader {
        let remote = RemoteTree {
            tree: SOUND.superblock.tree,
            layout: SOUND.layout,
            tree_nodes: SOUND.superblock.tree_nodes,
            root: SOUND.root,
            heap_bytes: SOUND.superblock.heap_bytes,
            value_max: VALUE_MAX,
            address: TREE_ADDRESS,
            rkey: TREE_KEY,
            version_address: VERSION_ADDRESS,
            version_rkey: VERSION_KEY,
        };
        let config = ReaderConfig {
            walks: 1,
            cache_bytes: if choice & 4 == 0 { 0 } else { 8 << 10 },
            records: 2,
            torn_max: 2,
            restarts_max: 6,
            network: choice & 8 != 0,
            ..ReaderConfig::default()
        };
        let memory = Memory::new(1 << 20);
        Reader::new(self, &memory, PdId(0), remote, config).expect("the configuration is sound")
    }

    pub fn walk(&mut self, reader: &mut Reader, query: Query) -> Found {
        self.reads = 0;
        assert!(reader.begin(self, 5, query, VERSION), "a walk is free");
        for _ in 0..READS_MAX {
            if let Some((tag, found)) = reader.poll(self) {
                assert_eq!((tag, reader.under_way()), (5, 0));
                return found;
            }
        }
        panic!("a walk without end");
    }

    /// The bytes at an address of the other side; `None` outside of its regions.
    fn remote(&self, address: u64, rkey: Rkey, len: usize) -> Option<Vec<u8>> {
        let (bytes, base) = match rkey {
            TREE_KEY => (&self.bytes[..], TREE_ADDRESS),
            VERSION_KEY => (&self.version.to_le_bytes()[..], VERSION_ADDRESS),
            // The address field holds the key.
            Rkey(0) => (&self.bytes[self.leads as usize * NODE_BYTES..], address),
            _ => return None,
        };
        let from = usize::try_from(address.checked_sub(base)?).ok()?;
        Some(bytes.get(from..from.checked_add(len)?)?.to_vec())
    }
}

impl ScriptedNic for Fabric {
    fn tables(&mut self) -> &mut Tables {
        &mut self.tables
    }

    fn on_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        let Operation::Read { address, rkey } = request.operation else {
            panic!("a reader only reads: {request:?}");
        };
        let segment = request.segments()[0];
        let bytes = self.remote(address, rkey, segment.length as usize);
        let bytes = bytes.unwrap_or_else(|| panic!("a READ beyond the region: {request:?}"));
        let (local, at) = self.tables.local(segment);
        local.write(at, &bytes);
        self.reads += 1;
        assert!(self.reads < READS_MAX, "a walk without end");
        let (opcode, status) = (CompletionOpcode::Read, CompletionStatus::Success);
        self.tables
            .complete(qpn, request.id, opcode, status, segment.length);
        Ok(())
    }
}
