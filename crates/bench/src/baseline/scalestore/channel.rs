//! One end of a connection over which messages are sent.
//!
//! Every tag has a send buffer and a receive buffer at either end. As no tag is reused before its
//! answer has arrived, every SEND finds a receive, and no buffer is written while it is sent.
//!
//! The layout of a message in a SEND, in words of eight bytes:
//! ```text
//! kind (upper half) and tag (lower half) | four words of the message, those that it lacks zero
//! ```
//! [`Message::Drop`] has as many pairs of page and id after the first word as it names pages. Every
//! request is answered once, under its tag, so that no node has more messages in flight than it has
//! tags.

use crate::baseline::verbs::{NodeEnd, SET_UP, on_nic, post, post_receive, region};
use crate::harness::prelude::*;

/// Bytes of a message's buffer.
const BUFFER: u64 = 256;

/// The subject of a completion, in the top byte of its id: a message has arrived.
pub const RECEIVED: u64 = 1 << 56;
/// A page was read from another node.
pub const READ: u64 = 2 << 56;
/// A page was written to another node.
pub const WRITTEN: u64 = 3 << 56;
/// A message was sent; only failures complete.
const SENT: u64 = 4 << 56;

/// The top byte of a completion's id.
pub fn kind(id: u64) -> u64 {
    id & (0xff << 56)
}

/// The lower bytes: the number of a channel in the upper half, a buffer, tag or slot in the lower.
pub fn parts(id: u64) -> (u32, u32) {
    ((id >> 32) as u32 & 0x00ff_ffff, id as u32)
}

/// One end of a connection.
#[derive(Clone, Debug)]
pub struct Channel {
    pub qpn: Qpn,
    number: u32,
    /// Its buffers: receive buffers, then send buffers.
    region: Region,
    tags: u32,
}

impl Channel {
    /// A channel with this many tags over `qpn` of `node_end`, with a receive posted for each. Its
    /// completions bear `number`.
    pub fn open(rack: &Rack, node_end: &NodeEnd, qpn: Qpn, number: u32, tags: u32) -> Result<Self> {
        let bytes = 2 * tags as usize * BUFFER as usize;
        let channel = Self {
            qpn,
            number,
            region: region(rack, node_end.node, node_end.pd, bytes)?,
            tags,
        };
        for buffer in 0..tags {
            let receive = channel.receive_into(buffer);
            on_nic(rack, node_end.node, |nic| nic.post_receive(qpn, receive))?.or_failed(SET_UP)?;
        }
        Ok(channel)
    }

    fn receive_into(&self, buffer: u32) -> ReceiveRequest {
        let at = u64::from(buffer) * BUFFER;
        let id = RECEIVED | u64::from(self.number) << 32 | u64::from(buffer);
        ReceiveRequest::new(id, &[self.region.segment(at, BUFFER as u32)])
    }

    /// Sends a message from the buffer of `tag`.
    pub fn send(
        &self,
        context: &mut Context<'_>,
        tag: u16,
        message: &Message,
    ) -> Result<(), Failure> {
        let words = message.words(tag);
        let at = u64::from(self.tags + u32::from(tag)) * BUFFER;
        for (&word, at) in words.iter().zip((at as usize..).step_by(8)) {
            self.region.block.word(at).store(word, Ordering::Release);
        }
        let segment = self.region.segment(at, 8 * words.len() as u32);
        let operation = Operation::Send { immediate: None };
        let mut request = WorkRequest::new(SENT, operation, &[segment]);
        request.signaled = false;
        post(context, self.qpn, request)
    }

    /// Takes the message that has arrived in a buffer, with its tag, and posts the buffer again.
    pub fn receive(
        &self,
        context: &mut Context<'_>,
        completion: &Completion,
    ) -> Result<(u16, Message), Failure> {
        let (_, buffer) = parts(completion.id);
        let at = (u64::from(buffer) * BUFFER) as usize;
        let count = (completion.length as usize / 8).min(WORDS_MAX);
        let word = |at| self.region.block.word(at).load(Ordering::Acquire);
        let words: Vec<u64> = (0..count).map(|index| word(at + 8 * index)).collect();
        let message = Message::read(&words)
            .ok_or_else(|| format!("{} bytes that came are no message", completion.length))?;
        post_receive(context, self.qpn, self.receive_into(buffer))?;
        Ok(message)
    }
}

/// Words of the longest message, few enough to be inline in a work request.
const WORDS_MAX: usize = 1 + 2 * DROPS_MAX;

/// Maximum pages that one message drops.
pub const DROPS_MAX: usize = 14;

const FETCH: u64 = 1;
const DROP: u64 = 2;
const LOADED: u64 = 3;
const REDIRECT: u64 = 4;
const DROPPED: u64 = 5;
const COPY: u64 = 6;
const GONE: u64 = 7;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fetch {
    pub page: u64,
    /// The number of this request at its node; it identifies the copy that the node holds because
    /// of it.
    pub id: u64,
    pub frame: u32,
    /// Whether the page is to come from storage: a redirection has failed before.
    pub from_storage: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    pub node: u16,
    pub frame: u32,
    /// The id of the request by which the node has it.
    pub id: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    /// To the owner: request for a page.
    Fetch(Fetch),
    /// To the owner: evicted copies, as pairs of page and id.
    Drop(Vec<(u64, u64)>),
    /// Answer to a fetch or copy: the page has been written into the frame.
    Loaded {
        /// Whether it was read from storage for this request.
        from_storage: bool,
    },
    /// Answer to a fetch: the page is to be read there.
    Redirect(Holder),
    /// Answer to a drop.
    Dropped,
    /// To a node that has a page: request for it.
    Copy(Fetch),
    /// Answer to a copy: the node does not have the page.
    Gone,
}

impl Fetch {
    fn words(&self) -> Vec<u64> {
        let (frame, from_storage) = (self.frame.into(), self.from_storage.into());
        vec![self.page, self.id, frame, from_storage]
    }

    fn read(words: &[u64]) -> Option<Self> {
        let &[page, id, frame, from_storage @ 0..=1] = words else {
            return None;
        };
        Some(Self {
            page,
            id,
            frame: u32::try_from(frame).ok()?,
            from_storage: from_storage == 1,
        })
    }
}

impl Message {
    /// The message as words, with the tag of its request.
    pub fn words(&self, tag: u16) -> Vec<u64> {
        let (kind, body) = match self {
            Self::Fetch(fetch) => (FETCH, fetch.words()),
            Self::Copy(fetch) => (COPY, fetch.words()),
            Self::Drop(copies) => {
                let pairs = copies.iter().flat_map(|&(page, id)| [page, id]);
                (DROP, pairs.collect())
            }
            Self::Loaded { from_storage } => (LOADED, vec![u64::from(*from_storage), 0, 0, 0]),
            Self::Redirect(Holder { node, frame, id }) => {
                (REDIRECT, vec![u64::from(*node), u64::from(*frame), *id, 0])
            }
            Self::Dropped => (DROPPED, vec![0; 4]),
            Self::Gone => (GONE, vec![0; 4]),
        };
        let mut words = vec![kind << 32 | u64::from(tag)];
        words.extend(body);
        words
    }

    /// The tag and the message in `words`; `None` if they are invalid.
    pub fn read(words: &[u64]) -> Option<(u16, Self)> {
        let (&head, body) = words.split_first()?;
        let message = match (head >> 32, body) {
            (FETCH, body) => Self::Fetch(Fetch::read(body)?),
            (COPY, body) => Self::Copy(Fetch::read(body)?),
            (DROP, pairs) if pairs.len() % 2 == 0 => {
                let pairs = pairs.as_chunks::<2>().0.iter();
                Self::Drop(pairs.map(|&[page, id]| (page, id)).collect())
            }
            (LOADED, [from_storage @ 0..=1, 0, 0, 0]) => Self::Loaded {
                from_storage: *from_storage == 1,
            },
            (GONE, [0, 0, 0, 0]) => Self::Gone,
            (REDIRECT, &[node, frame, id, 0]) => Self::Redirect(Holder {
                node: u16::try_from(node).ok()?,
                frame: u32::try_from(frame).ok()?,
                id,
            }),
            (DROPPED, [0, 0, 0, 0]) => Self::Dropped,
            _ => return None,
        };
        Some((u16::try_from(head & u64::from(u32::MAX)).ok()?, message))
    }
}

#[cfg(test)]
mod tests;
