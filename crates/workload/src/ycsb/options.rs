//! The options of a run.

use super::record;
use super::workload::{Distribution, Workload};
use super::zipf::{Zipf, ZipfError};
use serde::{Deserialize, Serialize};

/// A run of YCSB.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct YcsbOptions {
    /// The mix of operations.
    pub workload: Workload,
    /// Records at the start.
    pub records: u64,
    /// Operations of all workers together.
    pub operations: u64,
    /// How keys are chosen; the workload's default if none is given.
    pub distribution: Option<Distribution>,
    /// The skew of every distribution except the uniform: 0 to 1.5, 0.99 as in YCSB.
    pub theta: f64,
    /// The seed of everything random.
    pub seed: u64,
    /// Bytes of a record: a multiple of 8, at least 32; 1000 as in YCSB.
    pub record_size: u32,
    /// Maximum records of a scan; lengths are uniform from 1 to it. 100 as in YCSB.
    pub scan_length_max: u32,
}

/// Why options are invalid.
#[derive(Clone, Copy, PartialEq, Debug, thiserror::Error)]
pub enum OptionsError {
    /// No records, or more than can be addressed.
    #[error("{0} records; use 1 to {max}", max = YcsbOptions::RECORDS_MAX)]
    Records(u64),
    /// More operations than versions can count.
    #[error("{0} operations; use at most {max}", max = YcsbOptions::OPERATIONS_MAX)]
    Operations(u64),
    /// The skew is out of range.
    #[error("Zipfian skew {0} is out of range; use 0 (uniform) to {max}", max = Zipf::THETA_MAX)]
    Theta(f64),
    /// Records of this size have no layout.
    #[error(
        "a record of {0} bytes; use a multiple of 8 from {min} to {max}",
        min = record::SIZE_MIN, max = record::SIZE_MAX
    )]
    RecordSize(u32),
    /// Scans of no record, or of too many.
    #[error("scans of up to {0} records; use 1 to {max}", max = YcsbOptions::SCAN_LENGTH_MAX)]
    ScanLength(u32),
}

impl Default for YcsbOptions {
    fn default() -> Self {
        Self {
            workload: Workload::default(),
            records: 100_000,
            operations: 100_000,
            distribution: None,
            theta: 0.99,
            seed: 1,
            record_size: 1000,
            scan_length_max: 100,
        }
    }
}

impl YcsbOptions {
    /// Maximum records at the start.
    pub const RECORDS_MAX: u64 = 1 << 40;
    /// Maximum operations: one record may get all of them, and versions are checked in 40 bits.
    pub const OPERATIONS_MAX: u64 = (1 << 40) - 1;
    /// Maximum length of a scan.
    pub const SCAN_LENGTH_MAX: u32 = 1 << 16;

    /// Checks whether this can be run.
    ///
    /// # Errors
    /// The first option that is out of range.
    pub fn validate(&self) -> Result<(), OptionsError> {
        if !(1..=Self::RECORDS_MAX).contains(&self.records) {
            return Err(OptionsError::Records(self.records));
        }
        if self.operations > Self::OPERATIONS_MAX {
            return Err(OptionsError::Operations(self.operations));
        }
        match Zipf::new(self.records, self.theta) {
            Ok(_) => {}
            Err(ZipfError::Theta(theta)) => return Err(OptionsError::Theta(theta)),
            Err(ZipfError::Ranks(ranks)) => return Err(OptionsError::Records(ranks)),
        }
        if !record::is_size(self.record_size as usize) {
            return Err(OptionsError::RecordSize(self.record_size));
        }
        if !(1..=Self::SCAN_LENGTH_MAX).contains(&self.scan_length_max) {
            return Err(OptionsError::ScanLength(self.scan_length_max));
        }
        Ok(())
    }

    /// How keys are chosen.
    pub fn distribution(&self) -> Distribution {
        self.distribution.unwrap_or(self.workload.distribution())
    }

    /// Required capacity for records: those of the start and the inserts to come. The number of
    /// inserts is random; this is its mean plus eight standard deviations, so that a run
    /// practically never needs more (and if it does, its inserts are only refused).
    pub fn records_max(&self) -> u64 {
        let share = f64::from(self.workload.mix().insert) / 100.0;
        let mean = self.operations as f64 * share;
        let deviation = (mean * (1.0 - share)).sqrt();
        let inserts = (mean + 8.0 * deviation).ceil() as u64;
        self.records + inserts.min(self.operations)
    }
}
