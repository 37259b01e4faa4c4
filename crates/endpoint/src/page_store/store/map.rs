//! A map: which pages of a group are in use.
//!
//! Behind the page's header, little-endian:
//!
//! | offset | bytes | content |
//! |---|---|---|
//! | 0 | 8 | "RWpgmap\n" |
//! | 8 | 8 | the store's identity |
//! | 16 | 8 | the group's number |
//! | 24 | 8 | the number of pages it describes |
//! | 32 | 8 | how often pages were reserved in it |
//! | 40 | 24 | zero |
//! | 64 | 8 each | [`STAMPS`] stamps of the latest reservations, a ring |
//! | 1024 | | two bits for each page, the first in the lowest: a [`PageState`] |
//!
//! A map of zeroes is unused: no page of its group was ever handed out. A map of the store that was
//! on this device before reads as zeroes too, since pages carry their store's identity.
//!
//! A *stamp* tells a worker that has reserved pages whether the map still contains the reservation,
//! whatever has happened to the map since. See [`super::allocate`].

use super::layout::StoreLayout;

const MAGIC: u64 = u64::from_le_bytes(*b"RWpgmap\n");
/// Bytes in front of the bits.
pub(super) const HEAD: usize = 1024;
/// Pages that a byte describes.
pub(super) const PER_BYTE: u64 = 4;
const PER_WORD: u64 = 8 * PER_BYTE;
const STAMPS_AT: usize = 64;
/// Number of workers that may reserve pages while one waits for its write home.
const STAMPS: u64 = ((HEAD - STAMPS_AT) / 8) as u64;
const CHANGES: usize = 4;
/// The lower bit of each page, which is set if the page cannot be handed out.
const TAKEN: u64 = 0x5555_5555_5555_5555;

/// The state of a page in a map.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PageState {
    /// It was never handed out, and therefore reads as zeroes.
    Unused = 0,
    /// It was handed out, or a worker has reserved it.
    InUse = 1,
    /// It was freed, and still has its old content.
    Free = 2,
    /// It was free and could not be read. It is no longer used.
    Bad = 3,
}

impl PageState {
    const fn of(bits: u64) -> Self {
        match bits & 3 {
            0 => Self::Unused,
            1 => Self::InUse,
            2 => Self::Free,
            _ => Self::Bad,
        }
    }

    /// Whether it may be handed out.
    pub const fn is_available(self) -> bool {
        matches!(self, Self::Unused | Self::Free)
    }
}

/// A page of the store that is not a map of this group, or not of this store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Damaged;

/// A map for reading.
#[derive(Clone, Copy, Debug)]
pub(super) struct Map<'a> {
    bytes: &'a [u8],
    pages: u64,
}

impl<'a> Map<'a> {
    /// The map of `group` in the bytes behind a page's header.
    pub fn parse(bytes: &'a [u8], layout: &StoreLayout, group: u64) -> Result<Self, Damaged> {
        let pages = layout.pages_of(group);
        if bytes.len() < HEAD + pages.div_ceil(PER_BYTE) as usize {
            return Err(Damaged);
        }
        let head = [0, 1, 2, 3].map(|at| word(bytes, at));
        let is_map = head == [MAGIC, layout.identity, group, pages];
        if is_map || bytes.iter().all(|byte| *byte == 0) {
            Ok(Self { bytes, pages })
        } else {
            Err(Damaged)
        }
    }

    /// The state of page `at`; that of a page beyond the end is bad.
    pub fn state(&self, at: u64) -> PageState {
        if at >= self.pages {
            return PageState::Bad;
        }
        PageState::of(self.bits(at / PER_WORD) >> (at % PER_WORD * 2))
    }

    /// Pages that may be handed out, counted up to about `limit`.
    pub fn available(&self, limit: u64) -> u64 {
        let mut count = 0;
        for at in 0..self.words() {
            count += u64::from(self.mask(at).count_ones());
            if count >= limit {
                break;
            }
        }
        count
    }

    /// The first `count` pages that may be handed out, except those to be avoided.
    pub fn choose(&self, count: u64, avoid: impl Fn(u64) -> bool) -> Vec<(u64, PageState)> {
        let mut chosen = Vec::new();
        for at in 0..self.words() {
            let mut mask = self.mask(at);
            while mask != 0 && (chosen.len() as u64) < count {
                let page = at * PER_WORD + u64::from(mask.trailing_zeros() / 2);
                mask &= mask - 1;
                if !avoid(page) {
                    chosen.push((page, self.state(page)));
                }
            }
        }
        chosen
    }

    /// The number of pages in each state, in the order of the states.
    pub fn count(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        for at in 0..self.pages {
            counts[self.state(at) as usize] += 1;
        }
        counts
    }

    /// Whether this stamp is among the latest.
    pub fn has(&self, stamp: u64) -> bool {
        (0..STAMPS as usize).any(|at| word(self.bytes, STAMPS_AT / 8 + at) == stamp)
    }

    fn words(&self) -> u64 {
        self.pages.div_ceil(PER_WORD)
    }

    fn bits(&self, at: u64) -> u64 {
        word(self.bytes, HEAD / 8 + at as usize)
    }

    /// The lower bit of each page in a word that may be handed out.
    fn mask(&self, at: u64) -> u64 {
        let rest = self.pages - at * PER_WORD;
        let there = if rest >= PER_WORD {
            u64::MAX
        } else {
            (1 << (rest * 2)) - 1
        };
        !self.bits(at) & TAKEN & there
    }
}

/// A map for writing.
#[derive(Debug)]
pub(super) struct MapMut<'a> {
    bytes: &'a mut [u8],
}

impl<'a> MapMut<'a> {
    /// The map in bytes that [`Map::parse`] has accepted. A map of zeroes gets its head.
    pub fn new(bytes: &'a mut [u8], layout: &StoreLayout, group: u64) -> Self {
        let head = [MAGIC, layout.identity, group, layout.pages_of(group)];
        for (at, value) in head.into_iter().enumerate() {
            set_word(bytes, at, value);
        }
        Self { bytes }
    }

    /// Sets the state of page `at` of the group.
    pub fn set(&mut self, at: u64, state: PageState) {
        let (byte, shift) = (HEAD + (at / PER_BYTE) as usize, at % PER_BYTE * 2);
        if let Some(byte) = self.bytes.get_mut(byte) {
            *byte = *byte & !(3 << shift) | (state as u8) << shift;
        }
    }

    /// Records a reservation for `who`, a number unique to its owner, and returns its stamp.
    pub fn stamp(&mut self, who: u64) -> u64 {
        let changes = word(self.bytes, CHANGES).wrapping_add(1);
        set_word(self.bytes, CHANGES, changes);
        let stamp = stamp(changes, who);
        let place = (changes % STAMPS) as usize;
        set_word(self.bytes, STAMPS_AT / 8 + place, stamp);
        stamp
    }
}

/// The stamp of the `changes`th reservation, made by `who`; never zero. Stamps of different
/// histories of a map, one of which was lost, differ by `who`.
fn stamp(changes: u64, who: u64) -> u64 {
    let mut hash = changes ^ who.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // The finalizer of splitmix64, which is a permutation.
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ hash >> 31).max(1)
}

/// The `at`th little-endian word; zero beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at * 8..).unwrap_or_default();
    let mut eight = [0; 8];
    let len = rest.len().min(8);
    eight[..len].copy_from_slice(&rest[..len]);
    u64::from_le_bytes(eight)
}

/// Sets the `at`th word.
pub(super) fn set_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at * 8..at * 8 + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use rackweave_base::Rng;

    const LAYOUT: StoreLayout = StoreLayout {
        store: 0,
        identity: 7,
        page_size: 4096,
        capacity: 1000,
    };

    #[test]
    fn states_are_as_they_were_set_whatever_the_others_are() {
        let mut rng = Rng::new(1);
        let mut bytes = vec![0; 4056];
        let states = [0, 1, 2, 3].map(PageState::of);
        let mut model = vec![PageState::Unused; 998];
        for _ in 0..5000 {
            let (at, state) = (rng.below(998), states[rng.below(4) as usize]);
            model[at as usize] = state;
            MapMut::new(&mut bytes, &LAYOUT, 0).set(at, state);
        }
        let map = Map::parse(&bytes, &LAYOUT, 0).unwrap();
        let mut counts = [0; 4];
        for (at, state) in model.iter().enumerate() {
            assert_eq!(map.state(at as u64), *state, "page {at}");
            counts[*state as usize] += 1;
        }
        assert_eq!(map.count(), counts);
        assert_eq!(map.available(u64::MAX), counts[0] + counts[2]);
        assert_eq!(map.state(998), PageState::Bad, "beyond the end");
        let first = map.choose(1, |_| false)[0].0;
        let avoid = |at| at == first;
        let expect: Vec<_> = (0..998)
            .map(|at| (at, model[at as usize]))
            .filter(|(at, state)| state.is_available() && !avoid(*at))
            .collect();
        assert_eq!(map.choose(u64::MAX, avoid), expect);
        assert_eq!(map.choose(5, avoid), expect[..5]);
    }

    #[test]
    fn a_map_is_of_one_store_and_group_or_blank() {
        let mut bytes = vec![0; 4056];
        assert_eq!(Map::parse(&bytes, &LAYOUT, 0).unwrap().available(998), 998);
        MapMut::new(&mut bytes, &LAYOUT, 0).set(3, PageState::InUse);
        assert!(Map::parse(&bytes, &LAYOUT, 0).is_ok());
        assert!(Map::parse(&bytes, &LAYOUT, 1).is_err());
        assert!(Map::parse(&bytes[..1100], &LAYOUT, 0).is_err());
        let capacity = 1001;
        let other = StoreLayout { capacity, ..LAYOUT };
        assert!(Map::parse(&bytes, &other, 0).is_err());
        let identity = 8;
        let other = StoreLayout { identity, ..LAYOUT };
        assert!(Map::parse(&bytes, &other, 0).is_err());
        let mut nearly = vec![0; 4056];
        nearly[4055] = 1;
        assert!(Map::parse(&nearly, &LAYOUT, 0).is_err());
    }

    #[test]
    fn a_stamp_is_known_until_many_others_came() {
        let mut bytes = vec![0; 4056];
        let mut map = MapMut::new(&mut bytes, &LAYOUT, 0);
        let first = map.stamp(5);
        let mut stamps = vec![first];
        stamps.extend((1..STAMPS).map(|_| map.stamp(6)));
        let known = |bytes: &[u8], stamp| Map::parse(bytes, &LAYOUT, 0).unwrap().has(stamp);
        assert!(stamps.iter().all(|stamp| known(&bytes, *stamp)));
        MapMut::new(&mut bytes, &LAYOUT, 0).stamp(6);
        assert!(!known(&bytes, first));
        assert_ne!(stamp(1, 5), stamp(1, 6), "of two histories");
        stamps.sort_unstable();
        stamps.dedup();
        assert_eq!(stamps.len() as u64, STAMPS);
    }
}
