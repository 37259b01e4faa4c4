//! Requests.

use super::{LookupError, NODE, Op, begin, judge, seal, word};

/// A request: the common fields, and the bytes of its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request<'a> {
    /// The number of its operation, which may be unknown.
    pub op: u8,
    /// The tree node to start at, if a switch has filled one in: a hint.
    pub node: u32,
    /// The key.
    pub key: u64,
    /// The request's number.
    pub id: u64,
    /// The client.
    pub client: u64,
    /// The body.
    pub body: &'a [u8],
}

/// Identifies a write, so that a server recognises one that it has executed already.
///
/// A server keeps the last result of each slot of a session. A client has one write in flight per
/// slot; the next one in the slot has a greater number. So a repeated write gets the same answer,
/// and a late copy, which arrives after the slot has advanced, is not executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Once {
    /// The session, from the answer to [`Op::Open`].
    pub session: u64,
    /// The slot.
    pub slot: u16,
}

/// The contents of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask<'a> {
    /// [`Op::Get`].
    Get {
        /// The key.
        key: u64,
    },
    /// [`Op::Insert`].
    Insert {
        /// The key.
        key: u64,
        /// Its identification.
        once: Once,
        /// The value.
        value: &'a [u8],
    },
    /// [`Op::Update`].
    Update {
        /// The key.
        key: u64,
        /// Its identification.
        once: Once,
        /// The value.
        value: &'a [u8],
    },
    /// [`Op::Put`].
    Put {
        /// The key.
        key: u64,
        /// Its identification.
        once: Once,
        /// The value.
        value: &'a [u8],
    },
    /// [`Op::Delete`].
    Delete {
        /// The key.
        key: u64,
        /// Its identification.
        once: Once,
    },
    /// [`Op::Scan`].
    Scan {
        /// The key at the near end: the least one of a forward scan, the greatest of a backward
        /// one.
        near: u64,
        /// The key at the far end.
        far: u64,
        /// Maximum entries.
        limit: u32,
        /// Whether it starts at the greatest key.
        backward: bool,
    },
    /// [`Op::Map`]: from this byte of the encoded map on.
    Map {
        /// The offset of the first byte.
        from: u32,
    },
    /// [`Op::Open`].
    Open,
}

impl<'a> Request<'a> {
    /// Decodes a request. [`Self::ask`] decodes its contents.
    ///
    /// # Errors
    /// If the bytes are not a request, or are corrupted. Then there is no client to answer.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LookupError> {
        let (header, body) = judge(bytes, true)?;
        Ok(Self {
            op: header[3],
            node: word(&header[NODE]) as u32,
            key: word(&header[8..16]),
            id: word(&header[16..24]),
            client: word(&header[24..32]),
            body,
        })
    }

    /// Decodes its contents; `None` if its body does not match its operation, or there is no such
    /// operation.
    pub fn ask(&self) -> Option<Ask<'a>> {
        let (op, key) = (Op::from_number(self.op)?, self.key);
        if op.is_write() {
            return self.write(op);
        }
        // The tree node may have any value: corruption there is not detected, and does no harm.
        if !op.has_key() && key != 0 {
            return None;
        }
        Some(match (op, self.body) {
            (Op::Get, []) => Ask::Get { key },
            (Op::Open, []) => Ask::Open,
            (Op::Map, body) => Ask::Map {
                from: u32::from_be_bytes(body.try_into().ok()?),
            },
            (Op::Scan, body) => {
                let body: &[u8; 13] = body.try_into().ok()?;
                Ask::Scan {
                    near: key,
                    far: word(&body[..8]),
                    limit: word(&body[8..12]) as u32,
                    backward: match body[12] {
                        0 => false,
                        1 => true,
                        _ => return None,
                    },
                }
            }
            _ => return None,
        })
    }

    fn write(&self, op: Op) -> Option<Ask<'a>> {
        let (head, value) = self.body.split_first_chunk::<{ super::WRITE_LEN }>()?;
        let once = Once {
            session: word(&head[..8]),
            slot: word(&head[8..]) as u16,
        };
        let key = self.key;
        Some(match op {
            Op::Insert => Ask::Insert { key, once, value },
            Op::Update => Ask::Update { key, once, value },
            Op::Put => Ask::Put { key, once, value },
            Op::Delete if value.is_empty() => Ask::Delete { key, once },
            _ => return None,
        })
    }
}

impl Ask<'_> {
    /// Its operation.
    pub fn op(&self) -> Op {
        match self {
            Self::Get { .. } => Op::Get,
            Self::Insert { .. } => Op::Insert,
            Self::Update { .. } => Op::Update,
            Self::Put { .. } => Op::Put,
            Self::Delete { .. } => Op::Delete,
            Self::Scan { .. } => Op::Scan,
            Self::Map { .. } => Op::Map,
            Self::Open => Op::Open,
        }
    }

    /// Appends the bytes of a request with these contents, without a tree node.
    pub fn emit(&self, client: u64, id: u64, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let key = match *self {
            Self::Get { key }
            | Self::Insert { key, .. }
            | Self::Update { key, .. }
            | Self::Put { key, .. }
            | Self::Delete { key, .. }
            | Self::Scan { near: key, .. } => key,
            Self::Map { .. } | Self::Open => 0,
        };
        begin(bytes, self.op() as u8);
        bytes.extend([0; 4]);
        for word in [key, id, client] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend([0; 4]);
        match *self {
            Self::Get { .. } | Self::Open => {}
            Self::Insert { once, value, .. }
            | Self::Update { once, value, .. }
            | Self::Put { once, value, .. } => {
                once.emit(bytes);
                bytes.extend_from_slice(value);
            }
            Self::Delete { once, .. } => once.emit(bytes),
            Self::Scan {
                far,
                limit,
                backward,
                ..
            } => {
                bytes.extend(far.to_be_bytes());
                bytes.extend(limit.to_be_bytes());
                bytes.push(backward.into());
            }
            Self::Map { from } => bytes.extend(from.to_be_bytes()),
        }
        seal(bytes, start, true);
    }
}

impl Once {
    fn emit(self, bytes: &mut Vec<u8>) {
        bytes.extend(self.session.to_be_bytes());
        bytes.extend(self.slot.to_be_bytes());
    }
}
