//! Decides when another plan is worth loading.
//!
//! The paper does not say when its controller makes a new plan. Here, weights of keys are collected
//! and fade with age, and periodically a new plan is made from them. It is worthwhile if it leads
//! queries so much closer to their leaves that a good part of the READs is saved. Trees change,
//! too: the active plan is judged by the current trees.

use super::outline::TreeOutline;
use super::plan::{IndexPlan, PlanError, PlanLimits, plan};
use super::trees_now::LevelsNow;
use super::weights::KeyWeights;
use rackweave_base::{Duration, Instant};

/// When and how much to adapt.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct AdapterConfig {
    /// How often weights are collected.
    pub every: Duration,
    /// The age at which a weight is halved; at least a nanosecond.
    pub half_life: Duration,
    /// The fraction of all READs that a new plan must save, from 0 to 1.
    pub gain: f64,
    /// Minimum total weight for a decision.
    pub weight_min: f64,
    /// Maximum ranges of keys with weights of their own.
    pub ranges_max: usize,
}

impl Default for AdapterConfig {
    /// Weights are collected once a second and halve in four seconds; a new plan must save a
    /// twentieth of all READs, which is a quarter of a level in a tree of five levels, and needs a
    /// thousand queries.
    fn default() -> Self {
        Self {
            every: Duration::from_secs(1),
            half_life: Duration::from_secs(4),
            gain: 0.05,
            weight_min: 1000.0,
            ranges_max: 1 << 16,
        }
    }
}

/// Whether to load another plan.
#[derive(Clone, PartialEq, Debug)]
pub enum Verdict {
    /// Too little is known of the load.
    Unknown,
    /// The active plan is good enough.
    Keep {
        /// READs per query with the active plan.
        reads: f64,
        /// READs per query with the best plan.
        reads_best: f64,
    },
    /// Another plan is worthwhile.
    Replace {
        /// The new plan.
        plan: Box<IndexPlan>,
        /// READs per query with the active plan.
        reads: f64,
        /// READs per query with the new plan.
        reads_best: f64,
    },
}

/// Collects weights and judges plans.
#[derive(Clone, Debug)]
pub struct Adapter {
    config: AdapterConfig,
    weights: KeyWeights,
    /// The moment that the weights refer to.
    as_of: Instant,
    due: Instant,
}

impl Adapter {
    /// An adapter without weights.
    pub fn new(config: AdapterConfig, now: Instant) -> Self {
        Self {
            config,
            weights: KeyWeights::default(),
            as_of: now,
            due: now + config.every,
        }
    }

    /// When weights are to be collected next: hits of the switches, samples of servers.
    pub fn poll_timeout(&self) -> Instant {
        self.due
    }

    /// Adds the weights since the previous call. The next call is due one interval after `now`.
    pub fn handle_weights(&mut self, now: Instant, weights: &KeyWeights) {
        self.fade_until(now);
        self.weights.add(weights);
        self.weights.simplify(self.config.ranges_max);
        self.due = now + self.config.every;
    }

    fn fade_until(&mut self, now: Instant) {
        let passed = now.since(self.as_of).as_secs_f64();
        let half_life = self.config.half_life.as_secs_f64().max(1e-9);
        self.weights.fade((-passed / half_life).exp2());
        self.as_of = self.as_of.max(now);
    }

    /// The known weights.
    pub fn weights(&self) -> &KeyWeights {
        &self.weights
    }

    /// Whether to load another plan in place of the active one.
    ///
    /// # Errors
    /// As [`plan`].
    pub fn judge(
        &self,
        active: Option<&IndexPlan>,
        trees: &[TreeOutline],
        limits: &PlanLimits,
    ) -> Result<Verdict, PlanError> {
        if self.weights.is_empty() || self.weights.total() < self.config.weight_min {
            return Ok(Verdict::Unknown);
        }
        let best = plan(trees, &self.weights, limits)?;
        let levels = LevelsNow::new(trees);
        let reads = levels.reads(active, &self.weights);
        let reads_best = levels.reads(Some(&best), &self.weights);
        Ok(if reads_best < reads * (1.0 - self.config.gain) {
            Verdict::Replace {
                plan: Box::new(best),
                reads,
                reads_best,
            }
        } else {
            Verdict::Keep { reads, reads_best }
        })
    }
}

#[cfg(test)]
#[path = "adapt_tests.rs"]
mod tests;
