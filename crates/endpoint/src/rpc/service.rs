//! The interface by which a server executes requests.

use rackweave_base::Instant;
use rackweave_wire::fabric::rpc::Status;

/// Executes requests.
pub trait Service {
    /// Executes `request` of `client` and writes the reply to `reply`. `client` is a number that
    /// identifies the client until [`Service::left`]. Requests of one client arrive in the order in
    /// which it began them. What a peer sends must never cause a panic here: a service returns
    /// [`Status::UNKNOWN_METHOD`] for a method that it does not have and [`Status::MALFORMED`] for
    /// an invalid request.
    fn serve(
        &mut self,
        now: Instant,
        client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status;

    /// Continues the request of `client` that was deferred as `number` ([`Writer::defer`]): writes
    /// the reply, or defers it again. Called at every poll of the server, in the order in which the
    /// client's requests were deferred, before newer requests of the client are served. A service
    /// that never defers needs no such function.
    fn resume(&mut self, now: Instant, client: u32, number: u64, reply: &mut Writer<'_>) -> Status {
        let _ = (now, client, number, reply);
        Status::UNKNOWN_METHOD
    }

    /// A client has left: its connection broke, or was closed. Its deferred requests get no reply.
    /// Its number may be assigned to another client.
    fn left(&mut self, client: u32) {
        let _ = client;
    }
}

/// The destination of a reply.
#[derive(Debug)]
pub struct Writer<'a> {
    bytes: &'a mut Vec<u8>,
    start: usize,
    max: usize,
    overflowed: bool,
    deferred: Option<u64>,
}

impl<'a> Writer<'a> {
    /// A writer of up to `max` bytes, appended to `bytes`. A server creates one for each request;
    /// tests of services may create their own.
    pub fn new(bytes: &'a mut Vec<u8>, max: usize) -> Self {
        Self {
            start: bytes.len(),
            bytes,
            max,
            overflowed: false,
            deferred: None,
        }
    }

    /// Appends `piece`. If the reply exceeds the maximum, returns false: nothing is appended, now
    /// or later, and the client gets [`Status::REPLY_TOO_LARGE`].
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

    /// Whether nothing has been written yet.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that still fit.
    pub fn left(&self) -> usize {
        self.max - self.len()
    }

    /// The bytes written so far, for modification.
    pub fn written(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }

    /// Discards what was written, and any overflow.
    pub fn clear(&mut self) {
        self.bytes.truncate(self.start);
        self.overflowed = false;
    }

    /// The reply follows later: nothing is sent now, and the server asks for it by
    /// [`Service::resume`] with this number. Returns the status for the service to return, which
    /// is never sent.
    pub fn defer(&mut self, number: u64) -> Status {
        self.clear();
        self.deferred = Some(number);
        Status::OK
    }

    /// The number by which the reply was deferred.
    pub fn deferred(&self) -> Option<u64> {
        self.deferred
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
