//! What arrives per second once a run is in its stride, and the run itself in slices, between which
//! the user may stop it.

use super::{ExperimentError, Run};
use core::cell::RefCell;
use rackweave_base::{Duration, Instant};
use rackweave_rack::{RunEnd, SimulatedRack};
use std::rc::Rc;

/// Virtual time between two looks at the user's wish to stop.
const SLICE: Duration = Duration::from_micros(100);

/// How long a run takes, and how much of it is not counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Span {
    /// What is not counted, from the start.
    pub warm_up: Duration,
    /// What is counted after that.
    pub counted: Duration,
}

impl Span {
    /// When the run ends, if it starts at time zero.
    pub fn end(&self) -> Instant {
        Instant::ZERO + self.warm_up + self.counted
    }
}

/// Counts bytes that consumers have taken. Many programs of one run share it.
///
/// Arrivals come in bursts, of a batch or of several at once, and a window that opens before a
/// burst and closes behind another would count one too many. So the rate is that at which the
/// *mean* of what has arrived grows from the first to the second half of the window: there, the
/// error goes down with the square of the bursts' number.
#[derive(Debug)]
pub struct Meter {
    /// Beginning, middle and end of the window.
    window: [Instant; 3],
    bytes: u64,
    now: Instant,
    /// Byte-nanoseconds: what had arrived, summed up over each half of the window.
    areas: [u128; 2],
    arrivals: u64,
    error: Option<String>,
}

impl Meter {
    /// A meter that starts when the warm-up is over.
    pub fn new(span: Span) -> Rc<RefCell<Self>> {
        let half = Duration::from_nanos(span.counted.as_nanos() / 2);
        let from = Instant::ZERO + span.warm_up;
        Rc::new(RefCell::new(Self {
            window: [from, from + half, from + half + half],
            bytes: 0,
            now: Instant::ZERO,
            areas: [0; 2],
            arrivals: 0,
            error: None,
        }))
    }

    /// Bytes were taken.
    pub fn add(&mut self, now: Instant, bytes: u64) {
        self.pass(now);
        self.bytes += bytes;
        let [from, _, until] = self.window;
        self.arrivals += u64::from(from <= now && now <= until);
    }

    /// What was taken was wrong: the run counts for nothing.
    pub fn fail(&mut self, error: impl Into<String>) {
        self.error.get_or_insert(error.into());
    }

    /// Bytes per second; asked at the end of the window.
    ///
    /// # Errors
    /// If something wrong arrived, or too little.
    pub fn bytes_per_second(&mut self) -> Result<f64, ExperimentError> {
        if let Some(error) = &self.error {
            return Err(ExperimentError::Run(error.clone()));
        }
        if self.arrivals < 4 {
            return Err(ExperimentError::Run(format!(
                "{} arrivals after the warm-up make no rate",
                self.arrivals
            )));
        }
        self.pass(self.window[2]);
        let half = (self.window[1] - self.window[0]).as_secs_f64();
        let mean = |area: u128| area as f64 * 1e-9 / half;
        Ok((mean(self.areas[1]) - mean(self.areas[0])) / half)
    }

    /// Time passes in which nothing arrives.
    fn pass(&mut self, until: Instant) {
        for (area, ends) in self.areas.iter_mut().zip(self.window.windows(2)) {
            let (from, to) = (self.now.max(ends[0]), until.min(ends[1]));
            if to > from {
                *area += u128::from(self.bytes) * u128::from((to - from).as_nanos());
            }
        }
        self.now = self.now.max(until);
    }
}

/// Where a run is among all runs of an experiment.
pub struct Sweep<'a, 'b> {
    run: &'a mut Run<'b>,
    done: usize,
    total: usize,
}

impl<'a, 'b> Sweep<'a, 'b> {
    /// A sweep of `total` runs.
    pub fn new(run: &'a mut Run<'b>, total: usize) -> Self {
        Self {
            run,
            done: 0,
            total: total.max(1),
        }
    }

    /// The seed of the simulator.
    pub fn seed(&self) -> u64 {
        self.run.seed
    }

    /// Runs `rack` to the end of `span` and says what the meter has counted.
    ///
    /// # Errors
    /// If the run stalls, something wrong arrives, or the user wishes to stop.
    pub fn measure(
        &mut self,
        rack: &mut SimulatedRack,
        span: Span,
        meter: &RefCell<Meter>,
    ) -> Result<f64, ExperimentError> {
        let end = span.end();
        while rack.now() < end {
            let share = rack.now().since(Instant::ZERO).as_secs_f64()
                / end.since(Instant::ZERO).as_secs_f64();
            if !(self.run.progress)((self.done as f64 + share) / self.total as f64) {
                return Err(ExperimentError::Interrupted);
            }
            match rack.run(end.min(rack.now() + SLICE)) {
                RunEnd::Deadline | RunEnd::Control(_) => {}
                RunEnd::Stalled => {
                    return Err(ExperimentError::Run("nothing moves any more".into()));
                }
                RunEnd::Done => {
                    return Err(ExperimentError::Run("all programs have ended early".into()));
                }
            }
            if meter.borrow().error.is_some() {
                break;
            }
        }
        self.done += 1;
        meter.borrow_mut().bytes_per_second()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPAN: Span = Span {
        warm_up: Duration::from_nanos(1_000),
        counted: Duration::from_nanos(10_000),
    };

    /// The rate of `bytes` every `every` nanoseconds from `start` on, `burst` times each.
    fn rate(start: u64, every: u64, bytes: u64, burst: u64) -> f64 {
        let meter = Meter::new(SPAN);
        let mut meter = meter.borrow_mut();
        for at in (start..11_500).step_by(every as usize) {
            for part in 0..burst {
                meter.add(Instant::from_nanos(at + part), bytes);
            }
        }
        meter.bytes_per_second().unwrap()
    }

    #[test]
    fn bursts_at_the_window_s_ends_do_not_count_for_more() {
        for start in [0, 37, 499, 501, 990] {
            let steady = rate(start, 10, 10, 1);
            assert!((steady / 1e9 - 1.0).abs() < 1e-4, "{steady} from {start}");
            let bursts = rate(start, 500, 125, 4);
            assert!((bursts / 1e9 - 1.0).abs() < 5e-3, "{bursts} from {start}");
        }
    }

    #[test]
    fn too_little_or_something_wrong_is_no_rate() {
        let meter = Meter::new(SPAN);
        let mut meter = meter.borrow_mut();
        meter.add(Instant::from_nanos(50), 1_000_000);
        meter.add(Instant::from_nanos(2_000), 500);
        assert!(meter.bytes_per_second().is_err(), "one arrival is no rate");
        for at in [3_000, 5_000, 6_000, 9_000] {
            meter.add(Instant::from_nanos(at), 500);
        }
        assert!(meter.bytes_per_second().is_ok());
        meter.fail("wrong");
        assert!(meter.bytes_per_second().is_err());
    }
}
