//! Operations on an index, and their results.

use super::map::EndpointId;
use crate::btree::Direction;
use core::fmt;
use core::ops::Deref;

/// How a client reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Access {
    /// By a request that the endpoint's cores serve.
    #[default]
    Rpc,
    /// By READs of the endpoint's memory. Writes are still requests.
    OneSided,
    /// By READs that begin at the deepest tree node known to the switches on the path. Writes are
    /// still requests.
    InNetwork,
}

impl Access {
    /// All access methods.
    pub const ALL: [Self; 3] = [Self::Rpc, Self::OneSided, Self::InNetwork];

    /// The name in command lines.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rpc => "rpc",
            Self::OneSided => "one-sided",
            Self::InNetwork => "in-network",
        }
    }

    /// Whether reads are done by READs.
    pub fn is_by_read(self) -> bool {
        matches!(self, Self::OneSided | Self::InNetwork)
    }
}

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// Reads the value of a key.
    Get {
        /// The key.
        key: u64,
    },
    /// Adds a value for a key that has none.
    Insert {
        /// The key.
        key: u64,
        /// Its value.
        value: &'a [u8],
    },
    /// Changes the value of a key that has one.
    Update {
        /// The key.
        key: u64,
        /// Its value.
        value: &'a [u8],
    },
    /// Sets a value, whether or not the key has one.
    Put {
        /// The key.
        key: u64,
        /// Its value.
        value: &'a [u8],
    },
    /// Removes the value of a key.
    Delete {
        /// The key.
        key: u64,
    },
    /// Reads the entries from `low` to `last`, both inclusive, at most `limit`.
    Scan {
        /// The least key.
        low: u64,
        /// The greatest key.
        last: u64,
        /// The direction.
        direction: Direction,
        /// Maximum number of entries.
        limit: u32,
    },
}

impl Op<'_> {
    /// The key by which the operation is routed first.
    pub fn key(&self) -> u64 {
        match *self {
            Op::Get { key }
            | Op::Insert { key, .. }
            | Op::Update { key, .. }
            | Op::Put { key, .. }
            | Op::Delete { key } => key,
            Op::Scan {
                low,
                last,
                direction,
                ..
            } => match direction {
                Direction::Forward => low,
                Direction::Backward => last,
            },
        }
    }

    /// Whether it changes the index.
    pub fn is_write(&self) -> bool {
        !matches!(self, Op::Get { .. } | Op::Scan { .. })
    }

    /// The value of a write.
    pub fn value(&self) -> &[u8] {
        match *self {
            Op::Insert { value, .. } | Op::Update { value, .. } | Op::Put { value, .. } => value,
            Op::Get { .. } | Op::Delete { .. } | Op::Scan { .. } => &[],
        }
    }
}

/// Length up to which a value needs no allocation.
const SHORT: usize = 23;

/// A value that was read.
#[derive(Clone)]
pub struct Value(Bytes);

#[derive(Clone)]
enum Bytes {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

impl Value {
    /// The eight bytes of an inline value as a number, little-endian; `None` if it has another
    /// length.
    pub fn word(&self) -> Option<u64> {
        <[u8; 8]>::try_from(&**self).ok().map(u64::from_le_bytes)
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        let mut short = [0; SHORT];
        match short.get_mut(..bytes.len()) {
            Some(space) => {
                space.copy_from_slice(bytes);
                Self(Bytes::Short(bytes.len() as u8, short))
            }
            None => Self(Bytes::Long(bytes.into())),
        }
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            Bytes::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Value {}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// The result of a successful operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Of [`Op::Get`]: the value, if the key has one.
    Value(Option<Value>),
    /// Of a write: whether the key was present before. So an insert took effect if false; an update
    /// or a delete took effect if true; a put took effect in either case.
    Found(bool),
    /// Of [`Op::Scan`]: the entries, in the order of the direction.
    Entries(Vec<(u64, Value)>),
}

/// A pending operation. Unique in its client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Ticket(pub u64);

/// A completed operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reply {
    /// The operation.
    pub ticket: Ticket,
    /// Its result.
    pub result: Result<Answer, IndexError>,
}

/// Why an operation was not accepted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BeginError {
    /// The client has its maximum number of pending operations.
    #[error("{limit} operations are under way; poll for replies first")]
    Full {
        /// The client's limit.
        limit: u32,
    },
    /// The value is too long for the index.
    #[error("a value of {len} bytes; the index takes {limit} at most")]
    ValueTooLarge {
        /// Length of the value.
        len: usize,
        /// Maximum length.
        limit: u32,
    },
    /// A range that ends before it begins.
    #[error("a scan from key {low} to key {last}, which is before it")]
    Backwards {
        /// The least key.
        low: u64,
        /// The greatest key.
        last: u64,
    },
}

/// Why an operation failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IndexError {
    /// The endpoint does not answer. Nothing was changed.
    #[error("{0} does not answer; the operation has changed nothing")]
    Gone(EndpointId),
    /// The endpoint did not answer a write. Whether it was done is unknown.
    #[error("{0} did not answer a write; it may or may not have been done")]
    OutcomeUnknown(EndpointId),
    /// The endpoint's tree is full. Nothing was changed.
    #[error("the tree of {0} is full; nothing was changed")]
    Full(EndpointId),
    /// The endpoint takes no value of this length. Nothing was changed.
    #[error("{0} takes no value of this length; nothing was changed")]
    ValueTooLarge(EndpointId),
    /// The endpoint found the request malformed. Nothing was changed.
    #[error("{0} found the request malformed; client and server differ in version")]
    Refused(EndpointId),
    /// The endpoint's reply is invalid.
    #[error("the answer of {0} makes no sense; client and server differ in version")]
    Malformed(EndpointId),
    /// The endpoint's tree is damaged.
    #[error("the tree of {0} is damaged")]
    Corrupt(EndpointId),
    /// The range is being moved, or the map is outdated, for longer than the client waits. Nothing
    /// was changed.
    #[error("the keys were being moved or had no owner for {tries} tries; nothing was changed")]
    Unsettled {
        /// Number of attempts.
        tries: u32,
    },
}
