//! Insert, update, put.

use super::error::TreeError;
use super::node::Entry;
use super::tree::Tree;
use rackweave_wire::fabric::tree::ValueRef;

/// What is to happen to a key, depending on whether it is there.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Insert,
    Update,
    Put,
}

impl Tree {
    /// Adds a key. False if it was there: then nothing changes.
    ///
    /// # Errors
    /// If the value is too long, the key out of bounds, or the tree full.
    pub fn insert(&self, key: u64, value: &[u8]) -> Result<bool, TreeError> {
        self.write(key, value, Mode::Insert).map(|found| !found)
    }

    /// Gives a key another value. False if it was absent: then nothing changes.
    ///
    /// # Errors
    /// As for [`Tree::insert`].
    pub fn update(&self, key: u64, value: &[u8]) -> Result<bool, TreeError> {
        self.write(key, value, Mode::Update)
    }

    /// Gives a key a value. True if it was absent before.
    ///
    /// # Errors
    /// As for [`Tree::insert`].
    pub fn put(&self, key: u64, value: &[u8]) -> Result<bool, TreeError> {
        self.write(key, value, Mode::Put).map(|found| !found)
    }

    /// Returns whether the key was there.
    fn write(&self, key: u64, value: &[u8], mode: Mode) -> Result<bool, TreeError> {
        let limit = self.inner.superblock.value_max;
        if value.len() > limit as usize {
            return Err(TreeError::ValueTooLarge {
                length: value.len(),
                limit,
            });
        }
        let mut record = None;
        let result = self.write_entry(key, value, mode, &mut record);
        // One that was made and not used.
        if let Some(reference) = record {
            self.inner.heap.free(&self.inner.arena, reference);
        }
        result
    }

    fn write_entry(
        &self,
        key: u64,
        value: &[u8],
        mode: Mode,
        record: &mut Option<ValueRef>,
    ) -> Result<bool, TreeError> {
        loop {
            let Some((leaf, _)) = self.descend(key, 0) else {
                self.restarted();
                continue;
            };
            let node = leaf.node;
            let count = node.count(node.meta());
            let index = node.lower_bound(count, key);
            let found = index < count && node.key(index) == key;
            let covered = node.covers(key);
            let done = match mode {
                Mode::Insert => found,
                Mode::Update => !found,
                Mode::Put => false,
            };
            if done || !covered {
                if leaf.is_still() {
                    if !covered {
                        let (low, last) = self.bounds();
                        return Err(TreeError::OutOfBounds { key, low, last });
                    }
                    return Ok(found);
                }
                self.restarted();
                continue;
            }
            if !found && count == node.capacity() {
                if !leaf.is_still() {
                    self.restarted();
                    continue;
                }
                self.split(key, 0)?;
                continue;
            }
            // The record is complete before anybody can see it.
            let entry = match value.try_into() {
                Ok(word) => Entry {
                    key,
                    value: u64::from_le_bytes(word),
                    is_reference: false,
                },
                Err(_) => {
                    let reference = match *record {
                        Some(reference) => reference,
                        None => {
                            let heap = &self.inner.heap;
                            *record.insert(heap.add(&self.inner.arena, key, value)?)
                        }
                    };
                    Entry {
                        key,
                        value: reference.to_word(),
                        is_reference: true,
                    }
                }
            };
            let Some(mut writer) = node.upgrade(leaf.latch) else {
                self.restarted();
                continue;
            };
            // What was found holds: nobody came in between.
            if found {
                let old = writer.replace(index, entry);
                writer.finish();
                *record = old.is_reference.then(|| ValueRef::from_word(old.value));
            } else {
                writer.insert(index, entry);
                writer.finish();
                *record = None;
            }
            return Ok(found);
        }
    }
}
