//! Which versions a read may see while other workers update.
//!
//! An update begins, makes version `v + 1` of version `v` under the page's latch, and commits. With
//! each update counted once, a record's version is the number of updates that it has seen. So:
//!
//! - a read sees at least every version that was committed, or seen by somebody, before it began;
//! - a read sees at most as many updates as have begun;
//! - no two updates commit the same version: the second overwrote what it had not read;
//! - the versions up to the newest that are not committed yet are those of updates under way.
//!
//! One word for each record holds all of that, whoever shares it, and nothing takes a lock.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// What is known of the versions of all records, shared by all workers. Eight bytes a record.
///
/// When there are more records than are to be remembered, every n-th is; the others pass unjudged,
/// as do those beyond the end.
#[derive(Debug)]
pub struct Expectations {
    words: Box<[AtomicU64]>,
    /// Records with a number that this divides are remembered.
    stride: u64,
}

/// The version that a read must see at least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[must_use = "give it to after_read"]
pub struct Floor(u64);

/// A read saw a version that it could not see.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StaleRead {
    /// A newer version was there before the read began.
    #[error("record {key} was read in version {version}, and had version {floor} before")]
    Old {
        /// The record.
        key: u64,
        /// The version that was read.
        version: u64,
        /// The version that was known before.
        floor: u64,
    },
    /// Not so many updates have begun.
    #[error("record {key} was read in version {version}, and at most {limit} updates have begun")]
    Unborn {
        /// The record.
        key: u64,
        /// The version that was read.
        version: u64,
        /// The newest version that there can be.
        limit: u64,
    },
}

/// An update that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum UpdateError {
    /// Two updates made one version.
    #[error("an update was lost: record {key} got version {version} twice (newest {newest})")]
    Lost {
        /// The record.
        key: u64,
        /// The version that was committed.
        version: u64,
        /// The newest version that is known.
        newest: u64,
    },
    /// Not so many updates have begun.
    #[error("record {key} got version {version}, and at most {limit} updates have begun")]
    Unborn {
        /// The record.
        key: u64,
        /// The version that was committed.
        version: u64,
        /// The newest version that there can be.
        limit: u64,
    },
    /// An update ended that had not begun.
    #[error("an update of record {key} ended, and none was under way")]
    NotBegun {
        /// The record.
        key: u64,
    },
    /// More updates than are counted.
    #[error("{max} updates of record {key} are under way, more are not counted", max = COUNT_MAX)]
    TooMany {
        /// The record.
        key: u64,
    },
    /// At the end, updates are missing.
    #[error(
        "record {key}: {under_way} updates did not end, and of the versions up to {newest}, \
         {missing} were never committed"
    )]
    Unsettled {
        /// The record.
        key: u64,
        /// Updates that began and did not end.
        under_way: u64,
        /// The newest version that is known.
        newest: u64,
        /// Versions up to it that no update has committed.
        missing: u64,
    },
}

/// What is known of one record.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The newest version that was committed or read.
    newest: u64,
    /// Updates that began and did not end.
    under_way: u64,
    /// Versions up to the newest that no update has committed. Their updates are under way.
    missing: u64,
}

/// Bits of each of the two counts in a word; the version has the 40 above them.
const COUNT_BITS: u32 = 12;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const VERSION_MAX: u64 = (1 << (64 - 2 * COUNT_BITS)) - 1;

impl Expectations {
    /// Records `0..records` in version 0. At most `remembered` of them are remembered, every n-th,
    /// and at least one.
    pub fn new(records: u64, remembered: u64) -> Self {
        let stride = records.div_ceil(remembered.max(1)).max(1);
        let words = 0..records.div_ceil(stride);
        Self {
            words: words.map(|_| AtomicU64::new(0)).collect(),
            stride,
        }
    }

    /// One record in so many is remembered.
    pub const fn stride(&self) -> u64 {
        self.stride
    }

    /// What a read of `key` that begins now must see.
    pub fn before_read(&self, key: u64) -> Floor {
        let word = self.word(key).map(|word| word.load(SeqCst));
        Floor(word.map_or(0, |word| Known::from(word).newest))
    }

    /// Judges a read that has ended: `version` is what the verified record said, `floor` is from
    /// before it began. From now on, no read may see less.
    ///
    /// # Errors
    /// If it could not see this version.
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

    /// An update of `key` is about to begin: from now on, a read may see it.
    ///
    /// # Errors
    /// If so many are under way that they are not counted any more; it is not counted then.
    pub fn begin_update(&self, key: u64) -> Result<(), UpdateError> {
        self.change(key, |mut known| {
            if known.under_way == COUNT_MAX {
                return Err(UpdateError::TooMany { key });
            }
            known.under_way += 1;
            Ok(known)
        })
    }

    /// An update of `key` has ended and made version `version`: every read that begins from now on
    /// must see it. Updates may come here in another order than that of their versions.
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
            // Now `version` is one of those up to the newest. Is there one to be committed?
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

    /// An update of `key` that began has certainly changed nothing. If nobody knows whether it has,
    /// let it stay under way: then reads may see it and need not.
    ///
    /// # Errors
    /// If none is under way that nobody has seen; nothing changes then.
    pub fn cancel_update(&self, key: u64) -> Result<(), UpdateError> {
        self.change(key, |mut known| {
            if known.under_way <= known.missing {
                return Err(UpdateError::NotBegun { key });
            }
            known.under_way -= 1;
            Ok(known)
        })
    }

    /// Forgets `key` and goes on from `version`: for a record whose updates were reported as lost.
    /// No update of it may be under way.
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

    /// Looks, when all workers have ended, whether all updates have, and each has its version.
    ///
    /// # Errors
    /// The first record of which that is not so.
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

/// Takes `step` at once, however many others take theirs.
fn change<E>(word: &AtomicU64, step: impl Fn(Known) -> Result<Known, E>) -> Result<(), E> {
    let mut old = word.load(SeqCst);
    loop {
        let new = u64::from(step(Known::from(old))?);
        // Most reads change nothing, and need not take the cache line from the others.
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
    /// The newest version that there can be. Of the updates under way, as many as versions are
    /// missing have made those; only the others can have made newer ones.
    fn limit(self) -> u64 {
        let unseen = self.under_way - self.missing;
        (self.newest + unseen).min(VERSION_MAX)
    }

    /// Takes note of a version up to the limit.
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
