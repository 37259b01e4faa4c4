//! The server side of sequencers: local atomics behind an RPC method.
//!
//! A counter is in the server's memory and dies with it. Its name is a random number that no other
//! counter has ever had. So clients of a lost counter get an error, even from a server that has
//! created new counters.

use crate::rpc::{Service, Status, Writer};
use core::sync::atomic::{AtomicU64, Ordering};
use rackweave_base::Instant;
use rackweave_wire::fabric::sequencer::{NEXT, NUMBERS_END, RANGE_MAX, Request};
use std::collections::BTreeMap;
use std::sync::{Arc, RwLock};

/// No counter has this name.
pub(super) const UNKNOWN: Status = Status(1);
/// The counter has no more numbers.
pub(super) const EXHAUSTED: Status = Status(2);
/// The requested count is zero or too large.
const BAD_COUNT: Status = Status(3);

/// Why a counter returned no numbers, or was not created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CounterError {
    /// No counter has this name.
    #[error("there is no counter {0:#x}")]
    Unknown(u64),
    /// A counter with this name exists.
    #[error("there is a counter {0:#x} already; names are to be random")]
    Exists(u64),
    /// The count is zero or too large.
    #[error("{0} numbers in one range; 1 to {RANGE_MAX} are possible")]
    BadCount(u64),
    /// Numbers end at 2^63.
    #[error("counter {name:#x} stands at {next}; numbers end at 2^63")]
    Exhausted {
        /// The name of the counter.
        name: u64,
        /// Its next number.
        next: u64,
    },
}

/// The counters of a server, shared by all its threads.
#[derive(Clone, Debug, Default)]
pub struct Counters {
    by_name: Arc<RwLock<BTreeMap<u64, Arc<AtomicU64>>>>,
}

impl Counters {
    /// An empty set of counters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a counter whose first number is `first`.
    ///
    /// # Errors
    /// If a counter with this name exists, or `first` is above the largest number.
    pub fn create(&self, name: u64, first: u64) -> Result<(), CounterError> {
        if first >= NUMBERS_END {
            return Err(CounterError::Exhausted { name, next: first });
        }
        let mut counters = self.by_name.write().expect("no holder of this lock panics");
        if counters.contains_key(&name) {
            return Err(CounterError::Exists(name));
        }
        counters.insert(name, Arc::new(AtomicU64::new(first)));
        Ok(())
    }

    /// Removes a counter. False if it does not exist.
    pub fn remove(&self, name: u64) -> bool {
        let mut counters = self.by_name.write().expect("no holder of this lock panics");
        counters.remove(&name).is_some()
    }

    /// The next number of a counter at this moment; `None` if the counter does not exist.
    pub fn at(&self, name: u64) -> Option<u64> {
        let counters = self.by_name.read().expect("no holder of this lock panics");
        Some(counters.get(&name)?.load(Ordering::Acquire))
    }

    /// Takes `count` numbers and returns the first.
    ///
    /// # Errors
    /// If the counter does not exist, the count is out of range, or fewer numbers are left.
    pub fn next(&self, name: u64, count: u64) -> Result<u64, CounterError> {
        if !(1..=RANGE_MAX).contains(&count) {
            return Err(CounterError::BadCount(count));
        }
        let counters = self.by_name.read().expect("no holder of this lock panics");
        let counter = counters.get(&name).ok_or(CounterError::Unknown(name))?;
        let raised = |next: u64| Some(next + count).filter(|&end| end <= NUMBERS_END);
        counter
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, raised)
            .map_err(|next| CounterError::Exhausted { name, next })
    }
}

/// Serves requests for numbers. A service with more methods may forward requests for
/// [`rackweave_wire::fabric::sequencer::NEXT`] to it.
#[derive(Clone, Debug)]
pub struct CounterService {
    counters: Counters,
}

impl CounterService {
    /// A service for these counters.
    pub fn new(counters: Counters) -> Self {
        Self { counters }
    }
}

impl Service for CounterService {
    fn serve(
        &mut self,
        _now: Instant,
        _client: u32,
        method: u16,
        request: &[u8],
        reply: &mut Writer<'_>,
    ) -> Status {
        if method != NEXT {
            return Status::UNKNOWN_METHOD;
        }
        let Some(Request { sequencer, count }) = Request::parse(request) else {
            return Status::MALFORMED;
        };
        match self.counters.next(sequencer, count) {
            Ok(first) => {
                // The writer reports a reply that does not fit.
                let _fits = reply.push(&first.to_le_bytes());
                Status::OK
            }
            Err(CounterError::Unknown(_) | CounterError::Exists(_)) => UNKNOWN,
            Err(CounterError::Exhausted { .. }) => EXHAUSTED,
            Err(CounterError::BadCount(_)) => BAD_COUNT,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn serve(service: &mut CounterService, method: u16, request: &[u8]) -> (Status, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, 64);
        let status = service.serve(Instant::ZERO, 3, method, request, &mut writer);
        (status, bytes)
    }

    #[test]
    fn a_counter_gives_each_number_once() {
        let counters = Counters::new();
        assert_eq!(counters.create(7, 100), Ok(()));
        assert_eq!(counters.create(7, 0), Err(CounterError::Exists(7)));
        assert_eq!(counters.next(7, 5), Ok(100));
        assert_eq!(counters.next(8, 5), Err(CounterError::Unknown(8)));
        let mut service = CounterService::new(counters.clone());
        let ask = |count| {
            let request = Request {
                sequencer: 7,
                count,
            };
            request.emit()
        };
        let (status, bytes) = serve(&mut service, NEXT, &ask(2));
        assert_eq!((status, bytes), (Status::OK, 105u64.to_le_bytes().to_vec()));
        assert_eq!(counters.next(7, 1), Ok(107));
        assert!(counters.remove(7) && !counters.remove(7));
        assert_eq!(serve(&mut service, NEXT, &ask(2)).0, UNKNOWN);
    }

    #[test]
    fn what_makes_no_sense_changes_nothing() {
        let counters = Counters::new();
        let end = CounterError::Exhausted {
            name: 1,
            next: NUMBERS_END,
        };
        assert_eq!(counters.create(1, NUMBERS_END), Err(end));
        assert_eq!(counters.create(1, NUMBERS_END - 4), Ok(()));
        let mut service = CounterService::new(counters.clone());
        let mut check = |sequencer, count, expect| {
            let request = Request { sequencer, count }.emit();
            assert_eq!(serve(&mut service, NEXT, &request).0, expect);
        };
        check(1, 0, BAD_COUNT);
        check(1, RANGE_MAX + 1, BAD_COUNT);
        check(1, u64::MAX, BAD_COUNT);
        check(1, 5, EXHAUSTED);
        check(2, 1, UNKNOWN);
        assert_eq!(serve(&mut service, NEXT, &[0; 15]).0, Status::MALFORMED);
        assert_eq!(serve(&mut service, NEXT, &[]).0, Status::MALFORMED);
        assert_eq!(serve(&mut service, 9, &[0; 16]).0, Status::UNKNOWN_METHOD);
        assert_eq!(counters.next(1, 4), Ok(NUMBERS_END - 4));
        assert!(counters.next(1, 1).is_err());
    }

    #[test]
    fn threads_share_a_counter() {
        const EACH: u64 = 1000;
        let counters = Counters::new();
        assert_eq!(counters.create(5, 0), Ok(()));
        let take = || -> Result<Vec<u64>, _> { (0..EACH).map(|_| counters.next(5, 3)).collect() };
        let mut firsts: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
            let taken = threads.into_iter().map(|thread| thread.join());
            taken
                .flat_map(|taken| taken.expect("no panic").expect("enough"))
                .collect()
        });
        firsts.sort_unstable();
        assert!(firsts.iter().copied().eq((0..4 * EACH).map(|at| at * 3)));
    }
}
