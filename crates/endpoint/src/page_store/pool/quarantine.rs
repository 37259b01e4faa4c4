//! Buffer frames with voided headers, kept until no transfer can be reading them any more.
//!
//! A transfer that started before the header was voided may still read the buffer frame. The switch
//! counts such transfers in two groups. All are over when the switch has confirmed twice, for
//! questions asked after the voiding, that a group has ended.

use rackweave_base::{Duration, Instant};
use std::collections::VecDeque;

/// After this time without an answer another worker asks too, since the first may be asleep.
const STALLED: Duration = Duration::from_micros(200);

/// The quarantine of one pool.
#[derive(Debug, Default)]
pub(super) struct Quarantine {
    /// Oldest first, so those with more answers come first.
    frames: VecDeque<Voided>,
    /// Counts voidings and questions, to order them.
    clock: u64,
    asked_at: Option<Instant>,
}

#[derive(Debug)]
struct Voided {
    frame: u32,
    at: u64,
    heard: u8,
}

impl Quarantine {
    pub fn push(&mut self, frame: u32) {
        self.clock += 1;
        self.frames.push_back(Voided {
            frame,
            at: self.clock,
            heard: 0,
        });
    }

    /// Starts a question, if one is due. Pass the returned value to [`Self::heard`].
    pub fn ask(&mut self, now: Instant) -> Option<u64> {
        let waits = self.asked_at.is_some_and(|at| now.since(at) < STALLED);
        if self.frames.is_empty() || waits {
            return None;
        }
        self.asked_at = Some(now);
        self.clock += 1;
        Some(self.clock)
    }

    /// Handles the answer to a question; `ended` if it is yes. Buffer frames that become free are
    /// appended to `free`.
    pub fn heard(&mut self, question: u64, ended: bool, free: &mut Vec<u32>) {
        self.asked_at = None;
        if !ended {
            return;
        }
        for voided in self.frames.iter_mut().take_while(|v| v.at < question) {
            voided.heard += 1;
        }
        let ended = self.frames.iter().take_while(|v| v.heard >= 2).count();
        free.extend(self.frames.drain(..ended).map(|voided| voided.frame));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    #[test]
    fn two_answers_to_questions_asked_afterwards() {
        let (mut quarantine, mut free) = (Quarantine::default(), Vec::new());
        assert_eq!(quarantine.ask(at(0)), None, "nothing to ask for");
        quarantine.push(1);
        let first = quarantine.ask(at(0)).unwrap();
        assert_eq!(quarantine.ask(at(1)), None, "it was asked already");
        quarantine.push(2);
        quarantine.heard(first, true, &mut free);
        let second = quarantine.ask(at(2)).unwrap();
        quarantine.heard(second, false, &mut free);
        assert!(free.is_empty(), "the answer was no");
        let third = quarantine.ask(at(3)).unwrap();
        quarantine.heard(third, true, &mut free);
        assert_eq!(
            free,
            [1],
            "two answers came since 1 was voided, one since 2"
        );
        let fourth = quarantine.ask(at(4)).unwrap();
        quarantine.heard(fourth, true, &mut free);
        assert_eq!(free, [1, 2]);
    }

    #[test]
    fn one_who_never_hears_does_not_hold_up_others() {
        let (mut quarantine, mut free) = (Quarantine::default(), Vec::new());
        quarantine.push(1);
        let asleep = quarantine.ask(at(0)).unwrap();
        let other = quarantine.ask(at(0) + STALLED).unwrap();
        quarantine.heard(other, true, &mut free);
        quarantine.push(2);
        quarantine.heard(asleep, true, &mut free);
        assert_eq!(free, [1]);
    }
}
