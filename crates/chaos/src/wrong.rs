//! What all plans draw: a rack, packet faults, and disturbances with their times.

use core::fmt;
use rackweave_base::{Duration, Instant, Rng};
use rackweave_rack::RackConfig;
use rackweave_rack::config::{FaultSection, NodeConfig, Role};

/// How packet faults are drawn from a seed.
pub(crate) struct Odds {
    /// The probability that a kind of fault occurs in a run at all.
    pub share: f64,
    /// The maximum probability per packet of a kind that occurs.
    pub rate_max: f64,
    /// The maximum delay of a packet in microseconds is one of these.
    pub delays_us: &'static [u64],
}

impl Odds {
    /// Draws the packet faults. A seed keeps its run only as long as the order of draws is
    /// unchanged.
    pub fn draw(&self, rng: &mut Rng) -> FaultSection {
        let mut rate = || {
            if rng.chance(self.share) {
                rng.fraction() * self.rate_max
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

/// Numbered nodes of a role.
pub(crate) fn nodes(count: u64, name: &str, role: Role) -> Vec<NodeConfig> {
    let node = |at| NodeConfig::new(format!("{name}{at}"), role);
    (0..count).map(node).collect()
}

/// A rack of these nodes whose packet faults follow `odds`.
pub(crate) fn rack(rng: &mut Rng, memory: u64, node: Vec<NodeConfig>, odds: &Odds) -> RackConfig {
    RackConfig {
        seed: rng.next_u64() >> 1,
        memory_limit: memory,
        node,
        faults: odds.draw(rng),
        ..RackConfig::default()
    }
}

/// A time below 2^n nanoseconds, with n drawn from `least` to `most`: early is as likely as late.
pub(crate) fn some_time(rng: &mut Rng, least: u64, most: u64) -> Instant {
    let exponent = rng.between(least, most);
    Instant::from_nanos(rng.between(0, 1 << exponent))
}

/// A duration from `least` to `most` nanoseconds, both included.
pub(crate) fn nanos(rng: &mut Rng, least: u64, most: u64) -> Duration {
    Duration::from_nanos(rng.between(least, most))
}

/// Describes the faults of packets and of the rack; the end of every plan's description.
pub(crate) struct Wrong<'a, D>(pub &'a FaultSection, pub &'a [(Instant, D)]);

impl<D: fmt::Debug> fmt::Display for Wrong<'_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(faults, disturbances) = self;
        write!(
            f,
            "loss {:.3} duplicate {:.3} reorder {:.3} ({} us) corrupt {:.3}",
            faults.loss, faults.duplicate, faults.reorder, faults.reorder_delay_us, faults.corrupt,
        )?;
        for (at, disturbance) in *disturbances {
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
                let expected = match rng.fraction() < 0.5 {
                    true => rng.fraction() * 0.02,
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
        let wrong = Wrong(&faults, &disturbances);
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
