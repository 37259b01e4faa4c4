//! Looking up keys without latches: a lookup that a change has overtaken starts again.

use super::Tree;
use rackweave_wire::fabric::tree::ValueRef;

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
                let node = leaf.node;
                let count = node.count(node.meta());
                let index = node.lower_bound(count, key);
                let found = (index < count && node.key(index) == key).then(|| {
                    let value = node.value(index);
                    if node.is_reference(index) {
                        Found::Reference(ValueRef::from_word(value))
                    } else {
                        Found::Inline(value)
                    }
                });
                let result = take(found);
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
        self.find(key, |found| match found {
            Some(Found::Inline(word)) => Some(word),
            _ => None,
        })
    }

    /// Whether a key is present.
    pub fn contains(&self, key: u64) -> bool {
        self.find(key, |found| found.is_some())
    }
}
