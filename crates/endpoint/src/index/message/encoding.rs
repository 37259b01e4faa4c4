//! How requests lie in bytes.

use super::{Entries, Method, Request, RequestError};
use crate::btree::Direction;
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::shard::MoveId;

/// Takes numbers from the front of bytes.
pub(in crate::index) struct Numbers<'a>(pub &'a [u8]);

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
            Method::Abort => Self::Abort { id },
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
            Self::Abort { .. } => Method::Abort,
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
            Self::Load { entries } => bytes.extend(entries.bytes()),
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
            Self::Release { id } | Self::Discard { id } | Self::Abort { id } => word(id.0),
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
                bytes.extend(entries.bytes());
            }
        }
    }
}
