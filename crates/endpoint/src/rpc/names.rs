//! Encoding of work request ids: the connection and the buffer.

/// This bit is set in the ids of receive requests.
const RECEIVE: u64 = 1 << 63;
/// Bits of a connection's generation.
const GENERATION: u16 = 0x7fff;

/// A connection at one end: an index into a table, and how often that entry was used before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Connection {
    pub index: u16,
    generation: u16,
}

/// The event that a completion reports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Event {
    /// The messages up to the one with this number have been sent.
    Sent(u32),
    /// This receive buffer holds a message.
    Received(u32),
}

impl Connection {
    pub const fn new(index: u16, generation: u16) -> Self {
        Self {
            index,
            generation: generation & GENERATION,
        }
    }

    const fn base(self) -> u64 {
        (self.generation as u64) << 48 | (self.index as u64) << 32
    }

    /// The id of a message's work request.
    pub const fn sent(self, number: u32) -> u64 {
        self.base() | number as u64
    }

    /// The id of a receive request.
    pub const fn received(self, buffer: u32) -> u64 {
        RECEIVE | self.base() | buffer as u64
    }
}

/// Decodes an id.
pub(super) const fn of(id: u64) -> (Connection, Event) {
    let connection = Connection::new((id >> 32) as u16, (id >> 48) as u16);
    let value = id as u32;
    let event = match id & RECEIVE {
        0 => Event::Sent(value),
        _ => Event::Received(value),
    };
    (connection, event)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_there_and_back() {
        for connection in [
            Connection::new(0, 0),
            Connection::new(u16::MAX, 0x7fff),
            Connection::new(3, 0xffff),
        ] {
            for value in [0, 1, u32::MAX] {
                let sent = of(connection.sent(value));
                assert_eq!(sent, (connection, Event::Sent(value)));
                let received = of(connection.received(value));
                assert_eq!(received, (connection, Event::Received(value)));
            }
        }
        assert_eq!(Connection::new(1, 0x8000), Connection::new(1, 0));
    }
}
