//! Messages between the nodes, and their layout in a SEND: words of eight bytes.
//!
//! ```text
//! kind (upper half) and tag (lower half) | four words of the message, those that it lacks zero
//! ```
//! [`Message::Drop`] has as many pairs of page and id after the first word as it names pages. Every
//! request is answered once, under its tag, so that no node has more messages in flight than it has
//! tags.

/// Words of the longest message, few enough to be inline in a work request.
pub const WORDS_MAX: usize = 1 + 2 * DROPS_MAX;

/// Maximum pages that one message drops.
pub const DROPS_MAX: usize = 14;

const FETCH: u64 = 1;
const DROP: u64 = 2;
const LOADED: u64 = 3;
const REDIRECT: u64 = 4;
const DROPPED: u64 = 5;

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
    /// Answer to a fetch: the page has been written into the frame.
    Loaded,
    /// Answer to a fetch: the page is to be read there.
    Redirect(Holder),
    /// Answer to a drop.
    Dropped,
}

impl Message {
    /// The message as words, with the tag of its request.
    pub fn words(&self, tag: u16) -> Vec<u64> {
        let (kind, body) = match self {
            Self::Fetch(fetch) => {
                let (frame, from_storage) = (fetch.frame.into(), fetch.from_storage.into());
                (FETCH, vec![fetch.page, fetch.id, frame, from_storage])
            }
            Self::Drop(copies) => {
                let pairs = copies.iter().flat_map(|&(page, id)| [page, id]);
                (DROP, pairs.collect())
            }
            Self::Loaded => (LOADED, vec![0; 4]),
            Self::Redirect(Holder { node, frame, id }) => {
                (REDIRECT, vec![u64::from(*node), u64::from(*frame), *id, 0])
            }
            Self::Dropped => (DROPPED, vec![0; 4]),
        };
        let mut words = vec![kind << 32 | u64::from(tag)];
        words.extend(body);
        words
    }

    /// The tag and the message in `words`; `None` if they are invalid.
    pub fn read(words: &[u64]) -> Option<(u16, Self)> {
        let (&head, body) = words.split_first()?;
        let message = match (head >> 32, body) {
            (FETCH, &[page, id, frame, from_storage @ 0..=1]) => Self::Fetch(Fetch {
                page,
                id,
                frame: u32::try_from(frame).ok()?,
                from_storage: from_storage == 1,
            }),
            (DROP, pairs) if pairs.len() % 2 == 0 => {
                let pairs = pairs.as_chunks::<2>().0.iter();
                Self::Drop(pairs.map(|&[page, id]| (page, id)).collect())
            }
            (LOADED, [0, 0, 0, 0]) => Self::Loaded,
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
