//! The operations of one worker, one after the other.

use super::options::{OptionsError, YcsbOptions};
use super::scatter::{Scatter, mix};
use super::workload::{Distribution, Mix, Operation};
use super::zipf::Zipf;
use rackweave_base::Rng;

/// Draws the operations of one worker.
///
/// The same options, worker and numbers of inserted records give the same operations. All workers
/// of a run have the same hot records, since the positions of ranks depend on the seed only.
#[derive(Clone, Debug)]
pub struct Generator {
    rng: Rng,
    mix: Mix,
    distribution: Distribution,
    zipf: Zipf,
    scatter: Scatter,
    /// Records at the start.
    records: u64,
    scan_length_max: u32,
}

impl Generator {
    /// The generator of worker `worker`, counted from zero.
    ///
    /// # Errors
    /// If the options do not pass [`YcsbOptions::validate`].
    pub fn new(options: &YcsbOptions, worker: u32) -> Result<Self, OptionsError> {
        options.validate()?;
        let zipf = Zipf::new(options.records, options.theta);
        let mut rng = Rng::new(options.seed);
        Ok(Self {
            rng: rng.fork(&format!("ycsb worker {worker}")),
            mix: options.workload.mix(),
            distribution: options.distribution(),
            zipf: zipf.expect("options that are valid give a distribution"),
            scatter: Scatter::new(options.records, mix(options.seed)),
            records: options.records,
            scan_length_max: options.scan_length_max,
        })
    }

    /// Draws the next operation. `inserted` is the number of records: those of the start and those
    /// whose insert was acknowledged, without a gap. Keys are below it.
    pub fn next(&mut self, inserted: u64) -> Operation {
        let inserted = inserted.max(self.records);
        let Mix {
            read,
            update,
            insert,
            scan,
            ..
        } = self.mix;
        let at = self.rng.below(100) as u8;
        if at < read {
            let key = self.key(inserted);
            Operation::Read { key }
        } else if at < read + update {
            let key = self.key(inserted);
            Operation::Update { key }
        } else if at < read + update + insert {
            Operation::Insert
        } else if at < read + update + insert + scan {
            let key = self.key(inserted);
            let length = self.rng.between(1, u64::from(self.scan_length_max)) as u32;
            Operation::Scan { key, length }
        } else {
            let key = self.key(inserted);
            Operation::ReadModifyWrite { key }
        }
    }

    fn key(&mut self, inserted: u64) -> u64 {
        if self.distribution == Distribution::Uniform {
            return self.rng.below(inserted);
        }
        if self.zipf.ranks() != inserted {
            self.zipf.resize(inserted);
        }
        let rank = self.zipf.sample(&mut self.rng);
        match self.distribution {
            // Only the records of the start are scattered: if the bijection covered all current
            // records, every insert would make other records hot. This is a bijection at every
            // moment, and a new record enters as the coldest.
            Distribution::Scrambled => self.scatter.apply(rank),
            Distribution::Latest => inserted - 1 - rank,
            Distribution::Zipfian | Distribution::Uniform => rank,
        }
    }
}
