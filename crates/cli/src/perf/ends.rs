//! The two ends of a measured flow. They read no clock: the same code runs in real and in virtual
//! time, and never posts a work request.

use super::amount::Amount;
use crate::outcome::CliError;
use crate::programs::{Port, Program, Turn};
use rackweave_endpoint::flow::{Consumer, Producer, PushError, Taken};
use serde::{Deserialize, Serialize};

/// A stamp: the producer above, the item's number below.
const NUMBER_BITS: u32 = 40;

/// How items are written and read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manner {
    /// Items per reserve and commit, peek and release.
    pub batch: u32,
    /// Whether every byte is written and read, not the stamp alone.
    pub touch: bool,
}

/// A program at an end of a flow.
pub enum End {
    /// A producer: one source for each of its rings.
    Sources(Vec<Source>),
    /// A consumer.
    Sink(Sink),
}

impl End {
    /// Those of a producer.
    pub fn sources(&self) -> Option<&[Source]> {
        match self {
            Self::Sources(sources) => Some(sources),
            Self::Sink(_) => None,
        }
    }

    /// That of a consumer.
    pub fn sink(&self) -> Option<&Sink> {
        match self {
            Self::Sources(_) => None,
            Self::Sink(sink) => Some(sink),
        }
    }
}

impl Program for End {
    fn turn(&mut self, port: &mut Port<'_, '_>) -> Result<Turn, CliError> {
        let now = port.now();
        let sources = match self {
            Self::Sources(sources) => sources,
            Self::Sink(sink) => return sink.turn(now),
        };
        let mut all = Turn::Ended;
        for source in sources {
            match source.turn(now)? {
                Turn::Ended => {}
                Turn::Moved => all = Turn::Moved,
                other if all == Turn::Ended => all = other,
                _ => {}
            }
        }
        Ok(all)
    }

    fn finish(&mut self) {
        if let Self::Sources(sources) = self {
            sources.iter_mut().for_each(Source::finish);
        }
    }

    fn done(&self) -> u64 {
        self.sink().map_or(0, Sink::popped)
    }
}

/// Nothing moved, and nothing will before something arrives.
const WAITS: Turn = Turn::Waits { moved: false };

/// Laid over every stamp, so that an item never begins like an encapsulated packet: Wireshark takes
/// a payload whose third and fourth byte are zero for one.
const MARK: u64 = 0xa5c3 << 16;

/// Fills one ring with stamped items.
pub struct Source {
    producer: Producer,
    index: u64,
    manner: Manner,
    amount: Amount,
    pushed: u64,
    finished: bool,
}

impl Source {
    /// The source of a ring of producer `index` of the flow.
    pub fn new(producer: Producer, index: usize, manner: Manner, amount: Amount) -> Self {
        Self {
            producer,
            index: index as u64,
            manner,
            amount,
            pushed: 0,
            finished: false,
        }
    }

    /// Pushes a batch, or finds that it cannot. `now` is in nanoseconds since the start.
    ///
    /// # Errors
    /// If the flow was broken off.
    pub fn turn(&mut self, now: u64) -> Result<Turn, CliError> {
        if self.finished {
            return Ok(Turn::Ended);
        }
        let left = match self.amount {
            Amount::Count(count) => count - self.pushed,
            Amount::Nanos(nanos) if now < nanos => u64::MAX,
            Amount::Nanos(_) => 0,
        };
        if left == 0 {
            self.finish();
            return Ok(Turn::Ended);
        }
        let most = left.min(u64::from(self.manner.batch)) as u32;
        let size = self.producer.item_size() as usize;
        let mut bytes = match self.producer.reserve(most) {
            Ok(bytes) => bytes,
            Err(PushError::Full) => return Ok(WAITS),
            Err(error) => return Err(CliError::run(error)),
        };
        let first = self.index << NUMBER_BITS | self.pushed;
        for (stamp, mut item) in (first..).zip(bytes.chunks_exact(size)) {
            item.write(0, &(stamp ^ MARK).to_le_bytes());
            if self.manner.touch {
                item.slice(8..).fill(stamp as u8);
            }
        }
        let items = (bytes.len() / size) as u32;
        self.producer.commit(items);
        self.pushed += u64::from(items);
        Ok(Turn::Moved)
    }

    /// Announces the end of stream.
    pub fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            self.producer.finish();
        }
    }

    /// Items pushed so far.
    pub fn pushed(&self) -> u64 {
        self.pushed
    }

    /// Of the stamps of all items pushed so far.
    pub fn digest(&self) -> u64 {
        let stamps = (0..self.pushed).map(|number| self.index << NUMBER_BITS | number);
        stamps.fold(0, |digest, stamp| digest.wrapping_add(mixed(stamp)))
    }
}

/// Takes the items of one ring and checks their stamps.
pub struct Sink {
    consumer: Consumer,
    manner: Manner,
    /// The number of the next item of each producer.
    expected: Vec<u64>,
    /// Whether other sinks get some of the items.
    shares: bool,
    digest: u64,
    popped: u64,
    is_sound: bool,
    first: u64,
    last: u64,
}

/// What a stamp adds to a digest: digests of sets of stamps are equal if the sets are, and
/// otherwise only by chance.
fn mixed(stamp: u64) -> u64 {
    rackweave_endpoint::flow::hash_key(stamp ^ 0x9e37_79b9_7f4a_7c15)
}

impl Sink {
    /// The sink of a ring that `producers` producers fill. One that shares the items with others
    /// gets its own in the order of their producer, but not all of them; whether nothing was lost
    /// and nothing came twice, all digests together tell.
    pub fn new(consumer: Consumer, producers: usize, manner: Manner, shares: bool) -> Self {
        Self {
            consumer,
            manner,
            expected: vec![0; producers],
            shares,
            digest: 0,
            popped: 0,
            is_sound: true,
            first: 0,
            last: 0,
        }
    }

    /// Takes a batch, or finds that there is none. `now` is in nanoseconds since the start.
    ///
    /// # Errors
    /// If the flow was broken off.
    pub fn turn(&mut self, now: u64) -> Result<Turn, CliError> {
        let size = self.consumer.item_size() as usize;
        let bytes = match self.consumer.peek(self.manner.batch) {
            Taken::Items(bytes) => bytes,
            Taken::Empty => return Ok(WAITS),
            Taken::Ended => return Ok(Turn::Ended),
            Taken::Aborted => return Err(CliError::run("the flow was broken off")),
        };
        for item in bytes.chunks_exact(size) {
            let stamp = item.u64_le(0) ^ MARK;
            let number = stamp & ((1 << NUMBER_BITS) - 1);
            match self.expected.get_mut((stamp >> NUMBER_BITS) as usize) {
                Some(expected) if self.shares => {
                    self.is_sound &= number >= *expected;
                    *expected = number + 1;
                    self.digest = self.digest.wrapping_add(mixed(stamp));
                }
                Some(expected) => {
                    self.is_sound &= number == *expected;
                    *expected = number + 1;
                }
                None => self.is_sound = false,
            }
            if self.manner.touch {
                self.is_sound &= item.slice(8..).is_all(stamp as u8);
            }
        }
        let items = (bytes.len() / size) as u32;
        self.consumer.release(items);
        if self.popped == 0 {
            self.first = now;
        }
        self.popped += u64::from(items);
        self.last = now;
        Ok(Turn::Moved)
    }

    /// Items taken so far.
    pub fn popped(&self) -> u64 {
        self.popped
    }

    /// When the last item was taken.
    pub fn last(&self) -> u64 {
        self.last
    }

    /// From the first item taken to the last.
    pub fn span(&self) -> u64 {
        self.last - self.first
    }

    /// Of the stamps taken, if the sink shares the items with others.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    /// Whether every item came in the order of its producer.
    pub fn is_sound(&self) -> bool {
        self.is_sound
    }
}
