//! Sessions: recognition of repeated writes.
//!
//! A client opens a session with a server, and has one write in flight in each of its slots. The
//! server keeps the number and the reply of the last write in each slot. A session that was dropped
//! to make space, or that belongs to a former incarnation of the server, is unknown. Writes in it
//! are refused, since it is unknown whether they were executed before.

use rackweave_base::{Duration, Instant};
use rackweave_wire::fabric::lookup::{Once, Opened};
use std::collections::HashMap;

/// Maximum length of a reply to a write: an outcome and a version.
const ANSWER_MAX: usize = 9;

/// The reply to a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Recorded {
    bytes: [u8; ANSWER_MAX],
    len: u8,
}

impl Recorded {
    /// `None` if it is longer than any reply to a write.
    pub fn new(answer: &[u8]) -> Option<Self> {
        let mut bytes = [0; ANSWER_MAX];
        bytes.get_mut(..answer.len())?.copy_from_slice(answer);
        let len = answer.len() as u8;
        Some(Self { bytes, len })
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

/// How to handle a write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// Execute it, once. Then [`Sessions::record`] takes the reply.
    New,
    /// It was executed; this was the reply.
    Done(Recorded),
    /// Another thread is executing it. The client will send it again.
    UnderWay,
    /// Its slot has a newer write: the client has given it up.
    Late,
    /// The session or the slot does not exist.
    Unknown,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// The number of the last write.
    last: u64,
    /// Its reply; `None` while it is being executed, and initially.
    answer: Option<Recorded>,
}

struct Session {
    number: u64,
    /// The request that opened it.
    opened_by: u64,
    used: Instant,
    slots: Box<[Slot]>,
}

/// The sessions of a server, shared by its threads.
pub(super) struct Sessions {
    /// The number of the next session. Servers begin at random numbers, so no number is used twice.
    next: u64,
    max: usize,
    slots: u16,
    keep: Duration,
    by_client: HashMap<u64, Session>,
    pub opened: u64,
    pub evicted: u64,
}

impl core::fmt::Debug for Sessions {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let open = self.by_client.len();
        f.debug_struct("Sessions").field("open", &open).finish()
    }
}

impl Sessions {
    pub fn new(incarnation: u64, max: u32, slots: u16, keep: Duration) -> Self {
        Self {
            next: incarnation,
            max: max.max(1) as usize,
            slots: slots.max(1),
            keep,
            by_client: HashMap::new(),
            opened: 0,
            evicted: 0,
        }
    }

    /// Opens a session for a client, by request `id`. If the request is a duplicate or late,
    /// returns the session that the client has. `None` if no session is free.
    pub fn open(&mut self, now: Instant, client: u64, id: u64) -> Option<Opened> {
        let known = self.by_client.get(&client);
        let is_new = known.is_none_or(|session| session.opened_by < id);
        if is_new {
            if known.is_none() && self.by_client.len() == self.max {
                self.evict(now)?;
            }
            let session = Session {
                number: self.next,
                opened_by: id,
                used: now,
                slots: vec![Slot::default(); usize::from(self.slots)].into(),
            };
            self.next = self.next.wrapping_add(1);
            self.opened += 1;
            self.by_client.insert(client, session);
        }
        let session = self.by_client.get_mut(&client)?;
        session.used = session.used.max(now);
        Some(Opened {
            session: session.number,
            keep_ns: self.keep.as_nanos(),
            slots: self.slots,
        })
    }

    /// Drops the session that was unused for longest, if that is long enough.
    fn evict(&mut self, now: Instant) -> Option<()> {
        let sessions = self.by_client.iter();
        // Among equals the client with the least number, so that runs are reproducible.
        let oldest = sessions.map(|(&client, session)| (session.used, client));
        let (used, client) = oldest.min()?;
        if now < used + self.keep {
            return None;
        }
        self.by_client.remove(&client);
        self.evicted += 1;
        Some(())
    }

    fn slot(&mut self, client: u64, once: Once) -> Option<(&mut Instant, &mut Slot)> {
        let session = self.by_client.get_mut(&client)?;
        if session.number != once.session {
            return None;
        }
        let slot = session.slots.get_mut(usize::from(once.slot))?;
        Some((&mut session.used, slot))
    }

    /// Classifies write `id` of a client.
    pub fn judge(&mut self, now: Instant, client: u64, id: u64, once: Once) -> Verdict {
        let Some((used, slot)) = self.slot(client, once) else {
            return Verdict::Unknown;
        };
        *used = now.max(*used);
        if id < slot.last || id == 0 {
            return Verdict::Late;
        }
        if id == slot.last {
            return slot.answer.map_or(Verdict::UnderWay, Verdict::Done);
        }
        *slot = Slot {
            last: id,
            answer: None,
        };
        Verdict::New
    }

    /// Records the reply to write `id`, which was classified as new.
    pub fn record(&mut self, client: u64, id: u64, once: Once, answer: Recorded) {
        // The session may have been replaced by a new one meanwhile.
        if let Some((_, slot)) = self.slot(client, once)
            && slot.last == id
        {
            slot.answer = Some(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: Duration = Duration::from_millis(1);

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn once(session: u64, slot: u16) -> Once {
        Once { session, slot }
    }

    #[test]
    fn a_write_is_new_once() {
        let mut sessions = Sessions::new(100, 2, 2, KEEP);
        let opened = sessions.open(at(0), 7, 1).unwrap();
        assert_eq!((opened.session, opened.slots), (100, 2));
        let answer = Recorded::new(b"done").unwrap();
        let mut judge = |id, once| sessions.judge(at(1), 7, id, once);
        assert_eq!(judge(5, once(100, 0)), Verdict::New);
        assert_eq!(judge(5, once(100, 0)), Verdict::UnderWay);
        assert_eq!(judge(6, once(100, 1)), Verdict::New);
        for unknown in [once(100, 2), once(99, 0)] {
            assert_eq!(judge(7, unknown), Verdict::Unknown);
        }
        sessions.record(7, 5, once(100, 0), answer);
        let mut judge = |id| sessions.judge(at(1), 7, id, once(100, 0));
        assert_eq!(judge(5), Verdict::Done(answer));
        assert_eq!((judge(4), judge(0)), (Verdict::Late, Verdict::Late));
        assert_eq!(judge(8), Verdict::New);
        assert_eq!(judge(5), Verdict::Late, "the slot has gone on");
        // A reply that arrives after its slot has a newer write belongs to no write.
        sessions.record(7, 5, once(100, 0), answer);
        assert_eq!(sessions.judge(at(1), 7, 8, once(100, 0)), Verdict::UnderWay);
        assert_eq!(sessions.judge(at(1), 8, 9, once(100, 0)), Verdict::Unknown);
        assert_eq!(Recorded::new(&[0; 10]), None);
    }

    #[test]
    fn opening_twice_is_opening_once_unless_it_is_meant() {
        let mut sessions = Sessions::new(100, 2, 2, KEEP);
        let first = sessions.open(at(0), 7, 5);
        assert_eq!(sessions.open(at(0), 7, 5), first);
        assert_eq!(sessions.open(at(0), 7, 4), first, "late");
        assert_eq!(sessions.judge(at(0), 7, 6, once(100, 0)), Verdict::New);
        assert_eq!(sessions.open(at(0), 7, 9).unwrap().session, 101);
        assert_eq!(sessions.judge(at(0), 7, 6, once(100, 0)), Verdict::Unknown);
        assert_eq!(sessions.judge(at(0), 7, 6, once(101, 0)), Verdict::New);
        assert_eq!((sessions.opened, sessions.evicted), (2, 0));
    }

    #[test]
    fn only_sessions_that_rest_make_room() {
        let mut sessions = Sessions::new(100, 2, 1, KEEP);
        assert!(sessions.open(at(0), 1, 1).is_some());
        assert!(sessions.open(at(10), 2, 1).is_some());
        assert_eq!(sessions.judge(at(500), 1, 2, once(100, 0)), Verdict::New);
        assert_eq!(sessions.open(at(1009), 3, 1), None, "both are kept still");
        assert!(sessions.open(at(1010), 3, 1).is_some());
        assert_eq!(
            sessions.judge(at(1010), 2, 2, once(101, 0)),
            Verdict::Unknown
        );
        assert_eq!(
            sessions.judge(at(1010), 1, 2, once(100, 0)),
            Verdict::UnderWay
        );
        assert_eq!((sessions.opened, sessions.evicted), (3, 1));
    }
}
