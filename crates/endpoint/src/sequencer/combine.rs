//! Which calls share a request, and how the response is split among them.
//!
//! Calls are numbered in the order in which they begin, requests in the order in which they are
//! sent. A request takes waiting calls, oldest first, and its range is split in that order. So a
//! call needs no record but its count: one queue holds the calls of all requests in flight,
//! followed by the waiting calls.

use super::{BeginError, Done, SequencerError, Ticket};
use rackweave_wire::fabric::sequencer::{NUMBERS_END, RANGE_MAX};
use std::collections::VecDeque;

/// A request in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Batch {
    /// The number of its calls.
    calls: u32,
    /// The sum of their counts.
    total: u64,
    answer: Option<Result<u64, SequencerError>>,
}

/// The oldest request, while its range is being split.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Split {
    calls: u32,
    /// The next number, or the reason why there is none.
    next: Result<u64, SequencerError>,
}

/// Calls, requests and responses of one client.
#[derive(Debug)]
pub(super) struct Combiner {
    /// Maximum number of calls per request.
    calls_max: u32,
    /// Maximum number of requests in flight.
    requests_max: u32,
    /// Maximum number of pending calls.
    waiting_max: usize,
    /// The count of each pending call, oldest first.
    counts: VecDeque<u64>,
    /// The number of the oldest pending call.
    first_call: u64,
    /// How many pending calls are in no request yet. They are the newest ones.
    unsent: usize,
    batches: VecDeque<Batch>,
    /// The number of the oldest request in flight.
    first_batch: u64,
    split: Option<Split>,
}

impl Combiner {
    pub fn new(calls_max: u32, requests_max: u32, waiting_max: usize) -> Self {
        Self {
            calls_max,
            requests_max,
            waiting_max,
            counts: VecDeque::with_capacity(waiting_max),
            first_call: 0,
            unsent: 0,
            batches: VecDeque::with_capacity(requests_max as usize),
            first_batch: 0,
            split: None,
        }
    }

    /// Accepts a call.
    #[inline]
    pub fn begin(&mut self, count: u64) -> Result<Ticket, BeginError> {
        if count == 0 || count > RANGE_MAX {
            return Err(BeginError::BadCount(count));
        }
        if self.counts.len() == self.waiting_max {
            return Err(BeginError::Full(self.waiting_max));
        }
        let ticket = Ticket(self.first_call + self.counts.len() as u64);
        self.counts.push_back(count);
        self.unsent += 1;
        Ok(ticket)
    }

    /// Makes the next request, if calls wait and another request may be in flight. Returns its
    /// number and the sum of its counts.
    #[inline]
    pub fn next_request(&mut self) -> Option<(u64, u64)> {
        if self.unsent == 0 || self.batches.len() >= self.requests_max as usize {
            return None;
        }
        let (mut calls, mut total) = (0u32, 0u64);
        let first = self.counts.len() - self.unsent;
        for &count in self.counts.range(first..).take(self.calls_max as usize) {
            if total + count > RANGE_MAX {
                break;
            }
            total += count;
            calls += 1;
        }
        self.unsent -= calls as usize;
        let number = self.first_batch + self.batches.len() as u64;
        self.batches.push_back(Batch {
            calls,
            total,
            answer: None,
        });
        Some((number, total))
    }

    /// Handles the response to a request: the first number of the range, or the reason why there is
    /// none. A response to a request that is not in flight has no effect.
    pub fn answered(&mut self, number: u64, answer: Result<u64, SequencerError>) {
        let at = number.checked_sub(self.first_batch);
        let batch = at.and_then(|at| self.batches.get_mut(usize::try_from(at).ok()?));
        let Some(batch) = batch.filter(|batch| batch.answer.is_none()) else {
            return;
        };
        batch.answer = Some(
            answer.and_then(|first| match first.checked_add(batch.total) {
                Some(end) if end <= NUMBERS_END => Ok(first),
                _ => Err(SequencerError::Exhausted),
            }),
        );
    }

    /// Whether a request is in flight and unanswered.
    pub fn is_awaited(&self, number: u64) -> bool {
        let at = number.checked_sub(self.first_batch);
        let batch = at.and_then(|at| self.batches.get(usize::try_from(at).ok()?));
        batch.is_some_and(|batch| batch.answer.is_none())
    }

    /// Ends all calls with this error, except those whose response has arrived.
    pub fn fail_all(&mut self, error: SequencerError) {
        for batch in &mut self.batches {
            batch.answer.get_or_insert(Err(error));
        }
        if self.unsent > 0 {
            // An additional request that is never sent.
            self.batches.push_back(Batch {
                calls: self.unsent as u32,
                total: 0,
                answer: Some(Err(error)),
            });
            self.unsent = 0;
        }
    }

    /// The next completed call, in the order in which calls began.
    #[inline]
    pub fn poll(&mut self) -> Option<Done> {
        let split = match &mut self.split {
            Some(split) => split,
            none => {
                let next = self.batches.front()?.answer?;
                let batch = self.batches.pop_front()?;
                self.first_batch += 1;
                none.insert(Split {
                    calls: batch.calls,
                    next,
                })
            }
        };
        let count = self.counts.pop_front()?;
        let result = split.next.map(|first| first..first + count);
        split.next = split.next.map(|first| first + count);
        split.calls -= 1;
        if split.calls == 0 {
            self.split = None;
        }
        let ticket = Ticket(self.first_call);
        self.first_call += 1;
        Some(Done { ticket, result })
    }

    /// Pending calls.
    pub fn len(&self) -> usize {
        self.counts.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BROKEN: SequencerError = SequencerError::Unknown;

    #[test]
    fn what_waits_goes_into_the_next_request_together() {
        let mut calls = Combiner::new(8, 1, 16);
        assert_eq!(calls.begin(3), Ok(Ticket(0)));
        assert_eq!(calls.next_request(), Some((0, 3)));
        for (count, ticket) in [(1, 1), (5, 2), (2, 3)] {
            assert_eq!(calls.begin(count), Ok(Ticket(ticket)));
        }
        assert_eq!(calls.next_request(), None, "one is under way");
        calls.answered(0, Ok(100));
        let done = |ticket, range| {
            Some(Done {
                ticket: Ticket(ticket),
                result: Ok(range),
            })
        };
        assert_eq!(calls.poll(), done(0, 100..103));
        assert_eq!(calls.poll(), None);
        assert_eq!(calls.next_request(), Some((1, 8)));
        calls.answered(1, Ok(200));
        calls.answered(1, Ok(999));
        assert_eq!(calls.poll(), done(1, 200..201));
        assert_eq!(calls.poll(), done(2, 201..206));
        assert_eq!(calls.poll(), done(3, 206..208));
        assert_eq!((calls.poll(), calls.len()), (None, 0));
    }

    #[test]
    fn a_request_asks_for_no_more_than_one_may() {
        let mut calls = Combiner::new(8, 4, 16);
        for count in [RANGE_MAX, 1, RANGE_MAX - 1, 2] {
            assert!(calls.begin(count).is_ok());
        }
        assert_eq!(calls.next_request(), Some((0, RANGE_MAX)));
        assert_eq!(calls.next_request(), Some((1, RANGE_MAX)));
        assert_eq!(calls.next_request(), Some((2, 2)));
        assert_eq!(calls.begin(0), Err(BeginError::BadCount(0)));
        let many = RANGE_MAX + 1;
        assert_eq!(calls.begin(many), Err(BeginError::BadCount(many)));
        let mut single = Combiner::new(1, 2, 3);
        for _ in 0..3 {
            assert!(single.begin(7).is_ok());
        }
        assert_eq!(single.begin(7), Err(BeginError::Full(3)));
        assert_eq!(single.next_request(), Some((0, 7)));
        assert_eq!(single.next_request(), Some((1, 7)));
        assert_eq!(single.next_request(), None);
    }

    #[test]
    fn numbers_beyond_the_end_are_nobodys() {
        let mut calls = Combiner::new(8, 4, 16);
        for _ in 0..3 {
            assert!(calls.begin(2).is_ok());
            assert!(calls.next_request().is_some());
        }
        calls.answered(0, Ok(NUMBERS_END - 2));
        calls.answered(1, Ok(NUMBERS_END - 1));
        calls.answered(2, Ok(u64::MAX));
        let result = calls.poll().unwrap().result;
        assert_eq!(result, Ok(NUMBERS_END - 2..NUMBERS_END));
        for _ in 0..2 {
            let result = calls.poll().unwrap().result;
            assert_eq!(result, Err(SequencerError::Exhausted));
        }
    }

    #[test]
    fn a_break_ends_all_calls_but_those_that_are_answered() {
        let mut calls = Combiner::new(2, 2, 16);
        for _ in 0..7 {
            assert!(calls.begin(1).is_ok());
        }
        while calls.next_request().is_some() {}
        calls.answered(1, Ok(50));
        calls.fail_all(BROKEN);
        let results: Vec<_> = core::iter::from_fn(|| calls.poll())
            .map(|done| done.result.map(|range| range.start))
            .collect();
        let broken = Err(BROKEN);
        let expect = [broken, broken, Ok(50), Ok(51), broken, broken, broken];
        assert_eq!(results, expect);
        assert_eq!(calls.begin(1), Ok(Ticket(7)));
        // A late response belongs to no request.
        let (number, _) = calls.next_request().unwrap();
        calls.answered(0, Ok(1));
        calls.answered(2, Ok(1));
        assert_eq!(calls.poll(), None);
        assert!(calls.is_awaited(number));
    }

    proptest! {
        /// However requests are combined, split and reordered, the resulting ranges are those given
        /// to the requests, without overlap, and tickets are in order.
        #[test]
        fn every_call_gets_its_own_part(
            calls_max in 1u32..6,
            requests_max in 1u32..5,
            steps in proptest::collection::vec((0u8..4, 1u64..9), 1..200),
        ) {
            let mut calls = Combiner::new(calls_max, requests_max, 32);
            let (mut next, mut asked, mut got) = (0u64, Vec::new(), Vec::new());
            let mut under_way: Vec<(u64, u64)> = Vec::new();
            for (step, value) in steps {
                match step {
                    0 | 1 => if let Ok(Ticket(ticket)) = calls.begin(value) {
                        prop_assert_eq!(ticket, asked.len() as u64);
                        asked.push(value);
                    },
                    2 => if let Some((number, total)) = calls.next_request() {
                        under_way.push((number, next));
                        next += total;
                    },
                    _ => if !under_way.is_empty() {
                        let at = value as usize % under_way.len();
                        let (number, first) = under_way.swap_remove(at);
                        calls.answered(number, Ok(first));
                    },
                }
                while let Some(done) = calls.poll() {
                    prop_assert_eq!(done.ticket, Ticket(got.len() as u64));
                    got.push(done.result.unwrap());
                }
            }
            prop_assert_eq!(calls.len(), asked.len() - got.len());
            let mut end = 0;
            for (range, count) in got.iter().zip(&asked) {
                prop_assert_eq!((range.start, range.end), (end, end + count));
                end = range.end;
            }
        }
    }
}
