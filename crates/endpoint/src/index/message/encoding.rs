//! The encoding of requests.

use super::{Entries, Method, Request, RequestError};
use crate::btree::Direction;
use crate::index::map::{EndpointId, PartitionMap};
use crate::index::shard::MoveId;
use zerocopy::TryFromBytes;

/// Reads numbers from the front of a byte slice.
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

    fn rest(&mut self) -> &'a [u8] {
        core::mem::take(&mut self.0)
    }
}

/// A field of a request.
pub(super) trait Field<'a>: Sized {
    /// Reads it from the front.
    fn take(numbers: &mut Numbers<'a>) -> Option<Self>;

    /// Appends it.
    fn put(&self, bytes: &mut Vec<u8>);
}

/// Defines fields, each by how it is read and what is appended.
macro_rules! fields {
    ($($type:ty: |$numbers:ident| $take:expr, |$field:ident| $put:expr;)*) => {
        $(impl<'a> Field<'a> for $type {
            fn take($numbers: &mut Numbers<'a>) -> Option<Self> {
                $take
            }

            fn put(&self, bytes: &mut Vec<u8>) {
                let $field = self;
                bytes.extend_from_slice(&$put);
            }
        })*
    };
}

fields! {
    u64: |n| n.word(), |word| word.to_le_bytes();
    u32: |n| n.half(), |half| half.to_le_bytes();
    MoveId: |n| n.word().map(Self), |id| id.0.to_le_bytes();
    EndpointId: |n| u16::try_from(n.half()?).ok().map(Self), |id| u32::from(id.0).to_le_bytes();
    &'a [u8]: |n| Some(n.rest()), |rest| **rest;
    Entries<'a>: |n| Self::new(n.rest()), |entries| *entries.bytes();
    PartitionMap: |n| Self::decode(n.rest()).ok(), |map| *map.encode();
    Direction: |n| match n.half()? {
        0 => Some(Self::Forward),
        1 => Some(Self::Backward),
        _ => None,
    }, |direction| u32::from(*direction == Self::Backward).to_le_bytes();
}

/// Defines methods with their numbers, and requests whose fields follow each other.
macro_rules! requests {
    ($(
        $(#[$about:meta])*
        $name:ident = $number:literal $({ $($field:ident: $type:ty),* $(,)? })?,
    )*) => {
        /// A method of an index server.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, TryFromBytes)]
        #[repr(u16)]
        pub enum Method {
            $($(#[$about])* $name = $number,)*
        }

        /// A request.
        #[derive(Clone, PartialEq, Eq, Debug)]
        #[expect(
            missing_docs,
            reason = "the fields are those of the methods of `Shard`"
        )]
        pub enum Request<'a> {
            $($(#[$about])* $name $({ $($field: $type),* })?,)*
        }

        impl<'a> Request<'a> {
            fn of(method: Method, numbers: &mut encoding::Numbers<'a>) -> Option<Self> {
                Some(match method {
                    $(Method::$name => Self::$name {
                        $($($field: encoding::Field::take(numbers)?,)*)?
                    },)*
                })
            }

            /// The method of the request.
            pub fn method(&self) -> Method {
                match self {
                    $(Self::$name { .. } => Method::$name,)*
                }
            }

            /// Appends the encoded request.
            pub fn encode(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$name { $($($field),*)? } => {
                        $($(encoding::Field::put($field, bytes);)*)?
                    })*
                }
            }
        }
    };
}

pub(super) use requests;

impl Method {
    /// The method with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::try_read_from_bytes(&number.to_ne_bytes()).ok()
    }
}

impl<'a> Request<'a> {
    /// Decodes a request of this method.
    ///
    /// # Errors
    /// If the method does not exist, or the bytes are not one of its requests.
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
}
