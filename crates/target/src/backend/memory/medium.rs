//! The blocks that clones of a memory backend share, and the cache in front of them.

use rackweave_base::Rng;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes that a drive writes atomically under power failure.
pub(super) const SECTOR: usize = 512;

/// Maximum versions of a block in the cache; older ones are written out, as by a full cache.
const VERSIONS_MAX: usize = 8;

/// A block's content; `None` means zeroes and takes no memory.
type Content = Option<Box<[u8]>>;

/// Blocks, and the faults planned for them.
#[derive(Default, Debug)]
pub(super) struct Medium {
    block_size: usize,
    /// Content that survives a power cut.
    durable: BTreeMap<u64, Box<[u8]>>,
    /// Content that does not, if there is a volatile cache.
    cache: Option<Cache>,
    pub(super) broken: BTreeSet<u64>,
    /// How many more blocks may be written for the first time.
    pub(super) blocks_free: Option<u64>,
    pub(super) flushes: u64,
    /// Number of power cuts.
    pub(super) power_cuts: u64,
}

/// Written blocks that were not flushed.
#[derive(Default, Debug)]
struct Cache {
    /// By block: versions with the number of the write that made them, ascending.
    blocks: BTreeMap<u64, Vec<(u64, Content)>>,
    /// Writes completed.
    writes: u64,
}

impl Medium {
    pub(super) fn new(block_size: u32) -> Self {
        Self {
            block_size: block_size as usize,
            ..Self::default()
        }
    }

    pub(super) fn is_volatile(&self) -> bool {
        self.cache.is_some()
    }

    pub(super) fn set_volatile(&mut self) {
        self.cache.get_or_insert_default();
    }

    /// Writes completed: a flush that begins now makes these durable.
    pub(super) fn writes(&self) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.writes)
    }

    /// A block's content, as reads see it.
    pub(super) fn get(&self, block: u64) -> Option<&[u8]> {
        let versions = self.cache.as_ref().and_then(|it| it.blocks.get(&block));
        match versions.and_then(|versions| versions.last()) {
            Some((_, content)) => content.as_deref(),
            None => self.durable.get(&block).map(|bytes| &bytes[..]),
        }
    }

    /// Begins a write; blocks put after this belong to it.
    pub(super) fn begin(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.writes += 1;
        }
    }

    /// Writes a whole block with `fill`.
    pub(super) fn write(&mut self, block: u64, fill: impl FnOnce(&mut [u8])) {
        let size = self.block_size;
        let zeroes = || vec![0; size].into_boxed_slice();
        if self.cache.is_none() {
            return fill(self.durable.entry(block).or_insert_with(zeroes));
        }
        let mut bytes = zeroes();
        fill(&mut bytes);
        self.put(block, Some(bytes));
    }

    /// Makes a block read as zeroes.
    pub(super) fn clear(&mut self, block: u64) {
        self.put(block, None);
    }

    fn put(&mut self, block: u64, content: Content) {
        let Some(cache) = &mut self.cache else {
            set(&mut self.durable, block, content);
            return;
        };
        let versions = cache.blocks.entry(block).or_default();
        versions.push((cache.writes, content));
        if versions.len() > VERSIONS_MAX {
            let (_, oldest) = versions.remove(0);
            set(&mut self.durable, block, oldest);
        }
    }

    /// Makes the first `writes` writes durable.
    pub(super) fn flush(&mut self, writes: u64) {
        self.flushes += 1;
        let Some(cache) = &mut self.cache else {
            return;
        };
        let durable = &mut self.durable;
        cache.blocks.retain(|block, versions| {
            let covered = versions.partition_point(|(write, _)| *write <= writes);
            if let Some((_, content)) = versions.drain(..covered).next_back() {
                set(durable, *block, content);
            }
            !versions.is_empty()
        });
    }

    /// Empties the cache. Each sector of its blocks keeps its durable content or any of its
    /// versions.
    pub(super) fn cut_power(&mut self, rng: &mut Rng) {
        self.power_cuts += 1;
        let Some(cache) = &mut self.cache else {
            return;
        };
        for (block, versions) in core::mem::take(&mut cache.blocks) {
            let old = self.durable.get(&block).cloned();
            let mut bytes = bytes(&old, self.block_size);
            for (number, sector) in bytes.chunks_mut(SECTOR).enumerate() {
                let survivor = rng.below(versions.len() as u64 + 1) as usize;
                let Some((_, content)) = survivor.checked_sub(1).map(|at| &versions[at]) else {
                    continue;
                };
                match content {
                    Some(content) => {
                        let at = number * SECTOR;
                        sector.copy_from_slice(&content[at..at + sector.len()]);
                    }
                    None => sector.fill(0),
                }
            }
            self.durable.insert(block, bytes);
        }
    }

    /// Replaces a block outside any request, in cache and medium.
    pub(super) fn damage(&mut self, block: u64, content: Content) {
        if let Some(cache) = &mut self.cache {
            cache.blocks.remove(&block);
        }
        set(&mut self.durable, block, content);
    }
}

fn set(blocks: &mut BTreeMap<u64, Box<[u8]>>, block: u64, content: Content) {
    match content {
        Some(bytes) => blocks.insert(block, bytes),
        None => blocks.remove(&block),
    };
}

fn bytes(content: &Content, block_size: usize) -> Box<[u8]> {
    let zeroes = || vec![0; block_size].into_boxed_slice();
    content.clone().unwrap_or_else(zeroes)
}
