//! The model of an SSD: parallel flash units, a latency distribution, and one bus.

use crate::{devices, picos};
use rackweave_base::{Duration, Instant, Rng};

/// An access to an SSD.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SsdAccess {
    /// A read: it waits for the flash.
    Read,
    /// A write: it completes in the drive's protected buffer, and keeps the flash busy afterwards.
    Write,
}

/// A latency distribution as straight lines between quantiles. It uses only integers, so that
/// results are the same everywhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Distribution(Vec<(u32, u64)>);

/// What is wrong with a distribution's points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DistributionError {
    /// The ranks do not run from 0 to 10 000.
    #[error("a latency distribution runs from rank 0 to rank 10000")]
    Ends,
    /// A point is less than the previous one.
    #[error("point {0} of a latency distribution is not above the one before it")]
    Order(usize),
}

/// The parameters of an SSD.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SsdModel {
    /// Flash units that work in parallel.
    pub units: usize,
    /// Bytes that one unit handles at a time.
    pub unit_bytes: u32,
    /// Latency of reads.
    pub read_latency: Distribution,
    /// Latency of writes.
    pub write_latency: Distribution,
    /// How long a unit is busy with one write.
    pub write_busy: Duration,
    /// Bytes per second read.
    pub read_bytes_per_second: u64,
    /// Bytes per second written.
    pub write_bytes_per_second: u64,
}

/// The state of an SSD.
#[derive(Debug)]
pub struct Ssd {
    model: SsdModel,
    rng: Rng,
    /// Until when each unit is busy.
    units: Vec<Instant>,
    /// Until when the bus is busy, in picoseconds.
    bus: u64,
}

impl Distribution {
    /// The distribution through `points`: rank in ten-thousandths, and nanoseconds.
    ///
    /// # Errors
    /// If the points do not ascend from rank 0 to rank 10 000.
    pub fn new(points: &[(u32, u64)]) -> Result<Self, DistributionError> {
        if points.first().map(|p| p.0) != Some(0) || points.last().map(|p| p.0) != Some(10_000) {
            return Err(DistributionError::Ends);
        }
        let falls = |pair: &[(u32, u64)]| pair[1].0 <= pair[0].0 || pair[1].1 < pair[0].1;
        match points.windows(2).position(falls) {
            Some(at) => Err(DistributionError::Order(at + 1)),
            None => Ok(Self(points.to_vec())),
        }
    }

    /// Draws a latency.
    pub fn draw(&self, rng: &mut Rng) -> Duration {
        // Ranks are drawn a million times finer than the points, so that values do not clump.
        const FINE: u64 = 1_000_000;
        let rank = rng.below(10_000 * FINE);
        let after = self.0.iter().position(|p| u64::from(p.0) * FINE > rank);
        let after = after.expect("the last point is above every rank");
        let ((rank_low, low), (rank_high, high)) = (self.0[after - 1], self.0[after]);
        let (from, width) = (
            u64::from(rank_low) * FINE,
            u64::from(rank_high - rank_low) * FINE,
        );
        let above = u128::from(high - low) * u128::from(rank - from) / u128::from(width);
        Duration::from_nanos(low + above as u64)
    }
}

impl Default for SsdModel {
    /// The Samsung PM1733.
    fn default() -> Self {
        let units = devices::SSD_UNITS;
        let points = |points: &[(u32, u64)]| Distribution::new(points).expect("ours ascend");
        Self {
            units,
            unit_bytes: devices::SSD_UNIT_BYTES,
            read_latency: points(&devices::SSD_READ_LATENCY),
            write_latency: points(&devices::SSD_WRITE_LATENCY),
            write_busy: Duration::from_nanos(
                units as u64 * 1_000_000_000 / devices::SSD_WRITES_PER_SECOND,
            ),
            read_bytes_per_second: devices::SSD_READ_BYTES_PER_SECOND,
            write_bytes_per_second: devices::SSD_WRITE_BYTES_PER_SECOND,
        }
    }
}

impl Ssd {
    /// An idle SSD. A model without units gets one.
    pub fn new(model: SsdModel, rng: Rng) -> Self {
        let units = vec![Instant::ZERO; model.units.max(1)];
        Self {
            model,
            rng,
            units,
            bus: 0,
        }
    }

    /// Submits an access of `len` bytes at `now`; returns when it is complete.
    ///
    /// The units that hold the bytes are random, as addresses are spread over a drive.
    pub fn submit(&mut self, now: Instant, len: u32, access: SsdAccess) -> Instant {
        let mut complete = now;
        let mut left = len.max(1);
        while left > 0 {
            let piece = left.min(self.model.unit_bytes.max(1));
            left -= piece;
            complete = complete.max(self.piece(now, piece, access));
        }
        complete
    }

    fn piece(&mut self, now: Instant, len: u32, access: SsdAccess) -> Instant {
        let unit = self.rng.below(self.units.len() as u64) as usize;
        let start = self.units[unit].max(now);
        match access {
            SsdAccess::Read => {
                let flash = start + self.model.read_latency.draw(&mut self.rng);
                self.units[unit] = flash;
                self.transfer(flash, len, self.model.read_bytes_per_second)
            }
            SsdAccess::Write => {
                // The bytes cross the bus first; the buffer takes them as fast as flash drains it.
                let arrived = self.transfer(now, len, self.model.write_bytes_per_second);
                let start = start.max(arrived);
                self.units[unit] = start + self.model.write_busy;
                start + self.model.write_latency.draw(&mut self.rng)
            }
        }
    }

    fn transfer(&mut self, ready: Instant, len: u32, bytes_per_second: u64) -> Instant {
        let start = self.bus.max(picos::since_start(ready));
        self.bus = start + picos::transfer(u64::from(len), bytes_per_second * 8);
        picos::instant(self.bus)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(access: SsdAccess, count: usize) -> Vec<u64> {
        let mut ssd = Ssd::new(SsdModel::default(), Rng::new(5));
        let mut now = Instant::ZERO;
        let mut all: Vec<u64> = (0..count)
            .map(|_| {
                let complete = ssd.submit(now, 4096, access);
                let latency = complete.since(now).as_nanos();
                // Far enough apart that no request waits for another.
                now = complete + Duration::from_micros(500);
                latency
            })
            .collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn an_idle_ssd_has_the_latencies_of_its_distribution() {
        let reads = latencies(SsdAccess::Read, 20_000);
        let at = |rank: usize| reads[rank * (reads.len() - 1) / 10_000];
        let near = |got: u64, expect: u64| got.abs_diff(expect) * 50 <= expect;
        // The bus adds 640 ns to every 4 KiB.
        assert!(near(at(5_000), 70_640), "{}", at(5_000));
        assert!(near(at(9_000), 82_640), "{}", at(9_000));
        assert!(near(at(9_900), 105_640), "{}", at(9_900));
        assert!(reads[0] >= 55_640 && at(10_000) <= 420_640);
        let writes = latencies(SsdAccess::Write, 2_000);
        assert!(near(writes[1_000], 19_078), "{}", writes[1_000]);
    }

    /// Requests per second with `depth` always in flight.
    fn rate(access: SsdAccess, len: u32, depth: usize) -> f64 {
        let mut ssd = Ssd::new(SsdModel::default(), Rng::new(6));
        let mut queue = crate::queue::EventQueue::new(depth);
        (0..depth).for_each(|_| queue.push(Instant::ZERO, ()));
        let count = 200_000;
        let mut last = Instant::ZERO;
        for _ in 0..count {
            let (now, ()) = queue.pop().expect("as many as the depth are under way");
            last = now;
            queue.push(ssd.submit(now, len, access), ());
        }
        count as f64 / last.since(Instant::ZERO).as_secs_f64()
    }

    #[test]
    fn a_busy_ssd_has_the_rates_of_its_data_sheet() {
        let reads = rate(SsdAccess::Read, 4096, 2048);
        assert!((1.2e6..1.5e6).contains(&reads), "{reads}");
        let writes = rate(SsdAccess::Write, 4096, 2048);
        assert!((0.24e6..0.27e6).contains(&writes), "{writes}");
        let bytes = rate(SsdAccess::Read, 128 * 1024, 512) * 131_072.0;
        // Requests in flight at the end are counted, too.
        assert!((6.0e9..6.5e9).contains(&bytes), "{bytes}");
    }

    #[test]
    fn a_distribution_must_ascend_over_all_ranks() {
        assert_eq!(Distribution::new(&[]), Err(DistributionError::Ends));
        assert_eq!(
            Distribution::new(&[(0, 1), (9_999, 2)]),
            Err(DistributionError::Ends)
        );
        let falling = [(0, 5), (10, 4), (10_000, 9)];
        assert_eq!(
            Distribution::new(&falling),
            Err(DistributionError::Order(1))
        );
    }
}
