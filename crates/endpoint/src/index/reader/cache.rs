//! The reader's cache of inner tree nodes.
//!
//! The reader is not notified when a tree node changes. That does no harm: an inner tree node only
//! provides a pointer, and the target of the pointer shows by its epoch and its fences whether it
//! is the right one.

use core::hash::{BuildHasherDefault, Hasher};
use rackweave_wire::fabric::tree::{Image, Layout, NodePointer};
use std::collections::HashMap;

/// A hash function for the numbers of tree nodes, which are not chosen by an attacker.
#[derive(Clone, Copy, Default, Debug)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, number: u32) {
        // 2^64 divided by the golden ratio: neighbouring numbers get distant hashes.
        let product = (self.0 ^ u64::from(number)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

/// Bytes of an entry in addition to the tree node: its slot, and its share of the hash table.
const ENTRY_BYTES: usize = size_of::<Kept>() + 32;

#[derive(Debug)]
struct Kept {
    pointer: NodePointer,
    /// Used since the clock hand last passed.
    used: bool,
    bytes: Box<[u8]>,
}

/// Inner tree nodes of one tree.
#[derive(Debug)]
pub(in crate::index) struct Cache {
    layout: Layout,
    room: usize,
    places: HashMap<u32, u32, BuildHasherDefault<Spread>>,
    kept: Vec<Kept>,
    hand: usize,
}

impl Cache {
    /// A cache of at most `bytes`, including the bookkeeping of its tree nodes.
    pub fn new(layout: Layout, bytes: u64) -> Self {
        let each = (layout.bytes() + ENTRY_BYTES) as u64;
        Self {
            layout,
            room: usize::try_from(bytes / each).unwrap_or(usize::MAX),
            places: HashMap::default(),
            kept: Vec::new(),
            hand: 0,
        }
    }

    /// The tree node as it was when it was read.
    pub fn get(&mut self, pointer: NodePointer) -> Option<Image<'_>> {
        let place = *self.places.get(&pointer.index)?;
        let kept = &mut self.kept[place as usize];
        if kept.pointer != pointer {
            return None;
        }
        kept.used = true;
        Some(Image::unverified(self.layout, &kept.bytes))
    }

    /// Caches a tree node. True if another was evicted.
    pub fn keep(&mut self, pointer: NodePointer, bytes: &[u8]) -> bool {
        if self.room == 0 {
            return false;
        }
        if let Some(&place) = self.places.get(&pointer.index) {
            let kept = &mut self.kept[place as usize];
            kept.pointer = pointer;
            kept.bytes.copy_from_slice(bytes);
            return false;
        }
        if self.kept.len() < self.room {
            self.places.insert(pointer.index, self.kept.len() as u32);
            self.kept.push(Kept {
                pointer,
                used: false,
                bytes: bytes.into(),
            });
            return false;
        }
        let place = self.victim();
        let kept = &mut self.kept[place];
        self.places.remove(&kept.pointer.index);
        self.places.insert(pointer.index, place as u32);
        kept.pointer = pointer;
        kept.used = false;
        kept.bytes.copy_from_slice(bytes);
        true
    }

    /// Second chance: the first entry not used since the clock hand last passed.
    fn victim(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.kept.len();
            if !core::mem::take(&mut self.kept[at].used) {
                return at;
            }
        }
    }

    /// Removes a tree node. True if it was cached.
    pub fn forget(&mut self, pointer: NodePointer) -> bool {
        let there = |place: &&u32| self.kept[**place as usize].pointer == pointer;
        let Some(&place) = self.places.get(&pointer.index).filter(there) else {
            return false;
        };
        self.places.remove(&pointer.index);
        self.kept.swap_remove(place as usize);
        if let Some(moved) = self.kept.get(place as usize) {
            self.places.insert(moved.pointer.index, place);
        }
        if self.hand >= self.kept.len() {
            self.hand = 0;
        }
        true
    }

    /// Bytes in use.
    pub fn bytes(&self) -> u64 {
        (self.kept.len() * (self.layout.bytes() + ENTRY_BYTES)) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rng;
    use std::collections::BTreeMap;

    fn pointer(index: u32, epoch: u32) -> NodePointer {
        NodePointer { index, epoch }
    }

    #[test]
    fn it_keeps_to_its_bound_and_gives_what_was_kept() {
        let layout = Layout::new(512).unwrap();
        let bound = 10 * (512 + ENTRY_BYTES) as u64;
        let mut cache = Cache::new(layout, bound);
        let mut model: BTreeMap<u32, (NodePointer, u8)> = BTreeMap::new();
        let mut rng = Rng::new(5);
        for step in 0..20_000u32 {
            let at = pointer(rng.below(30) as u32, 1 + 2 * rng.below(2) as u32);
            match rng.below(4) {
                0 => {
                    let kept = model.get(&at.index).is_some_and(|(kept, _)| *kept == at);
                    // The model does not know what was evicted.
                    assert!(kept || !cache.forget(at));
                    if kept {
                        cache.forget(at);
                        model.remove(&at.index);
                    }
                }
                1 => {
                    cache.keep(at, &[step as u8; 512]);
                    model.insert(at.index, (at, step as u8));
                }
                _ => {
                    if let Some(image) = cache.get(at) {
                        let (kept, mark) = model[&at.index];
                        assert_eq!(kept, at);
                        assert_eq!(image.low() as u8, mark);
                    }
                }
            }
            assert!(cache.bytes() <= bound);
        }
    }

    #[test]
    fn what_is_used_stays() {
        let layout = Layout::new(512).unwrap();
        let mut cache = Cache::new(layout, 3 * (512 + ENTRY_BYTES) as u64);
        for index in 1..100 {
            let evicts = cache.keep(pointer(index, 1), &[0; 512]);
            assert_eq!(evicts, index > 3);
            assert!(cache.get(pointer(1, 1)).is_some(), "evicted by {index}");
        }
    }

    #[test]
    fn without_room_it_keeps_nothing() {
        let mut cache = Cache::new(Layout::new(512).unwrap(), 100);
        assert!(!cache.keep(pointer(1, 1), &[0; 512]));
        assert!(cache.get(pointer(1, 1)).is_none());
    }
}
