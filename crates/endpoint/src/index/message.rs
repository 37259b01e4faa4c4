//! What clients and endpoints say to each other, inside the calls of `rpc`.
//!
//! Numbers are little-endian and lie behind each other without gaps. A reply begins with an
//! [`Outcome`]. Requests that make no sense are refused by the status of the call.

use super::map::{EndpointId, PartitionMap};
use super::shard::MoveId;
use crate::btree::Direction;

/// A method of an index server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Method {
    /// Reads a value.
    Get = 1,
    /// Adds a value.
    Insert = 2,
    /// Changes a value.
    Update = 3,
    /// Adds or changes a value.
    Put = 4,
    /// Removes a value.
    Delete = 5,
    /// Reads entries in order.
    Scan = 6,
    /// Adds or changes many values.
    Load = 7,
    /// Gives the partition map.
    Map = 8,
    /// Gives counters and keys that were asked for.
    Statistics = 9,
    /// Says which moves are under way.
    State = 10,
    /// Begins to give a range away.
    Mark = 11,
    /// Reads entries of the range.
    Export = 12,
    /// Keeps the range after all.
    Release = 13,
    /// Gives the range away for good.
    Commit = 14,
    /// Begins to take a range.
    Stage = 15,
    /// Adds entries of the range.
    Install = 16,
    /// Does not take the range after all.
    Discard = 17,
    /// All entries of the range have come.
    Seal = 18,
    /// Owns the range from now on.
    Adopt = 19,
}

impl Method {
    const ALL: [Self; 19] = [
        Self::Get,
        Self::Insert,
        Self::Update,
        Self::Put,
        Self::Delete,
        Self::Scan,
        Self::Load,
        Self::Map,
        Self::Statistics,
        Self::State,
        Self::Mark,
        Self::Export,
        Self::Release,
        Self::Commit,
        Self::Stage,
        Self::Install,
        Self::Discard,
        Self::Seal,
        Self::Adopt,
    ];

    /// The method of this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number).checked_sub(1)?).copied()
    }
}

/// How a request ended: the first byte of a reply.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Outcome {
    /// Done; the key was there before, where that is the question.
    Done = 0,
    /// The key was not there before.
    Absent = 1,
    /// The keys belong to another endpoint. The endpoint's map version follows.
    Moved = 2,
    /// The keys are being moved: ask again later.
    Busy = 3,
    /// The tree has no room.
    Full = 4,
    /// The tree takes no such value.
    ValueTooLarge = 5,
    /// A step of a move that does not fit the endpoint's state.
    Conflict = 6,
    /// The tree is damaged.
    Corrupt = 7,
}

impl Outcome {
    const ALL: [Self; 8] = [
        Self::Done,
        Self::Absent,
        Self::Moved,
        Self::Busy,
        Self::Full,
        Self::ValueTooLarge,
        Self::Conflict,
        Self::Corrupt,
    ];

    /// The outcome of this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// A request.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(
    missing_docs,
    reason = "the fields are those of the methods of `Shard`"
)]
pub enum Request<'a> {
    Get {
        key: u64,
    },
    Insert {
        key: u64,
        value: &'a [u8],
    },
    Update {
        key: u64,
        value: &'a [u8],
    },
    Put {
        key: u64,
        value: &'a [u8],
    },
    Delete {
        key: u64,
    },
    Scan {
        low: u64,
        last: u64,
        direction: Direction,
        limit: u32,
    },
    Load {
        entries: Entries<'a>,
    },
    Map,
    Statistics,
    State,
    Mark {
        id: MoveId,
        to: EndpointId,
        low: u64,
        last: u64,
        entries_max: u32,
        map: PartitionMap,
    },
    Export {
        id: MoveId,
        from: u64,
    },
    Release {
        id: MoveId,
    },
    Commit {
        id: MoveId,
        map: PartitionMap,
    },
    Stage {
        id: MoveId,
        low: u64,
        last: u64,
        map: PartitionMap,
    },
    Install {
        id: MoveId,
        entries: Entries<'a>,
    },
    Discard {
        id: MoveId,
    },
    Seal {
        id: MoveId,
        entries: u64,
    },
    Adopt {
        id: MoveId,
        map: PartitionMap,
    },
}

/// Why a request cannot be carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RequestError {
    /// No such method.
    #[error("there is no method {0}")]
    UnknownMethod(u16),
    /// Not what the method takes.
    #[error("{len} bytes are no request of {method:?}")]
    Malformed {
        /// The method.
        method: Method,
        /// Bytes of the request.
        len: usize,
    },
}

/// Entries one after another: key, length of the value (four bytes), value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entries<'a> {
    bytes: &'a [u8],
}

/// Bytes of an entry before its value.
pub const ENTRY_HEADER: usize = 12;

impl<'a> Entries<'a> {
    /// The entries in these bytes, if they are whole.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        let mut rest = bytes;
        while !rest.is_empty() {
            rest = next_entry(rest)?.1;
        }
        Some(Self { bytes })
    }

    /// Appends an entry.
    pub fn push(bytes: &mut Vec<u8>, key: u64, value: &[u8]) {
        bytes.extend(entry_header(key, value));
        bytes.extend(value);
    }

    /// Their bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The entries.
    pub fn iter(&self) -> impl Iterator<Item = (u64, &'a [u8])> + use<'a> {
        let mut rest = self.bytes;
        core::iter::from_fn(move || {
            let (entry, after) = next_entry(rest)?;
            rest = after;
            Some(entry)
        })
    }
}

/// What lies before the value of an entry.
pub fn entry_header(key: u64, value: &[u8]) -> [u8; ENTRY_HEADER] {
    let mut header = [0; ENTRY_HEADER];
    header[..8].copy_from_slice(&key.to_le_bytes());
    header[8..].copy_from_slice(&(value.len() as u32).to_le_bytes());
    header
}

type Entry<'a> = (u64, &'a [u8]);

fn next_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (key, bytes) = bytes.split_first_chunk()?;
    let (len, bytes) = bytes.split_first_chunk()?;
    let (value, rest) = bytes.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    Some(((u64::from_le_bytes(*key), value), rest))
}

/// Takes numbers from the front of bytes.
pub(super) struct Numbers<'a>(pub &'a [u8]);

impl<'a> Numbers<'a> {
    pub fn word(&mut self) -> Option<u64> {
        let (word, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*word))
    }

    pub fn half(&mut self) -> Option<u32> {
        let (half, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*half))
    }

    fn id(&mut self) -> Option<MoveId> {
        self.word().map(MoveId)
    }

    fn endpoint(&mut self) -> Option<EndpointId> {
        u16::try_from(self.half()?).ok().map(EndpointId)
    }

    fn direction(&mut self) -> Option<Direction> {
        match self.half()? {
            0 => Some(Direction::Forward),
            1 => Some(Direction::Backward),
            _ => None,
        }
    }

    fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }

    fn entries(&mut self) -> Option<Entries<'a>> {
        Entries::new(self.rest())
    }

    fn map(&mut self) -> Option<PartitionMap> {
        PartitionMap::decode(self.rest()).ok()
    }
}

impl<'a> Request<'a> {
    /// The request of this method in these bytes.
    ///
    /// # Errors
    /// If there is no such method, or the bytes are none of its requests.
    pub fn decode(method: u16, bytes: &'a [u8]) -> Result<Self, RequestError> {
        let Some(known) = Method::from_number(method) else {
            return Err(RequestError::UnknownMethod(method));
        };
        let mut numbers = Numbers(bytes);
        let request = Self::of(known, &mut numbers);
        let whole = numbers.0.is_empty();
        request.filter(|_| whole).ok_or(RequestError::Malformed {
            method: known,
            len: bytes.len(),
        })
    }

    fn of(method: Method, n: &mut Numbers<'a>) -> Option<Self> {
        Some(match method {
            Method::Get => Self::Get { key: n.word()? },
            Method::Delete => Self::Delete { key: n.word()? },
            Method::Insert => Self::Insert {
                key: n.word()?,
                value: n.rest(),
            },
            Method::Update => Self::Update {
                key: n.word()?,
                value: n.rest(),
            },
            Method::Put => Self::Put {
                key: n.word()?,
                value: n.rest(),
            },
            Method::Scan => Self::Scan {
                low: n.word()?,
                last: n.word()?,
                direction: n.direction()?,
                limit: n.half()?,
            },
            Method::Load => Self::Load {
                entries: n.entries()?,
            },
            Method::Map => Self::Map,
            Method::Statistics => Self::Statistics,
            Method::State => Self::State,
            _ => return Self::of_move(method, n),
        })
    }

    fn of_move(method: Method, n: &mut Numbers<'a>) -> Option<Self> {
        let id = n.id()?;
        Some(match method {
            Method::Mark => Self::Mark {
                id,
                to: n.endpoint()?,
                low: n.word()?,
                last: n.word()?,
                entries_max: n.half()?,
                map: n.map()?,
            },
            Method::Export => Self::Export {
                id,
                from: n.word()?,
            },
            Method::Release => Self::Release { id },
            Method::Commit => Self::Commit { id, map: n.map()? },
            Method::Stage => Self::Stage {
                id,
                low: n.word()?,
                last: n.word()?,
                map: n.map()?,
            },
            Method::Install => Self::Install {
                id,
                entries: n.entries()?,
            },
            Method::Discard => Self::Discard { id },
            Method::Seal => Self::Seal {
                id,
                entries: n.word()?,
            },
            Method::Adopt => Self::Adopt { id, map: n.map()? },
            _ => return None,
        })
    }

    /// The method that it is a request of.
    pub fn method(&self) -> Method {
        match self {
            Self::Get { .. } => Method::Get,
            Self::Insert { .. } => Method::Insert,
            Self::Update { .. } => Method::Update,
            Self::Put { .. } => Method::Put,
            Self::Delete { .. } => Method::Delete,
            Self::Scan { .. } => Method::Scan,
            Self::Load { .. } => Method::Load,
            Self::Map => Method::Map,
            Self::Statistics => Method::Statistics,
            Self::State => Method::State,
            Self::Mark { .. } => Method::Mark,
            Self::Export { .. } => Method::Export,
            Self::Release { .. } => Method::Release,
            Self::Commit { .. } => Method::Commit,
            Self::Stage { .. } => Method::Stage,
            Self::Install { .. } => Method::Install,
            Self::Discard { .. } => Method::Discard,
            Self::Seal { .. } => Method::Seal,
            Self::Adopt { .. } => Method::Adopt,
        }
    }

    /// Appends its bytes.
    pub fn encode(&self, bytes: &mut Vec<u8>) {
        let mut word = |word: u64| bytes.extend(word.to_le_bytes());
        match self {
            Self::Get { key } | Self::Delete { key } => word(*key),
            Self::Insert { key, value }
            | Self::Update { key, value }
            | Self::Put { key, value } => {
                word(*key);
                bytes.extend(*value);
            }
            Self::Scan {
                low,
                last,
                direction,
                limit,
            } => {
                word(*low);
                word(*last);
                word(u64::from(*direction == Direction::Backward) | u64::from(*limit) << 32);
            }
            Self::Load { entries } => bytes.extend(entries.bytes),
            Self::Map | Self::Statistics | Self::State => {}
            Self::Mark {
                id,
                to,
                low,
                last,
                entries_max,
                map,
            } => {
                word(id.0);
                bytes.extend(u32::from(to.0).to_le_bytes());
                bytes.extend(low.to_le_bytes());
                bytes.extend(last.to_le_bytes());
                bytes.extend(entries_max.to_le_bytes());
                bytes.extend(map.encode());
            }
            Self::Export { id, from: number }
            | Self::Seal {
                id,
                entries: number,
            } => {
                word(id.0);
                word(*number);
            }
            Self::Release { id } | Self::Discard { id } => word(id.0),
            Self::Commit { id, map } | Self::Adopt { id, map } => {
                word(id.0);
                bytes.extend(map.encode());
            }
            Self::Stage { id, low, last, map } => {
                [id.0, *low, *last].into_iter().for_each(word);
                bytes.extend(map.encode());
            }
            Self::Install { id, entries } => {
                word(id.0);
                bytes.extend(entries.bytes);
            }
        }
    }
}

/// Splits a reply into its outcome and the rest; nothing if there is no such outcome.
pub fn reply(bytes: &[u8]) -> Option<(Outcome, &[u8])> {
    let (&outcome, rest) = bytes.split_first()?;
    Some((Outcome::from_number(outcome)?, rest))
}

/// A page of a scan or of an export: how to go on, and the entries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page<'a> {
    /// The key to go on from; nothing if that was all.
    pub next: Option<u64>,
    /// The entries.
    pub entries: Entries<'a>,
}

/// Bytes of a page before its entries: whether there is more, and from where.
pub const PAGE_HEADER: usize = 12;

/// What lies before the entries of a page.
pub fn page_header(next: Option<u64>) -> [u8; PAGE_HEADER] {
    let mut header = [0; PAGE_HEADER];
    header[..4].copy_from_slice(&u32::from(next.is_some()).to_le_bytes());
    header[4..].copy_from_slice(&next.unwrap_or_default().to_le_bytes());
    header
}

impl<'a> Page<'a> {
    /// The page in what follows the outcome of a reply.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let mut numbers = Numbers(bytes);
        let (more, next) = (numbers.half()?, numbers.word()?);
        Some(Self {
            next: (more != 0).then_some(next),
            entries: Entries::new(numbers.0)?,
        })
    }
}

#[cfg(test)]
mod tests;
