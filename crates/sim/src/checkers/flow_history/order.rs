//! The one order of replicated items, as far as it is known.
//!
//! A consumer sees a window of one global order, without gaps. A consumer present from the start
//! begins at position zero. A later joiner begins somewhere: its first item determines the position
//! if another consumer has popped that item already. If not, the joiner is ahead of all others, and
//! it is not known yet how many items lie between. Its items then form a segment of their own,
//! which is joined to another when the consumer at the end of that one pops the first item of this
//! one. Segments that never meet are checked at the end of the run.

use super::Stamp;
use std::collections::{BTreeMap, HashMap};

/// The segment that begins with the first item of the flow.
const ROOT: usize = 0;

/// A ring: producer and destination.
pub(super) type RingKey = (u16, u16);

#[derive(Debug)]
pub(super) struct Orders {
    /// Contiguous items. Segments that were joined to another are empty.
    segments: Vec<Vec<Stamp>>,
    places: HashMap<Stamp, (usize, usize)>,
    readers: Vec<Reader>,
}

/// The position of a consumer.
#[derive(Clone, Default, Debug)]
struct Reader {
    /// Segment and position of its first item, once known.
    start: Option<(usize, usize)>,
    /// The position of its next item in the segment.
    next: usize,
    /// Its order was wrong; everything after differs, and one violation is enough.
    lost_track: bool,
}

/// What is wrong with the position of an item.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Misplaced {
    /// Others have another item at this position.
    Differs { place: u64, expect: Stamp },
    /// Others have the item at another position.
    Elsewhere,
}

/// The first items of the rings that a consumer must see.
#[derive(Debug)]
pub(super) struct Owed {
    from: BTreeMap<RingKey, u64>,
    /// Whether a ring that is not listed is owed from its first item on, or not at all.
    others: bool,
}

impl Owed {
    /// The first item that must be seen of `ring`, which has `pushed` items.
    pub fn from(&self, ring: RingKey, pushed: u64) -> u64 {
        let unlisted = if self.others { 0 } else { pushed };
        self.from.get(&ring).copied().unwrap_or(unlisted)
    }
}

impl Orders {
    /// The order of a flow that begins with `consumers` consumers.
    pub fn new(consumers: u16) -> Self {
        let reader = Reader {
            start: Some((ROOT, 0)),
            ..Reader::default()
        };
        Self {
            segments: vec![Vec::new()],
            places: HashMap::new(),
            readers: vec![reader; usize::from(consumers)],
        }
    }

    /// Adds a consumer whose position is unknown.
    pub fn join(&mut self) {
        self.readers.push(Reader::default());
    }

    /// Records that a consumer popped an item.
    pub fn pop(&mut self, consumer: u16, got: Stamp) -> Result<(), Misplaced> {
        let reader = &mut self.readers[usize::from(consumer)];
        if reader.lost_track {
            return Ok(());
        }
        let known = self.places.get(&got).copied();
        let Some((segment, _)) = reader.start else {
            let (segment, place) = known.unwrap_or((self.segments.len(), 0));
            reader.start = Some((segment, place));
            reader.next = place + 1;
            if known.is_none() {
                self.segments.push(vec![got]);
                self.places.insert(got, (segment, 0));
            }
            return Ok(());
        };
        let place = reader.next;
        reader.next += 1;
        let result = match (self.segments[segment].get(place), known) {
            (Some(&expect), _) if expect == got => return Ok(()),
            (Some(&expect), _) => Err(Misplaced::Differs {
                place: place as u64,
                expect,
            }),
            (None, None) => {
                self.segments[segment].push(got);
                self.places.insert(got, (segment, place));
                return Ok(());
            }
            (None, Some((other, 0))) if other != segment && other != ROOT => {
                self.append(segment, other);
                return Ok(());
            }
            (None, Some(_)) => Err(Misplaced::Elsewhere),
        };
        self.readers[usize::from(consumer)].lost_track = true;
        result
    }

    /// Joins segment `other`, which turns out to follow `segment` directly.
    fn append(&mut self, segment: usize, other: usize) {
        let items = core::mem::take(&mut self.segments[other]);
        let offset = self.segments[segment].len();
        for (place, &item) in items.iter().enumerate() {
            self.places.insert(item, (segment, offset + place));
        }
        self.segments[segment].extend(items);
        for reader in &mut self.readers {
            if let Some((at, start)) = reader.start
                && at == other
            {
                reader.start = Some((segment, offset + start));
                reader.next += offset;
            }
        }
    }

    /// What a consumer must see, given its first item: everything that is not before it. Of items
    /// that no consumer popped, only those after items of the same ring are known to follow.
    pub fn owed(&self, consumer: usize) -> Owed {
        let mut from = BTreeMap::new();
        let Some((segment, start)) = self.readers[consumer].start else {
            return Owed {
                from,
                others: false,
            };
        };
        let rooted = segment == ROOT;
        for (place, item) in self.segments[segment].iter().enumerate() {
            let ring = (item.producer, item.destination);
            if place < start {
                let next: &mut u64 = from.entry(ring).or_default();
                *next = (*next).max(item.sequence + 1);
            } else {
                from.entry(ring)
                    .or_insert(if rooted { 0 } else { item.sequence });
            }
        }
        Owed {
            from,
            others: rooted,
        }
    }

    /// The segment of a consumer's items, if it popped any and they are in order.
    pub fn segment(&self, consumer: usize) -> Option<usize> {
        let reader = &self.readers[consumer];
        let (segment, start) = reader.start?;
        (!reader.lost_track && reader.next > start).then_some(segment)
    }

    /// Two consumers of two segments of which neither can come before the other: the order of one
    /// ring contradicts that of another.
    pub fn crossed(&self) -> Option<(u16, u16)> {
        let spans: Vec<_> = self.segments.iter().map(|items| spans(items)).collect();
        for (one, spans_of_one) in spans.iter().enumerate() {
            for (other, spans_of_other) in spans.iter().enumerate().skip(one + 1) {
                let both = spans_of_one
                    .iter()
                    .filter_map(|(ring, one)| Some((one, spans_of_other.get(ring)?)));
                let before = both.clone().any(|(one, other)| one.0 < other.1);
                let after = both.clone().any(|(one, other)| other.0 < one.1);
                if before && after {
                    return Some((self.reader_of(one)?, self.reader_of(other)?));
                }
            }
        }
        None
    }

    fn reader_of(&self, segment: usize) -> Option<u16> {
        let mut readers = 0..self.readers.len();
        let reader = readers.find(|&reader| self.segment(reader) == Some(segment));
        reader.map(|reader| reader as u16)
    }
}

/// The lowest and the highest item of each ring.
fn spans(items: &[Stamp]) -> BTreeMap<RingKey, (u64, u64)> {
    let mut spans = BTreeMap::new();
    for item in items {
        let ring = (item.producer, item.destination);
        let span = spans.entry(ring).or_insert((item.sequence, item.sequence));
        *span = (span.0.min(item.sequence), span.1.max(item.sequence));
    }
    spans
}
