//! What a page holds: its number, how often it was changed, a count, and seals in every sector that
//! show whether all its parts are of one time.
//!
//! ```text
//! page (8) | version (8) | count (8) | ... | seal (8), at the end of a sector
//! seal (8), at the beginning of the next | ... | seal (8)
//! ```

use rackweave_base::Block;
use std::collections::HashMap;

/// Bytes of a sector: the least that a drive writes at once.
pub const SECTOR: usize = 4096;

/// What a page says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp {
    /// Its number.
    pub page: u64,
    /// How often it was changed.
    pub version: u64,
    /// What is counted in it.
    pub count: u64,
}

impl Stamp {
    /// A page that nobody has changed yet.
    pub fn fresh(page: u64) -> Self {
        Self {
            page,
            version: 0,
            count: 0,
        }
    }

    /// The same page after one more change, which counts.
    #[must_use]
    pub fn raised(self) -> Self {
        Self {
            version: self.version + 1,
            count: self.count + 1,
            ..self
        }
    }

    fn seal(&self, at: usize) -> u64 {
        let mixed = (self.page ^ self.version.rotate_left(24) ^ self.count.rotate_left(48))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed ^ (mixed >> 29)).wrapping_add(at as u64)
    }

    /// Writes the page at `offset`: its stamp and its seals. What is between them stays as it is.
    ///
    /// # Panics
    /// If the page is not in the block, or no multiple of a sector.
    pub fn write(&self, block: &Block, offset: usize, bytes: usize) {
        let store = |at: usize, value: u64| {
            let word = block.word(offset + at);
            word.store(value, core::sync::atomic::Ordering::Release);
        };
        store(0, self.page);
        store(8, self.version);
        store(16, self.count);
        seals(bytes).for_each(|at| store(at, self.seal(at)));
    }

    /// Reads the page at `offset`; nothing if its parts do not fit together.
    ///
    /// # Panics
    /// As [`Stamp::write`].
    pub fn read(block: &Block, offset: usize, bytes: usize) -> Option<Self> {
        let load = |at: usize| {
            let word = block.word(offset + at);
            word.load(core::sync::atomic::Ordering::Acquire)
        };
        let stamp = Self {
            page: load(0),
            version: load(8),
            count: load(16),
        };
        seals(bytes)
            .all(|at| load(at) == stamp.seal(at))
            .then_some(stamp)
    }
}

/// Where seals are: the last word of every sector and the first of every sector but the first.
fn seals(bytes: usize) -> impl Iterator<Item = usize> {
    let sectors = 0..bytes / SECTOR;
    sectors.flat_map(|sector| {
        let start = sector * SECTOR;
        let first = (sector > 0).then_some(start);
        first.into_iter().chain([start + SECTOR - 8])
    })
}

/// What is stored. A page that was never written is what it was made as, and takes no memory.
#[derive(Default, Debug)]
pub struct Disk {
    written: HashMap<u64, Stamp>,
}

impl Disk {
    /// Puts a page into memory.
    pub fn load(&self, page: u64, block: &Block, offset: usize, bytes: usize) {
        self.stamp(page).write(block, offset, bytes);
    }

    /// Takes a page from memory; false if it is damaged or another one.
    #[must_use]
    pub fn store(&mut self, page: u64, block: &Block, offset: usize, bytes: usize) -> bool {
        match Stamp::read(block, offset, bytes) {
            Some(stamp) if stamp.page == page => {
                self.written.insert(page, stamp);
                true
            }
            _ => false,
        }
    }

    /// What a page says.
    pub fn stamp(&self, page: u64) -> Stamp {
        let written = self.written.get(&page).copied();
        written.unwrap_or(Stamp::fresh(page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Memory;

    #[test]
    fn a_page_of_two_times_is_noticed() {
        let memory = Memory::new(1 << 20);
        let block = memory.allocate(5 * SECTOR).unwrap();
        let bytes = 2 * SECTOR;
        let old = Stamp::fresh(9);
        old.write(&block, 64, bytes);
        assert_eq!(Stamp::read(&block, 64, bytes), Some(old));
        let new = old.raised();
        assert_eq!((new.version, new.count), (1, 1));
        new.write(&block, 64, bytes);
        assert_eq!(Stamp::read(&block, 64, bytes), Some(new));
        // The second sector is of an earlier time.
        let mut sector = vec![0; SECTOR];
        old.write(&block, 64 + bytes, bytes);
        block.read(64 + bytes + SECTOR, &mut sector);
        block.write(64 + SECTOR, &sector);
        assert_eq!(Stamp::read(&block, 64, bytes), None);
    }

    #[test]
    fn a_disk_keeps_what_was_stored_and_takes_nothing_else() {
        let memory = Memory::new(1 << 20);
        let block = memory.allocate(SECTOR).unwrap();
        let mut disk = Disk::default();
        disk.load(5, &block, 0, SECTOR);
        assert_eq!(Stamp::read(&block, 0, SECTOR), Some(Stamp::fresh(5)));
        Stamp::fresh(5).raised().write(&block, 0, SECTOR);
        assert!(!disk.store(6, &block, 0, SECTOR), "it is another page");
        assert!(disk.store(5, &block, 0, SECTOR));
        assert_eq!(disk.stamp(5).count, 1);
        block
            .word(16)
            .store(7, core::sync::atomic::Ordering::Relaxed);
        assert!(!disk.store(5, &block, 0, SECTOR), "it is damaged");
    }
}
