//! Allocation of tree nodes.

use super::sync::{AtomicU32, Mutex, Ordering};
use rackweave_wire::fabric::tree::ROOT;

pub(super) struct Allocator {
    capacity: u32,
    /// Tree nodes from this index on have never been used.
    unused: AtomicU32,
    free: Mutex<Vec<u32>>,
}

impl Allocator {
    /// An allocator for `capacity` tree nodes, of which superblock and root are in use.
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            unused: AtomicU32::new(ROOT + 1),
            free: Mutex::new(Vec::new()),
        }
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    pub fn take(&self) -> Option<u32> {
        let mut free = self.free.lock().expect("no holder of this lock panics");
        if let Some(index) = free.pop() {
            return Some(index);
        }
        // Incremented under the lock, so that it never passes the end.
        let index = self.unused.load(Ordering::Relaxed);
        (index < self.capacity).then(|| {
            self.unused.store(index + 1, Ordering::Relaxed);
            index
        })
    }

    pub fn give(&self, index: u32) {
        let mut free = self.free.lock().expect("no holder of this lock panics");
        free.push(index);
    }

    /// Sets which tree nodes are in use, for a tree that was opened.
    pub fn adopt(&self, used: &[bool]) {
        let end = used.iter().rposition(|&used| used).map_or(0, |at| at + 1);
        self.unused.store(end as u32, Ordering::Relaxed);
        let mut free = self.free.lock().expect("no holder of this lock panics");
        let unused = used[..end].iter().enumerate().filter(|(_, used)| !**used);
        *free = unused.map(|(index, _)| index as u32).collect();
    }

    /// Number of tree nodes in use, including the superblock.
    pub fn used(&self) -> u32 {
        let free = self.free.lock().expect("no holder of this lock panics");
        self.unused.load(Ordering::Relaxed) - free.len() as u32
    }
}
