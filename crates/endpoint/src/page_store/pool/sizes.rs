//! The page sizes of a pool: each has its own buffer frames, so that no page waits until several
//! adjacent frames are free.

use super::{PoolConfig, PoolError, lock};
use rackweave_wire::fabric::page::is_page_size;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Fewest buffer frames of a size.
const FRAMES_MIN: u32 = 4;

/// The buffer frames for pages of one size.
#[derive(Debug)]
pub(in super::super) struct SizeClass {
    pub page_size: u32,
    /// The first frame.
    first: u32,
    /// The distance between frames: how many of the smallest size such a page takes.
    step: u32,
    pub count: u32,
    /// Pages are evicted when fewer frames than this are free.
    pub low_water: usize,
    /// Number of frames that are freed together.
    pub evict_batch: usize,
    free: Mutex<Vec<u32>>,
    free_count: AtomicUsize,
    /// Frames in quarantine.
    pub isolated: AtomicUsize,
    /// Pages that are being written home before they are dropped.
    pub evicting: AtomicUsize,
    hand: AtomicU32,
}

/// The sizes of a pool, the largest first.
#[derive(Debug)]
pub(in super::super) struct Sizes {
    classes: Box<[SizeClass]>,
    /// By store: its class.
    by_store: Box<[u8]>,
}

impl SizeClass {
    fn new(config: &PoolConfig, page_size: u32, first: u32, count: u32) -> Self {
        let step = page_size / config.frame_size;
        // The settings are for all frames of the pool; a part of them has an eighth of its own.
        let part = |whole: u32| match count == config.frames {
            true => whole,
            false => whole.min(count / 8).max(1),
        };
        let low_water = part(config.low_water);
        Self {
            page_size,
            first,
            step,
            count,
            low_water: low_water as usize,
            evict_batch: part(config.evict_batch) as usize,
            free: Mutex::new((0..count).rev().map(|at| first + at * step).collect()),
            free_count: AtomicUsize::new(count as usize),
            isolated: AtomicUsize::new(0),
            evicting: AtomicUsize::new(0),
            hand: AtomicU32::new(0),
        }
    }

    /// Buffer frames that hold no page and are available immediately.
    pub fn free(&self) -> usize {
        self.free_count.load(Ordering::Relaxed)
    }

    /// Whether more frames should be free.
    pub fn is_short(&self) -> bool {
        self.free() < self.low_water
    }

    /// Takes a free buffer frame.
    pub fn take(&self) -> Option<u32> {
        if self.free() == 0 {
            return None;
        }
        let frame = lock(&self.free).pop()?;
        self.free_count.fetch_sub(1, Ordering::Relaxed);
        Some(frame)
    }

    /// Adds a free buffer frame.
    pub fn put(&self, frame: u32) {
        lock(&self.free).push(frame);
        self.free_count.fetch_add(1, Ordering::Relaxed);
    }

    /// The next buffer frame of the clock.
    pub fn tick(&self) -> u32 {
        let at = self.hand.fetch_add(1, Ordering::Relaxed) % self.count;
        self.first + at * self.step
    }

    fn end(&self) -> u32 {
        self.first + self.count * self.step
    }
}

impl Sizes {
    /// Divides the buffer frames among the page sizes of these stores, in proportion to the number
    /// of stores; other stores have the smallest pages.
    pub fn new(config: &PoolConfig, stores: &[u32]) -> Result<Self, PoolError> {
        let mut sizes = match stores {
            [] => vec![config.frame_size],
            _ => stores.to_vec(),
        };
        let of_stores = sizes.len() as u64;
        let uses = |size: u32| stores.iter().filter(|&&other| other == size).count() as u64;
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes.dedup();
        let (mut classes, mut first) = (Vec::new(), 0);
        for &page_size in &sizes {
            if !is_page_size(page_size) || page_size < config.frame_size {
                return Err(PoolError::PageSize(page_size));
            }
            let left = config.frames - first;
            let frames = match page_size == sizes[sizes.len() - 1] {
                true => left,
                false => (u64::from(config.frames) * uses(page_size) / of_stores) as u32,
            };
            let count = frames / (page_size / config.frame_size);
            if count < FRAMES_MIN {
                return Err(PoolError::Frames {
                    frames: count,
                    page_size,
                });
            }
            let class = SizeClass::new(config, page_size, first, count);
            first = class.end();
            classes.push(class);
        }
        let class_of = |store: usize| {
            let size = stores.get(store);
            let at = size.and_then(|size| sizes.iter().position(|other| other == size));
            at.unwrap_or(sizes.len() - 1) as u8
        };
        Ok(Self {
            by_store: (0..=usize::from(u8::MAX)).map(class_of).collect(),
            classes: classes.into_boxed_slice(),
        })
    }

    /// All sizes.
    pub fn iter(&self) -> core::slice::Iter<'_, SizeClass> {
        self.classes.iter()
    }

    /// The size of a store's pages.
    #[inline]
    pub fn of_store(&self, store: u8) -> &SizeClass {
        &self.classes[usize::from(self.by_store[usize::from(store)])]
    }

    /// The size of a buffer frame.
    pub fn at(&self, frame: u32) -> &SizeClass {
        let found = self.classes.iter().find(|class| frame < class.end());
        found.unwrap_or(&self.classes[self.classes.len() - 1])
    }

    /// Bytes of a buffer frame: frames within a larger one have none of their own, and get the
    /// smallest size.
    pub fn frame_size(&self, frame: u32, smallest: u32) -> usize {
        let class = self.at(frame);
        let is_first = frame >= class.first && (frame - class.first).is_multiple_of(class.step);
        let is_whole = is_first && frame < class.end();
        (if is_whole { class.page_size } else { smallest }) as usize
    }

    /// The sum of a number of all sizes.
    pub fn sum(&self, of: impl Fn(&SizeClass) -> usize) -> usize {
        self.classes.iter().map(of).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(frames: u32, stores: &[u32]) -> Result<Sizes, PoolError> {
        Sizes::new(&PoolConfig::new(0, 4096, frames), stores)
    }

    #[test]
    fn pages_of_one_size_have_all_frames() {
        for stores in [&[][..], &[4096], &[4096, 4096]] {
            let sizes = sizes(64, stores).unwrap();
            let [class] = &*sizes.classes else {
                panic!("{sizes:?}")
            };
            assert_eq!(
                (class.count, class.low_water, class.evict_batch),
                (64, 8, 4)
            );
            assert_eq!(class.take(), Some(0));
            assert_eq!((class.tick(), class.tick()), (0, 1));
        }
    }

    #[test]
    fn each_size_has_frames_of_its_own() {
        let sizes = sizes(512, &[4096, 65536, 16384, 65536]).unwrap();
        let of = |store| {
            let class = sizes.of_store(store);
            (class.page_size, class.first, class.count)
        };
        assert_eq!(of(1), (65536, 0, 16));
        assert_eq!(of(3), of(1));
        assert_eq!(of(2), (16384, 256, 32));
        assert_eq!(of(0), (4096, 384, 128));
        // One that is not known yet.
        assert_eq!(of(9), of(0));
        for (frame, size) in [
            (0, 65536),
            (16, 65536),
            (17, 4096),
            (260, 16384),
            (261, 4096),
        ] {
            assert_eq!(sizes.frame_size(frame, 4096), size, "frame {frame}");
        }
        let class = sizes.of_store(2);
        assert_eq!([class.take(), class.take()], [Some(256), Some(260)]);
        class.put(260);
        assert_eq!((class.free(), sizes.sum(SizeClass::free)), (31, 175));
        assert_eq!((class.low_water, sizes.at(511).page_size), (4, 4096));
    }

    #[test]
    fn frames_that_do_not_suffice_are_named() {
        let too_few = |frames, stores: &[u32]| sizes(frames, stores).unwrap_err();
        let of = |frames, page_size| PoolError::Frames { frames, page_size };
        assert_eq!(too_few(3, &[]), of(3, 4096));
        assert_eq!(too_few(64, &[4096, 65536]), of(2, 65536));
        assert_eq!(too_few(64, &[5000]), PoolError::PageSize(5000));
        assert_eq!(too_few(64, &[2048]), PoolError::PageSize(2048));
        // Frames that larger pages leave over are not used.
        let larger = sizes(70, &[16384]).unwrap();
        assert_eq!(
            (larger.of_store(0).count, larger.frame_size(68, 4096)),
            (17, 4096)
        );
    }
}
