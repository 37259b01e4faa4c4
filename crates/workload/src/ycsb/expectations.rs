//! The versions that a read may see while other workers update.
//!
//! An update begins, makes version `v + 1` of version `v` under the page's latch, and commits. If
//! each update is counted once, a record's version is the number of its updates. So:
//!
//! - a read sees at least every version that was committed, or seen by any worker, before it began;
//! - a read sees at most as many updates as have begun;
//! - no two updates commit the same version: the second would have overwritten a version that it
//!   had not read;
//! - uncommitted versions up to the newest are those of pending updates.
//!
//! One word per record holds all of this; it is shared by all workers without a lock.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The known versions of all records, shared by all workers. Eight bytes per record.
///
/// If there are more records than may be tracked, every n-th is tracked; the others are not
/// checked, and neither are those beyond the end.
#[derive(Debug)]
pub struct Expectations {
    words: Box<[AtomicU64]>,
    /// Records whose number this divides are tracked.
    stride: u64,
}

/// The minimum version that a read must see.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[must_use = "give it to after_read"]
pub struct Floor(u64);

/// A read saw an impossible version.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StaleRead {
    /// A newer version existed before the read began.
    #[error("record {key} was read in version {version}, and had version {floor} before")]
    Old {
        /// The record.
        key: u64,
        /// The version that was read.
        version: u64,
        /// The version known before.
        floor: u64,
    },
    /// Fewer updates have begun than this version needs.
    #[error("record {key} was read in version {version}, and at most {limit} updates have begun")]
    Unborn {
        /// The record.
        key: u64,
        /// The version that was read.
        version: u64,
        /// The newest possible version.
        limit: u64,
    },
}

/// An impossible update.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UpdateError {
    /// Two updates made the same version.
    #[error("an update was lost: record {key} got version {version} twice (newest {newest})")]
    Lost {
        /// The record.
        key: u64,
        /// The version that was committed.
        version: u64,
        /// The newest known version.
        newest: u64,
    },
    /// Fewer updates have begun than this version needs.
    #[error("record {key} got version {version}, and at most {limit} updates have begun")]
    Unborn {
        /// The record.
        key: u64,
        /// The version that was committed.
        version: u64,
        /// The newest possible version.
        limit: u64,
    },
    /// An update ended that had not begun.
    #[error("an update of record {key} ended, and none was under way")]
    NotBegun {
        /// The record.
        key: u64,
    },
    /// More updates than can be counted.
    #[error("{max} updates of record {key} are under way, more are not counted", max = COUNT_MAX)]
    TooMany {
        /// The record.
        key: u64,
    },
    /// Updates are missing at the end.
    #[error(
        "record {key}: {under_way} updates did not end, and of the versions up to {newest}, \
         {missing} were never committed"
    )]
    Unsettled {
        /// The record.
        key: u64,
        /// Updates that began and did not end.
        under_way: u64,
        /// The newest known version.
        newest: u64,
        /// Versions up to it that no update has committed.
        missing: u64,
    },
}

/// The state of one record.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The newest version that was committed or read.
    newest: u64,
    /// Updates that began and did not end.
    under_way: u64,
    /// Versions up to the newest that no update has committed. Their updates are pending.
    missing: u64,
}

/// Bits of each of the two counts in a word; the version has the 40 bits above them.
const COUNT_BITS: u32 = 12;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const VERSION_MAX: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;

impl Expectations {
    /// Tracks records `0..records`, in version 0. At most `remembered` of them are tracked, every
    /// n-th, and at least one.
    pub fn new(records: u64, remembered: u64) -> Self {
        let stride = records.div_ceil(remembered.max(1)).max(1);
        let words = 0..records.div_ceil(stride);
        Self {
            words: words.map(|_| AtomicU64::new(0)).collect(),
            stride,
        }
    }

    /// One record in this many is tracked.
    pub const fn stride(&self) -> u64 {
        self.stride
    }

    /// The minimum version that a read of `key` beginning now must see.
    pub fn before_read(&self, key: u64) -> Floor {
        let word = self.word(key).map(|word| word.load(SeqCst));
        Floor(word.map_or(0, |word| Known::from(word).newest))
    }

    /// Checks a read that has ended: `version` is that of the verified record, `floor` is from
    /// before it began. From now on, no read may see an older version.
    ///
    /// # Errors
    /// If it could not have seen this version.
    pub fn after_read(&self, key: u64, version: u64, floor: Floor) -> Result<(), StaleRead> {
        let Some(word) = self.word(key) else {
            return Ok(());
        };
        let Floor(floor) = floor;
        if version < floor {
            return Err(StaleRead::Old {
                key,
                version,
                floor,
            });
        }
        change(word, |known| {
            let limit = known.limit();
            if version > limit {
                return Err(StaleRead::Unborn {
                    key,
                    version,
                    limit,
                });
            }
            Ok(known.raise(version))
        })
    }

    /// Records that an update of `key` is about to begin: from now on, a read may see it.
    ///
    /// # Errors
    /// If too many are pending to be counted; it is then not counted.
    pub fn begin_update(&self, key: u64) -> Result<(), UpdateError> {
        self.change(key, |mut known| {
            if known.under_way == COUNT_MAX {
                return Err(UpdateError::TooMany { key });
            }
            known.under_way += 1;
            Ok(known)
        })
    }

    /// Records that an update of `key` has ended and made version `version`: every read that begins
    /// from now on must see it. Calls may be in another order than the versions.
    ///
    /// # Errors
    /// If another update has made this version, or too few have begun; nothing changes then.
    pub fn commit_update(&self, key: u64, version: u64) -> Result<(), UpdateError> {
        self.change(key, |known| {
            let Known {
                newest, under_way, ..
            } = known;
            if under_way == 0 {
                return Err(UpdateError::NotBegun { key });
            }
            let limit = known.limit();
            if version > limit {
                return Err(UpdateError::Unborn {
                    key,
                    version,
                    limit,
                });
            }
            let mut known = known.raise(version);
            // Now `version` is one of those up to the newest. Check whether one is uncommitted.
            if version == 0 || known.missing == 0 {
                return Err(UpdateError::Lost {
                    key,
                    version,
                    newest,
                });
            }
            known.missing -= 1;
            known.under_way -= 1;
            Ok(known)
        })
    }

    /// Records that an update of `key` that began has certainly changed nothing. If its outcome is
    /// unknown, leave it pending: then reads may but need not see it.
    ///
    /// # Errors
    /// If there is no pending update that has not been seen; nothing changes then.
    pub fn cancel_update(&self, key: u64) -> Result<(), UpdateError> {
        self.change(key, |mut known| {
            if known.under_way <= known.missing {
                return Err(UpdateError::NotBegun { key });
            }
            known.under_way -= 1;
            Ok(known)
        })
    }

    /// Resets `key` to `version`: for a record whose updates were reported as lost. No update of it
    /// may be pending.
    pub fn reset(&self, key: u64, version: u64) {
        if let Some(word) = self.word(key) {
            let known = Known {
                newest: version.min(VERSION_MAX),
                under_way: 0,
                missing: 0,
            };
            word.store(known.into(), SeqCst);
        }
    }

    /// Checks, when all workers have ended, that all updates have ended, each with its version.
    ///
    /// # Errors
    /// The first record for which this is not so.
    pub fn settled(&self) -> Result<(), UpdateError> {
        for (at, word) in (0..).zip(&self.words) {
            let known = Known::from(word.load(SeqCst));
            if known.under_way > 0 || known.missing > 0 {
                return Err(UpdateError::Unsettled {
                    key: at * self.stride,
                    under_way: known.under_way,
                    newest: known.newest,
                    missing: known.missing,
                });
            }
        }
        Ok(())
    }

    fn word(&self, key: u64) -> Option<&AtomicU64> {
        let at = usize::try_from(key / self.stride).ok()?;
        let word = self.words.get(at)?;
        key.is_multiple_of(self.stride).then_some(word)
    }

    fn change(
        &self,
        key: u64,
        step: impl Fn(Known) -> Result<Known, UpdateError>,
    ) -> Result<(), UpdateError> {
        self.word(key).map_or(Ok(()), |word| change(word, step))
    }
}

/// Applies `step` atomically, with concurrent calls.
fn change<E>(word: &AtomicU64, step: impl Fn(Known) -> Result<Known, E>) -> Result<(), E> {
    let mut old = word.load(SeqCst);
    loop {
        let new = u64::from(step(Known::from(old))?);
        // Most reads change nothing, and need not take the cache line from other cores.
        if new == old {
            return Ok(());
        }
        match word.compare_exchange_weak(old, new, SeqCst, SeqCst) {
            Ok(_) => return Ok(()),
            Err(now) => old = now,
        }
    }
}

impl Known {
    /// The newest possible version. As many pending updates as versions are missing have made
    /// those; only the rest can have made newer ones.
    fn limit(self) -> u64 {
        let unseen = self.under_way - self.missing;
        (self.newest + unseen).min(VERSION_MAX)
    }

    /// Records a version up to the limit.
    fn raise(mut self, version: u64) -> Self {
        let newer = version.saturating_sub(self.newest);
        self.missing += newer;
        self.newest += newer;
        self
    }
}

impl From<u64> for Known {
    fn from(word: u64) -> Self {
        Self {
            newest: word >> (2 * COUNT_BITS),
            under_way: word >> COUNT_BITS & COUNT_MAX,
            missing: word & COUNT_MAX,
        }
    }
}

impl From<Known> for u64 {
    fn from(known: Known) -> Self {
        known.newest << (2 * COUNT_BITS) | known.under_way << COUNT_BITS | known.missing
    }
}
