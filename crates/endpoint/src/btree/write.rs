//! Insert, update, put.

use super::error::TreeError;
use super::node::Entry;
use super::tree::{Attempt, Tree};
use core::ops::ControlFlow::{Break, Continue};
use rackweave_wire::fabric::tree::ValueRef;

/// What a write does with a present and with an absent key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Insert,
    Update,
    Put,
}

impl Tree {
    /// Adds a key. False if it was present: then nothing changes.
    ///
    /// # Errors
    /// If the value is too long, the key is out of bounds, or the tree is full.
    pub fn insert(&self, key: u64, value: &[u8]) -> Result<bool, TreeError> {
        self.write(key, value, Mode::Insert).map(|found| !found)
    }

    /// Changes the value of a key. False if the key was absent: then nothing changes.
    ///
    /// # Errors
    /// As for [`Tree::insert`].
    pub fn update(&self, key: u64, value: &[u8]) -> Result<bool, TreeError> {
        self.write(key, value, Mode::Update)
    }

    /// Sets the value of a key. True if the key was absent before.
    ///
    /// # Errors
    /// As for [`Tree::insert`].
    pub fn put(&self, key: u64, value: &[u8]) -> Result<bool, TreeError> {
        self.write(key, value, Mode::Put).map(|found| !found)
    }

    /// Returns whether the key was present.
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
        // A record that was made and not used.
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
        self.insist(|| self.try_write(key, value, mode, record))
    }

    fn try_write(
        &self,
        key: u64,
        value: &[u8],
        mode: Mode,
        record: &mut Option<ValueRef>,
    ) -> Attempt<Result<bool, TreeError>> {
        let (leaf, _) = self.descend(key, 0)?;
        let node = leaf.node;
        let count = node.count(node.meta());
        let index = node.lower_bound(count, key);
        let found = index < count && node.key(index) == key;
        let done = match mode {
            Mode::Insert => found,
            Mode::Update => !found,
            Mode::Put => false,
        };
        if done || !node.covers(key) {
            return self.unchanged(&leaf, key, found).map(Break);
        }
        if !found && count == node.capacity() {
            return leaf.is_still().then(|| match self.split(key, 0) {
                Ok(()) => Continue(()),
                Err(error) => Break(Err(error)),
            });
        }
        let entry = match self.entry(key, value, record) {
            Ok(entry) => entry,
            Err(error) => return Some(Break(Err(error))),
        };
        let mut writer = node.upgrade(leaf.latch)?;
        // The result of the search is valid: no writer interfered.
        if found {
            let old = writer.replace(index, entry);
            writer.finish();
            *record = old.is_reference.then(|| ValueRef::from_word(old.value));
        } else {
            writer.insert(index, entry);
            writer.finish();
            *record = None;
        }
        Some(Break(Ok(found)))
    }

    /// The new entry of a leaf. Its record is complete before any reader can see it.
    fn entry(
        &self,
        key: u64,
        value: &[u8],
        record: &mut Option<ValueRef>,
    ) -> Result<Entry, TreeError> {
        let Ok(word) = value.try_into() else {
            let heap = &self.inner.heap;
            let reference = match *record {
                Some(reference) => reference,
                None => *record.insert(heap.add(&self.inner.arena, key, value)?),
            };
            return Ok(Entry {
                key,
                value: reference.to_word(),
                is_reference: true,
            });
        };
        Ok(Entry {
            key,
            value: u64::from_le_bytes(word),
            is_reference: false,
        })
    }
}
