//! Registered regions: checks access to their bytes.
//!
//! Keys are random 32-bit numbers, found by open addressing; the key is its own hash. An access is
//! one probe, one range check and one permission check. It is checked for every packet, so a
//! deregistered region becomes inaccessible at once.

use rackweave_base::{Block, BlockRef, KeyRng, Lkey, Rkey};
use rackweave_verbs::{Access, PdId, Region};

/// The address of the first region.
const ADDRESS_FIRST: u64 = 0x1_0000_0000;
/// Regions begin at multiples of this and are at least this many bytes apart.
const ADDRESS_ALIGNMENT: u64 = 4096;
const EMPTY: u32 = u32::MAX;

/// Why an access is refused. The peer learns only that it is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AccessError {
    /// No region has this key.
    Key,
    /// The region belongs to another protection domain.
    Domain,
    /// The region does not allow the access.
    Permission,
    /// Not all bytes are in the region.
    Bounds,
}

struct Entry {
    block: Block,
    address: u64,
    pd: PdId,
    access: Access,
    lkey: u32,
    rkey: u32,
}

/// Maps a key to the index in the table of entries.
struct KeyIndex {
    slots: Vec<(u32, u32)>,
    mask: usize,
}

pub(crate) struct RegionTable {
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_lkey: KeyIndex,
    by_rkey: KeyIndex,
    next_address: u64,
}

impl KeyIndex {
    fn new(count_max: u32) -> Self {
        let len = slots_for(count_max);
        Self {
            slots: vec![(0, EMPTY); len],
            mask: len - 1,
        }
    }

    #[inline]
    fn get(&self, key: u32) -> Option<u32> {
        let mut at = key as usize & self.mask;
        loop {
            let (found, entry) = self.slots[at];
            if entry == EMPTY {
                return None;
            }
            if found == key {
                return Some(entry);
            }
            at = (at + 1) & self.mask;
        }
    }

    fn insert(&mut self, key: u32, entry: u32) {
        let mut at = key as usize & self.mask;
        while self.slots[at].1 != EMPTY {
            at = (at + 1) & self.mask;
        }
        self.slots[at] = (key, entry);
    }

    fn remove(&mut self, key: u32) {
        let mut hole = key as usize & self.mask;
        while self.slots[hole].0 != key || self.slots[hole].1 == EMPTY {
            assert_ne!(
                self.slots[hole].1, EMPTY,
                "only keys that are there are removed"
            );
            hole = (hole + 1) & self.mask;
        }
        // Fill the hole with any later key of the run that may be stored there.
        let mut at = hole;
        loop {
            at = (at + 1) & self.mask;
            let (key, entry) = self.slots[at];
            if entry == EMPTY {
                break;
            }
            let from_home = at.wrapping_sub(key as usize) & self.mask;
            let from_hole = at.wrapping_sub(hole) & self.mask;
            if from_home >= from_hole {
                self.slots[hole] = (key, entry);
                hole = at;
            }
        }
        self.slots[hole] = (0, EMPTY);
    }
}

fn slots_for(count_max: u32) -> usize {
    (count_max as usize * 2).next_power_of_two()
}

/// Bytes of the table for `count_max` regions.
pub(crate) fn bytes(count_max: u32) -> usize {
    let index = 2 * slots_for(count_max) * size_of::<(u32, u32)>();
    index + count_max as usize * (size_of::<Option<Entry>>() + size_of::<u32>())
}

impl RegionTable {
    pub(crate) fn new(count_max: u32) -> Self {
        Self {
            entries: (0..count_max).map(|_| None).collect(),
            free: (0..count_max).rev().collect(),
            by_lkey: KeyIndex::new(count_max),
            by_rkey: KeyIndex::new(count_max),
            next_address: ADDRESS_FIRST,
        }
    }

    /// Registers a block under new random keys, or returns `None` if the table is full.
    pub(crate) fn register(
        &mut self,
        pd: PdId,
        block: Block,
        access: Access,
        keys: &mut KeyRng,
    ) -> Option<Region> {
        let at = self.free.pop()?;
        let lkey = Self::fresh_key(&self.by_lkey, keys);
        let rkey = Self::fresh_key(&self.by_rkey, keys);
        let (address, len) = (self.next_address, block.len() as u64);
        self.next_address += len.next_multiple_of(ADDRESS_ALIGNMENT) + ADDRESS_ALIGNMENT;
        self.by_lkey.insert(lkey, at);
        self.by_rkey.insert(rkey, at);
        let region = Region {
            block: block.clone(),
            address,
            lkey: Lkey(lkey),
            rkey: Rkey(rkey),
            pd,
        };
        self.entries[at as usize] = Some(Entry {
            block,
            address,
            pd,
            access,
            lkey,
            rkey,
        });
        Some(region)
    }

    /// A random key that is not in use. It is never zero, so a key left uninitialised is invalid.
    fn fresh_key(index: &KeyIndex, keys: &mut KeyRng) -> u32 {
        loop {
            let key = keys.next_u32();
            if key != 0 && index.get(key).is_none() {
                return key;
            }
        }
    }

    /// Removes a region. Returns false if no region has both keys.
    pub(crate) fn deregister(&mut self, lkey: Lkey, rkey: Rkey) -> bool {
        match (self.by_lkey.get(lkey.0), self.by_rkey.get(rkey.0)) {
            (Some(at), Some(same)) if at == same => {
                self.by_lkey.remove(lkey.0);
                self.by_rkey.remove(rkey.0);
                let entry = self.entries[at as usize]
                    .take()
                    .expect("indexed entries exist");
                assert!(entry.lkey == lkey.0 && entry.rkey == rkey.0);
                self.free.push(at);
                true
            }
            _ => false,
        }
    }

    /// The bytes that a peer addresses, if the peer has `access` to them.
    #[inline]
    pub(crate) fn remote(
        &self,
        pd: PdId,
        rkey: Rkey,
        address: u64,
        len: u32,
        access: Access,
    ) -> Result<BlockRef, AccessError> {
        let at = self.by_rkey.get(rkey.0).ok_or(AccessError::Key)?;
        self.resolve(at, pd, address, len, access)
    }

    /// The bytes that a local segment addresses, if its owner has `access` to them.
    #[inline]
    pub(crate) fn local(
        &self,
        pd: PdId,
        lkey: Lkey,
        address: u64,
        len: u32,
        access: Access,
    ) -> Result<BlockRef, AccessError> {
        let at = self.by_lkey.get(lkey.0).ok_or(AccessError::Key)?;
        self.resolve(at, pd, address, len, access)
    }

    #[inline]
    fn resolve(
        &self,
        at: u32,
        pd: PdId,
        address: u64,
        len: u32,
        access: Access,
    ) -> Result<BlockRef, AccessError> {
        let entry = self.entries[at as usize]
            .as_ref()
            .expect("indexed entries exist");
        if entry.pd != pd {
            return Err(AccessError::Domain);
        }
        if !entry.access.contains(access) {
            return Err(AccessError::Permission);
        }
        let offset = address
            .checked_sub(entry.address)
            .ok_or(AccessError::Bounds)?;
        entry
            .block
            .reference(offset, len)
            .ok_or(AccessError::Bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::{Memory, Rng};
    use std::collections::BTreeMap;

    #[test]
    fn the_index_agrees_with_a_map() {
        let mut rng = Rng::new(3);
        let mut index = KeyIndex::new(32);
        let mut model = BTreeMap::new();
        for step in 0..20_000u32 {
            // Few distinct low bits, so that runs are long and wrap.
            let key = (rng.below(64) as u32) << 26 | 62 | rng.below(2) as u32;
            if model.contains_key(&key) {
                index.remove(key);
                model.remove(&key);
            } else if model.len() < 32 {
                index.insert(key, step);
                model.insert(key, step);
            }
            for high in 0..64u32 {
                for low in 62..64 {
                    let key = high << 26 | low;
                    assert_eq!(index.get(key), model.get(&key).copied());
                }
            }
        }
    }

    #[test]
    fn every_access_is_checked() {
        let memory = Memory::new(1 << 20);
        let mut keys = KeyRng::seeded(Rng::new(1));
        let mut table = RegionTable::new(2);
        let pd = PdId(0);
        let access = Access::LOCAL_WRITE | Access::REMOTE_READ;
        let block = memory.allocate(5000).unwrap();
        let region = table.register(pd, block, access, &mut keys).unwrap();
        assert_eq!(region.address, ADDRESS_FIRST);
        let other = table
            .register(pd, memory.allocate(1).unwrap(), access, &mut keys)
            .unwrap();
        assert_eq!(other.address, ADDRESS_FIRST + 8192 + 4096);
        assert!(
            table
                .register(pd, memory.allocate(1).unwrap(), access, &mut keys)
                .is_none()
        );
        let read = |rkey, address, len| table.remote(pd, rkey, address, len, Access::REMOTE_READ);
        let base = region.address;
        assert!(read(region.rkey, base + 4990, 10).is_ok());
        assert_eq!(read(region.rkey, base + 4990, 11), Err(AccessError::Bounds));
        assert_eq!(read(region.rkey, base - 1, 1), Err(AccessError::Bounds));
        assert_eq!(read(region.rkey, u64::MAX, 2), Err(AccessError::Bounds));
        assert_eq!(
            read(Rkey(region.rkey.0 ^ 1), base, 1),
            Err(AccessError::Key)
        );
        let write = table.remote(pd, region.rkey, base, 1, Access::REMOTE_WRITE);
        assert_eq!(write, Err(AccessError::Permission));
        let stranger = table.remote(PdId(1), region.rkey, base, 1, Access::REMOTE_READ);
        assert_eq!(stranger, Err(AccessError::Domain));
        assert!(
            !table.deregister(region.lkey, other.rkey),
            "keys of two regions"
        );
        assert!(table.deregister(region.lkey, region.rkey));
        let gone = table.remote(pd, region.rkey, base, 1, Access::REMOTE_READ);
        assert_eq!(gone, Err(AccessError::Key));
    }
}
