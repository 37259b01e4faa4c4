//! Looking up keys without latches: a lookup that a change has overtaken starts again.

use super::super::node::Node;
use super::Tree;
use core::hint::black_box;
use rackweave_wire::fabric::tree::ValueRef;

/// Lookups that descend at once: enough to have as many loads in flight as processors allow, about
/// a dozen per core.
const GROUP: usize = 16;

/// A value as stored in a leaf.
pub(in crate::btree) enum Found {
    Inline(u64),
    Reference(ValueRef),
}

impl Tree {
    /// Looks up a key. `take` gets what the leaf holds for it; its result counts if the leaf has
    /// not changed meanwhile.
    #[inline]
    fn find<R>(&self, key: u64, mut take: impl FnMut(Option<Found>) -> R) -> R {
        loop {
            if let Some((leaf, _)) = self.descend(key, 0) {
                let count = leaf.node.count(leaf.node.meta());
                let index = leaf.node.lower_bound(count, key);
                let result = take(found_at(leaf.node, index, count, key));
                if leaf.is_still() {
                    return result;
                }
            }
            self.restarted();
        }
    }

    /// Puts the value of a key into `value`. False if the key is absent; then `value` is empty.
    pub fn lookup(&self, key: u64, value: &mut Vec<u8>) -> bool {
        self.find(key, |found| {
            value.clear();
            match found {
                None => return false,
                Some(Found::Inline(word)) => value.extend(word.to_le_bytes()),
                Some(Found::Reference(reference)) => {
                    self.inner.heap.read(&self.inner.arena, reference, value);
                }
            }
            true
        })
    }

    /// The value of a key, as a little-endian number; `None` if the key is absent or its value is
    /// not eight bytes long.
    #[inline]
    pub fn lookup_word(&self, key: u64) -> Option<u64> {
        self.find(key, word_of)
    }

    /// Looks up several keys: as [`Self::lookup_word`] for each, in less time than one after the
    /// other, because the waits for memory overlap. Each result is from another moment.
    ///
    /// # Panics
    /// If there are not as many values as keys.
    pub fn lookup_words(&self, keys: &[u64], values: &mut [Option<u64>]) {
        assert_eq!(keys.len(), values.len(), "a value for each key");
        for (keys, values) in keys.chunks(GROUP).zip(values.chunks_mut(GROUP)) {
            self.lookup_group(keys, values);
        }
    }

    /// Descends for all keys of a group at once. Each loop over the group is short, and none of its
    /// loads depends on one for another key, so a processor has those for many keys in flight.
    fn lookup_group(&self, keys: &[u64], values: &mut [Option<u64>]) {
        let mut places = [self.root(); GROUP];
        let places = &mut places[..keys.len()];
        let mut indices = [0; GROUP];
        loop {
            for ((place, block), &key) in places.iter().zip(&mut indices).zip(keys) {
                *block = place
                    .node
                    .child_block(place.node.count(place.node.meta()), key);
            }
            let touched = places.iter().zip(&indices);
            black_box(touched.fold(0, |all, (place, &block)| all ^ place.node.touch(block)));
            for ((place, index), &key) in places.iter().zip(&mut indices).zip(keys) {
                let count = place.node.count(place.node.meta());
                *index = place.node.child_in(*index, count, key);
            }
            // A tree node that a writer is changing may say anything; its latch tells.
            if places.iter().all(|place| place.node.meta().level == 0) {
                break;
            }
            for (place, &index) in places.iter_mut().zip(&indices) {
                if place.node.meta().level > 0 {
                    *place = self.child(place, index).unwrap_or_else(|| {
                        self.restarted();
                        self.root()
                    });
                }
            }
        }
        // In a leaf, what would be the child of a key is the entry of the key, if it has one.
        for (((leaf, index), &key), value) in places.iter().zip(indices).zip(keys).zip(values) {
            let count = leaf.node.count(leaf.node.meta());
            *value = word_of(found_at(leaf.node, index, count, key));
            if !leaf.is_still() {
                *value = self.lookup_word(key);
            }
        }
    }

    /// Whether a key is present.
    pub fn contains(&self, key: u64) -> bool {
        self.find(key, |found| found.is_some())
    }
}

/// What a leaf of `count` entries holds for a key, which is at `index` or absent.
#[inline]
pub(in crate::btree) fn found_at(
    leaf: Node<'_>,
    index: usize,
    count: usize,
    key: u64,
) -> Option<Found> {
    (index < count && leaf.key(index) == key).then(|| {
        let value = leaf.value(index);
        if leaf.is_reference(index) {
            Found::Reference(ValueRef::from_word(value))
        } else {
            Found::Inline(value)
        }
    })
}

/// A value of eight bytes.
#[inline]
fn word_of(found: Option<Found>) -> Option<u64> {
    match found {
        Some(Found::Inline(word)) => Some(word),
        _ => None,
    }
}
