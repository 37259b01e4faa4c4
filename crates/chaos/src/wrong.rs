//! What goes wrong in a run, whatever is attacked: faults of packets, and disturbances by time.

use core::fmt;
use rackweave_base::{Instant, Rng};
use rackweave_rack::config::FaultSection;

/// How seeds draw the faults of packets.
pub(crate) struct Odds {
    /// How likely a kind of fault happens in a run at all.
    pub share: f64,
    /// The probability per packet of a kind that does, at most.
    pub rate_max: f64,
    /// For how many microseconds packets may be held back at most: one of these.
    pub delays_us: &'static [u64],
}

impl Odds {
    /// Draws. A seed means the same run only as long as the order of what is drawn stays.
    pub fn draw(&self, rng: &mut Rng) -> FaultSection {
        let mut rate = || {
            if rng.chance(self.share) {
                rng.unit() * self.rate_max
            } else {
                0.0
            }
        };
        let (loss, duplicate, reorder, corrupt) = (rate(), rate(), rate(), rate());
        FaultSection {
            loss,
            duplicate,
            reorder,
            corrupt,
            reorder_delay_us: *rng.pick(self.delays_us),
        }
    }
}

/// What goes wrong, in words: how every plan ends.
pub(crate) struct Wrong<'a, D> {
    /// To packets.
    pub faults: &'a FaultSection,
    /// To the rack.
    pub disturbances: &'a [(Instant, D)],
}

impl<D: fmt::Debug> fmt::Display for Wrong<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = self.faults;
        write!(
            f,
            "loss {:.3} duplicate {:.3} reorder {:.3} ({} us) corrupt {:.3}",
            faults.loss, faults.duplicate, faults.reorder, faults.reorder_delay_us, faults.corrupt,
        )?;
        for (at, disturbance) in self.disturbances {
            write!(f, ", {disturbance:?} at {at:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_and_delays_stay_within_the_odds_and_come_in_a_fixed_order() {
        let odds = Odds {
            share: 0.5,
            rate_max: 0.02,
            delays_us: &[1, 50],
        };
        for seed in 0..200 {
            let faults = odds.draw(&mut Rng::new(seed));
            let mut rng = Rng::new(seed);
            let rates = [
                faults.loss,
                faults.duplicate,
                faults.reorder,
                faults.corrupt,
            ];
            for rate in rates {
                let expected = match rng.unit() < 0.5 {
                    true => rng.unit() * 0.02,
                    false => 0.0,
                };
                assert_eq!(rate, expected, "seed {seed}: {faults:?}");
                assert!((0.0..0.02).contains(&rate), "seed {seed}: {faults:?}");
            }
            let delay = [1, 50][rng.below(2) as usize];
            assert_eq!(faults.reorder_delay_us, delay, "seed {seed}");
        }
    }

    #[test]
    fn plans_end_with_faults_and_then_what_happens_when() {
        let faults = FaultSection {
            loss: 0.01,
            corrupt: 0.0204,
            reorder_delay_us: 50,
            ..FaultSection::default()
        };
        let disturbances = [(Instant::from_nanos(7), "a crash")];
        let wrong = Wrong {
            faults: &faults,
            disturbances: &disturbances,
        };
        let at = Instant::from_nanos(7);
        assert_eq!(
            wrong.to_string(),
            format!(
                "loss 0.010 duplicate 0.000 reorder 0.000 (50 us) corrupt 0.020, \"a crash\" at \
                 {at:?}"
            )
        );
    }
}
