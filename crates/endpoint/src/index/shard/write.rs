//! Writes of single keys.

use super::{Denied, Shard};
use crate::btree::{Tree, TreeError};

/// What a write does with a present and with an absent key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index) enum WriteKind {
    Insert,
    Update,
    Put,
    Remove,
}

/// A write of one key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::index) struct Write<'a> {
    pub kind: WriteKind,
    pub key: u64,
    /// Empty for a removal.
    pub value: &'a [u8],
}

impl Write<'_> {
    /// Executes it on a tree; returns what the tree does.
    #[inline]
    pub fn apply(&self, tree: &Tree) -> Result<bool, TreeError> {
        match self.kind {
            WriteKind::Insert => tree.insert(self.key, self.value),
            WriteKind::Update => tree.update(self.key, self.value),
            WriteKind::Put => tree.put(self.key, self.value),
            WriteKind::Remove => tree.remove(self.key),
        }
    }
}

impl Shard {
    /// Executes a write of a key that is owned, and stays owned until the write is done.
    #[inline]
    pub(in crate::index) fn write(&self, write: &Write<'_>) -> Result<bool, Denied> {
        let _stays = self.ownership.write(write.key);
        self.check_writable(write.key)?;
        if self.ownership.covered().contains(write.key) {
            return Err(Denied::Replicated);
        }
        Ok(write.apply(&self.tree)?)
    }

    /// Whether the key is owned and does not move.
    #[inline]
    pub(super) fn check_writable(&self, key: u64) -> Result<(), Denied> {
        let owned = self.ownership.read();
        if !owned.keys.contains(key) {
            return Err(self.moved());
        }
        if owned.leaving.contains(key) {
            return Err(Denied::Busy);
        }
        Ok(())
    }

    #[inline]
    fn write_as(&self, kind: WriteKind, key: u64, value: &[u8]) -> Result<bool, Denied> {
        self.write(&Write { kind, key, value })
    }

    /// Adds a key. False if it was present; then nothing changes.
    ///
    /// # Errors
    /// If the key belongs to another endpoint, is being moved or has a replica, or the tree returns
    /// an error.
    pub fn insert(&self, key: u64, value: &[u8]) -> Result<bool, Denied> {
        self.write_as(WriteKind::Insert, key, value)
    }

    /// Changes the value of a key. False if the key is absent; then nothing changes.
    ///
    /// # Errors
    /// As for [`Shard::insert`].
    pub fn update(&self, key: u64, value: &[u8]) -> Result<bool, Denied> {
        self.write_as(WriteKind::Update, key, value)
    }

    /// Sets the value of a key. True if the key was absent.
    ///
    /// # Errors
    /// As for [`Shard::insert`].
    pub fn put(&self, key: u64, value: &[u8]) -> Result<bool, Denied> {
        self.write_as(WriteKind::Put, key, value)
    }

    /// Removes a key. False if it was absent.
    ///
    /// # Errors
    /// As for [`Shard::insert`].
    pub fn remove(&self, key: u64) -> Result<bool, Denied> {
        self.write_as(WriteKind::Remove, key, &[])
    }
}
