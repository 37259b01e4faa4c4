//! What the nodes tell each other, and how it lies in a SEND.
//!
//! ```text
//! kind (1) | flags (1) | tag (2) | node (2) | count (2)
//! page (8) | id (8) | version (8) | frame (4), zero (4)
//! ```
//! All little-endian. [`Message::Drop`] has pairs of page and id behind the first eight bytes
//! instead. Every request and every order is answered once, under its tag, so that nobody has more
//! messages under way than he has tags.

/// Bytes of the longest message: small enough to travel inside a work request.
pub const BYTES_MAX: usize = HEAD + DROPS_MAX * 16;

/// Pages that one message drops at most.
pub const DROPS_MAX: usize = 14;

const HEAD: usize = 8;
const BYTES: usize = 40;
const FLAG_ONE: u8 = 1;
const FLAG_TWO: u8 = 2;

/// A buffer frame of a compute node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The node.
    pub node: u16,
    /// The number of its frame.
    pub frame: u32,
}

/// A message with the tag that its answer will bear.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// Whose answer this is, or under what it is to be answered.
    pub tag: u16,
    /// What is said.
    pub message: Message,
}

/// What is said. An *id* names one request of one node for one page; who holds the page because of
/// that request is known by it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// To the owner: a page is wanted in a frame. `kept` is the id of the shared copy that the
    /// frame holds already, or zero.
    Fetch {
        /// The page.
        page: u64,
        /// The request's id.
        id: u64,
        /// The id of the copy in the frame.
        kept: u64,
        /// Where the page shall go.
        frame: u32,
        /// Whether it is to be changed.
        exclusive: bool,
        /// Whether a redirection has failed before.
        from_home: bool,
    },
    /// To the owner: clean copies that are gone, as pairs of page and id.
    Drop(Vec<(u64, u64)>),
    /// To the owner: a changed page is to be fetched from its frame and stored.
    WriteBack {
        /// The page.
        page: u64,
        /// By which request it is held.
        id: u64,
        /// Where it lies.
        frame: u32,
    },
    /// Answer to a fetch: the page is in the frame.
    Granted {
        /// How often the page was given away exclusively.
        version: u64,
        /// Whether it differs from what is stored.
        dirty: bool,
        /// Whether it came from storage.
        from_home: bool,
    },
    /// Answer to a fetch: the page is to be read there.
    Redirect {
        /// How often the page was given away exclusively.
        version: u64,
        /// Where it lies.
        place: Place,
        /// By which request it is held there.
        id: u64,
    },
    /// Answer to a drop or a write-back.
    Done {
        /// Whether a write-back has taken place; if not, the page had been revoked before.
        written: bool,
    },
    /// From the owner: give a page up, or down to shared, and write it into a frame.
    Revoke {
        /// The page.
        page: u64,
        /// By which request it is held.
        id: u64,
        /// Whether a shared copy may stay.
        downgrade: bool,
        /// Where to write it, if anywhere.
        push: Option<Place>,
    },
    /// Answer to a revocation, when the page has been written where it should.
    Complied {
        /// The page.
        page: u64,
        /// Whether the page was there.
        had: bool,
        /// Whether it differed from what is stored.
        dirty: bool,
    },
}

/// Bytes that are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{len} bytes of kind {kind} are no message")]
pub struct BadMessage {
    /// The kind that they claim to be.
    pub kind: u8,
    /// How many they are.
    pub len: usize,
}

/// The fields of all messages but a drop.
#[derive(Default)]
struct Fields {
    kind: u8,
    flags: u8,
    node: u16,
    page: u64,
    id: u64,
    version: u64,
    frame: u32,
}

const FETCH: u8 = 1;
const DROP: u8 = 2;
const WRITE_BACK: u8 = 3;
const GRANTED: u8 = 4;
const REDIRECT: u8 = 5;
const DONE: u8 = 6;
const REVOKE: u8 = 7;
const REVOKE_PUSH: u8 = 8;
const COMPLIED: u8 = 9;

fn flags(one: bool, two: bool) -> u8 {
    (u8::from(one) * FLAG_ONE) | (u8::from(two) * FLAG_TWO)
}

impl Envelope {
    /// Writes the message to the front of `bytes` and says how long it is.
    pub fn write(&self, bytes: &mut [u8; BYTES_MAX]) -> usize {
        let fields = self.message.fields();
        bytes[0] = fields.kind;
        bytes[1] = fields.flags;
        bytes[2..4].copy_from_slice(&self.tag.to_le_bytes());
        bytes[4..6].copy_from_slice(&fields.node.to_le_bytes());
        bytes[6..8].fill(0);
        if let Message::Drop(pages) = &self.message {
            let pages = &pages[..pages.len().min(DROPS_MAX)];
            bytes[6] = pages.len() as u8;
            for (pair, (page, id)) in bytes[HEAD..].chunks_exact_mut(16).zip(pages) {
                pair[..8].copy_from_slice(&page.to_le_bytes());
                pair[8..].copy_from_slice(&id.to_le_bytes());
            }
            return HEAD + pages.len() * 16;
        }
        bytes[8..16].copy_from_slice(&fields.page.to_le_bytes());
        bytes[16..24].copy_from_slice(&fields.id.to_le_bytes());
        bytes[24..32].copy_from_slice(&fields.version.to_le_bytes());
        bytes[32..36].copy_from_slice(&fields.frame.to_le_bytes());
        bytes[36..40].fill(0);
        BYTES
    }

    /// Reads the message that is all of `bytes`.
    ///
    /// # Errors
    /// If they are none.
    pub fn read(bytes: &[u8]) -> Result<Self, BadMessage> {
        let kind = bytes.first().copied().unwrap_or_default();
        let bad = BadMessage {
            kind,
            len: bytes.len(),
        };
        let tag = u16::from_le_bytes(array(bytes, 2).ok_or(bad)?);
        let message = if kind == DROP {
            let count = usize::from(*bytes.get(6).ok_or(bad)?);
            let pairs = bytes.get(HEAD..).ok_or(bad)?;
            if count > DROPS_MAX || pairs.len() != count * 16 {
                return Err(bad);
            }
            let word = |pair: &[u8], at| array(pair, at).map(u64::from_le_bytes);
            let pairs = pairs.chunks_exact(16);
            let pairs: Option<Vec<_>> = pairs.map(|p| word(p, 0).zip(word(p, 8))).collect();
            Message::Drop(pairs.ok_or(bad)?)
        } else {
            Fields::read(bytes).and_then(Fields::message).ok_or(bad)?
        };
        Ok(Self { tag, message })
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl Fields {
    fn read(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != BYTES {
            return None;
        }
        Some(Self {
            kind: bytes[0],
            flags: bytes[1],
            node: u16::from_le_bytes(array(bytes, 4)?),
            page: u64::from_le_bytes(array(bytes, 8)?),
            id: u64::from_le_bytes(array(bytes, 16)?),
            version: u64::from_le_bytes(array(bytes, 24)?),
            frame: u32::from_le_bytes(array(bytes, 32)?),
        })
    }

    fn message(self) -> Option<Message> {
        let (page, id, version, frame) = (self.page, self.id, self.version, self.frame);
        let (one, two) = (self.flags & FLAG_ONE != 0, self.flags & FLAG_TWO != 0);
        let place = Place {
            node: self.node,
            frame,
        };
        let revoke = |push| Message::Revoke {
            page,
            id,
            downgrade: one,
            push,
        };
        Some(match self.kind {
            FETCH => Message::Fetch {
                page,
                id,
                kept: version,
                frame,
                exclusive: one,
                from_home: two,
            },
            WRITE_BACK => Message::WriteBack { page, id, frame },
            GRANTED => Message::Granted {
                version,
                dirty: one,
                from_home: two,
            },
            REDIRECT => Message::Redirect { version, place, id },
            DONE => Message::Done { written: one },
            REVOKE => revoke(None),
            REVOKE_PUSH => revoke(Some(place)),
            COMPLIED => Message::Complied {
                page,
                had: one,
                dirty: two,
            },
            _ => return None,
        })
    }
}

impl Message {
    fn fields(&self) -> Fields {
        let none = Fields::default();
        match *self {
            Self::Fetch {
                page,
                id,
                kept,
                frame,
                exclusive,
                from_home,
            } => Fields {
                kind: FETCH,
                flags: flags(exclusive, from_home),
                page,
                id,
                version: kept,
                frame,
                ..none
            },
            Self::Drop(_) => Fields { kind: DROP, ..none },
            Self::WriteBack { page, id, frame } => Fields {
                kind: WRITE_BACK,
                page,
                id,
                frame,
                ..none
            },
            Self::Granted {
                version,
                dirty,
                from_home,
            } => Fields {
                kind: GRANTED,
                flags: flags(dirty, from_home),
                version,
                ..none
            },
            Self::Redirect { version, place, id } => Fields {
                kind: REDIRECT,
                node: place.node,
                frame: place.frame,
                version,
                id,
                ..none
            },
            Self::Done { written } => Fields {
                kind: DONE,
                flags: flags(written, false),
                ..none
            },
            Self::Revoke {
                page,
                id,
                downgrade,
                push,
            } => Fields {
                kind: if push.is_some() { REVOKE_PUSH } else { REVOKE },
                flags: flags(downgrade, false),
                node: push.map_or(0, |place| place.node),
                frame: push.map_or(0, |place| place.frame),
                page,
                id,
                ..none
            },
            Self::Complied { page, had, dirty } => Fields {
                kind: COMPLIED,
                flags: flags(had, dirty),
                page,
                ..none
            },
        }
    }
}

#[cfg(test)]
mod tests;
