//! What a server does with requests.

use rackweave_base::Instant;
use rackweave_wire::fabric::rpc::Status;

/// Carries requests out.
pub trait Service {
    /// Carries out `request` of `client`, a number that is the client's until [`Service::left`],
    /// and writes the answer to `reply`. Requests of one client come in the order in which it began
    /// them. What a peer sends must never panic here: a service answers
    /// [`Status::UNKNOWN_METHOD`] to a method that it does not have and [`Status::MALFORMED`] to
    /// a request that makes no sense.
    fn serve(
        &mut self,
        now: Instant,
        client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status;

    /// A client is gone: its connection broke. Its number may be given to another.
    fn left(&mut self, client: u32) {
        let _ = client;
    }
}

/// Where an answer is written.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
    max: usize,
    overflowed: bool,
}

impl<'a> Writer<'a> {
    /// An answer of up to `max` bytes that is appended to `bytes`. A server makes one for each
    /// request; services' tests may make their own.
    pub fn new(bytes: &'a mut Vec<u8>, max: usize) -> Self {
        Self {
            start: bytes.len(),
            bytes,
            max,
            overflowed: false,
        }
    }

    /// Appends `piece`. If the answer becomes longer than a reply may be, nothing is appended, now
    /// or later, and the client gets [`Status::REPLY_TOO_LARGE`]. False then.
    #[inline]
    pub fn push(&mut self, piece: &[u8]) -> bool {
        self.overflowed |= piece.len() > self.left();
        if !self.overflowed {
            self.bytes.extend_from_slice(piece);
        }
        !self.overflowed
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.start
    }

    /// Whether nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that still fit.
    pub fn left(&self) -> usize {
        self.max - self.len()
    }

    /// What was written so far, to be changed.
    pub fn written(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Takes back what was written, also if it was too much.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.start);
        self.overflowed = false;
    }

    /// Whether more was written than fits.
    pub fn has_overflowed(&self) -> bool {
        self.overflowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_too_long_stays_out_until_it_is_taken_back() {
        let mut bytes = b"before".to_vec();
        let mut writer = Writer::new(&mut bytes, 5);
        assert!(writer.is_empty() && writer.push(b"abc"));
        assert_eq!((writer.len(), writer.left()), (3, 2));
        assert!(!writer.push(b"def"));
        assert!(
            !writer.push(b"d"),
            "a gap in an answer would be worse than none"
        );
        assert!(writer.has_overflowed());
        writer.clear();
        assert!(writer.push(b"vwxyz") && !writer.has_overflowed());
        writer.written()[0] = b'V';
        assert_eq!(bytes, b"beforeVwxyz");
    }
}
