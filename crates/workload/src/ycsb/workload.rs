//! The core workloads, their mixes of operations, and how keys are chosen.
//!
//! Source: Cooper et al. 2010, table 2, and the property files `workloada` to `workloadf`.

use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};

rackweave_base::named! {
    /// A core workload of YCSB.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Workload {
        /// Update heavy: half reads, half updates.
        A = "a",
        /// Read mostly: 95 % reads, 5 % updates.
        B = "b",
        /// Read only.
        #[default]
        C = "c",
        /// Read latest: 95 % reads, most of them of new records, 5 % inserts.
        D = "d",
        /// Short ranges: 95 % scans, 5 % inserts.
        E = "e",
        /// Half reads, half read-modify-writes.
        F = "f",
    }
}

rackweave_base::named! {
    /// How keys are chosen.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Distribution {
        /// Uniform over all records.
        Uniform = "uniform",
        /// Zipfian by record number: record 0 is the hottest, and hot records are neighbours.
        Zipfian = "zipfian",
        /// Zipfian, with the hot records spread over all; what YCSB calls `zipfian`.
        Scrambled = "scrambled",
        /// Zipfian by age: the newest record is the hottest.
        Latest = "latest",
    }
}

/// Shares of the operations in per cent; they add up to 100.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mix {
    /// Reads of one record.
    pub read: u8,
    /// Updates of one record.
    pub update: u8,
    /// New records.
    pub insert: u8,
    /// Reads of a range.
    pub scan: u8,
    /// Reads that are followed by an update of the same record.
    pub read_modify_write: u8,
}

/// One operation of a workload.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Operation {
    /// Read a record.
    Read {
        /// The record's number.
        key: u64,
    },
    /// Rewrite a record without looking at its content (beyond its version).
    Update {
        /// The record's number.
        key: u64,
    },
    /// Add a record. It has no number yet: the next free one is taken from the workers' shared
    /// [`InsertCounter`](super::InsertCounter) when the insert starts.
    Insert,
    /// Read neighbouring records, in the order of their numbers.
    Scan {
        /// The first record's number.
        key: u64,
        /// Number of records; fewer if the last record comes before.
        length: u32,
    },
    /// Read and verify a record, then rewrite it.
    ReadModifyWrite {
        /// The record's number.
        key: u64,
    },
}

/// A name that is not a workload.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no YCSB workload `{0}`; choose one of a, b, c, d, e, f")]
pub struct UnknownWorkload(pub String);

/// A name that is not a distribution.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no distribution `{0}`; choose one of uniform, zipfian, scrambled, latest")]
pub struct UnknownDistribution(pub String);

impl Workload {
    /// Its mix of operations.
    pub const fn mix(self) -> Mix {
        let none = Mix {
            read: 0,
            update: 0,
            insert: 0,
            scan: 0,
            read_modify_write: 0,
        };
        match self {
            Self::A => Mix {
                read: 50,
                update: 50,
                ..none
            },
            Self::B => Mix {
                read: 95,
                update: 5,
                ..none
            },
            Self::C => Mix { read: 100, ..none },
            Self::D => Mix {
                read: 95,
                insert: 5,
                ..none
            },
            Self::E => Mix {
                scan: 95,
                insert: 5,
                ..none
            },
            Self::F => Mix {
                read: 50,
                read_modify_write: 50,
                ..none
            },
        }
    }

    /// Its default distribution.
    pub const fn distribution(self) -> Distribution {
        match self {
            Self::D => Distribution::Latest,
            _ => Distribution::Scrambled,
        }
    }
}

impl Operation {
    /// The record that it starts at, if it already has a number.
    pub const fn key(self) -> Option<u64> {
        match self {
            Self::Read { key }
            | Self::Update { key }
            | Self::Scan { key, .. }
            | Self::ReadModifyWrite { key } => Some(key),
            Self::Insert => None,
        }
    }

    /// Whether it changes a record or adds one.
    pub const fn writes(self) -> bool {
        matches!(
            self,
            Self::Update { .. } | Self::Insert | Self::ReadModifyWrite { .. }
        )
    }
}

impl FromStr for Workload {
    type Err = UnknownWorkload;

    /// Accepts upper or lower case.
    fn from_str(name: &str) -> Result<Self, UnknownWorkload> {
        let is_named = |workload: &Self| workload.name().eq_ignore_ascii_case(name);
        let found = Self::ALL.into_iter().find(is_named);
        found.ok_or_else(|| UnknownWorkload(name.to_owned()))
    }
}

impl FromStr for Distribution {
    type Err = UnknownDistribution;

    fn from_str(name: &str) -> Result<Self, UnknownDistribution> {
        let found = Self::ALL.into_iter().find(|one| one.name() == name);
        found.ok_or_else(|| UnknownDistribution(name.to_owned()))
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}
