//! What clients and endpoints have seen.

use core::ops::AddAssign;

macro_rules! statistics {
    (
        $(#[$head:meta])* $type:ident { $($(#[$doc:meta])* $name:ident,)* }
        $(by level { $($(#[$level_doc:meta])* $level:ident,)* })?
    ) => {
        $(#[$head])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $type {
            $($(#[$doc])* pub $name: u64,)*
            $($($(#[$level_doc])* pub $level: [u64; 8],)*)?
        }

        impl AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
                $($(
                    for (sum, more) in self.$level.iter_mut().zip(other.$level) {
                        *sum += more;
                    }
                )*)?
            }
        }

        impl $type {
            /// Names and values, for output.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                let all = [$((stringify!($name), self.$name),)*].into_iter();
                $($(
                    let names = [
                        concat!(stringify!($level), "_0"),
                        concat!(stringify!($level), "_1"),
                        concat!(stringify!($level), "_2"),
                        concat!(stringify!($level), "_3"),
                        concat!(stringify!($level), "_4"),
                        concat!(stringify!($level), "_5"),
                        concat!(stringify!($level), "_6"),
                        concat!(stringify!($level), "_7"),
                    ];
                    let all = all.chain(names.into_iter().zip(self.$level));
                )*)?
                all
            }

            /// The counters from these values, in the order of [`Self::list`]; nothing if there are
            /// too few.
            pub fn from_values(mut values: impl Iterator<Item = u64>) -> Option<Self> {
                Some(Self {
                    $($name: values.next()?,)*
                    $($($level: {
                        let mut counts = [0; 8];
                        for count in &mut counts {
                            *count = values.next()?;
                        }
                        counts
                    },)*)?
                })
            }
        }
    };
}

statistics! {
    /// Counters of one-sided readers since they began. Those of several add up.
    ReaderStatistics {
        /// Lookups that ended.
        lookups,
        /// Leaves that scans took entries from.
        leaves_scanned,
        /// READs posted, of whatever.
        reads,
        /// Of those: tree nodes.
        node_reads,
        /// Of those: value records.
        record_reads,
        /// Of those: map versions, to be sure that what is not there belongs there.
        version_reads,
        /// Tree nodes that came torn and were read again.
        torn,
        /// Value records that came torn and were read again.
        records_torn,
        /// Tree nodes that were freed or had become others.
        stale,
        /// Value records that were freed: the leaf was read again.
        records_stale,
        /// Times that a key was to the right of the tree node where it was looked for.
        followed,
        /// Times that a walk began anew at the root.
        restarts,
        /// Walks that left the tree, or that the map version did not confirm.
        moved,
        /// Walks given up after too many attempts.
        given_up,
        /// Inner tree nodes taken from the cache.
        cache_hits,
        /// Inner tree nodes that were not in the cache.
        cache_misses,
        /// Inner tree nodes that went from the cache to make room.
        cache_evictions,
        /// Inner tree nodes that went from the cache because they were out of date.
        cache_stale,
        /// READs of tree nodes that left it to the network to which: the deepest that it knows.
        network_queries,
        /// Of those: answers from which the key was to the right, and the walk followed.
        network_followed,
        /// Of those: answers that were no tree node for the key, and the walk began at the root.
        network_astray,
        /// Times that the way to an endpoint broke while the network was asked.
        network_refused,
    }
    by level {
        /// Answers of the network by the level of the tree node; 0 is a leaf, 7 stands for more.
        network_levels,
    }
}

statistics! {
    /// Counters of a client since it began. Those of several add up.
    ClientStatistics {
        /// Operations that ended well.
        done,
        /// Operations that ended in an error.
        failed,
        /// Requests sent.
        calls,
        /// Answers that the keys belong elsewhere.
        moved,
        /// Answers that the keys are being moved, and waits for a map that had not come.
        busy,
        /// Maps fetched.
        maps_fetched,
        /// Of those: newer than what the client had.
        maps_newer,
        /// Reads that were done by a request after READs had not got through.
        fallbacks,
    }
}

statistics! {
    /// Counters of one endpoint since it began.
    ShardStatistics {
        /// Lookups.
        gets,
        /// Inserts, updates, puts and deletes.
        writes,
        /// Pages of scans.
        scans,
        /// Requests for keys of another endpoint.
        moved,
        /// Writes to keys that were being moved.
        busy,
        /// Requests that made no sense.
        malformed,
        /// Writes for which the tree had no room.
        full,
        /// Entries that came with ranges.
        entries_in,
        /// Entries that left with ranges.
        entries_out,
        /// Ranges that came.
        ranges_in,
        /// Ranges that left.
        ranges_out,
    }
}

impl ShardStatistics {
    /// Operations served.
    pub fn served(&self) -> u64 {
        self.gets + self.writes + self.scans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_add_up_and_are_listed_as_they_are_read() {
        let count = ReaderStatistics::default().list().count() as u64;
        let all = ReaderStatistics::from_values(1..=count).unwrap();
        assert_eq!(all.network_levels[7], count);
        let mut twice = all;
        twice += all;
        let names: Vec<_> = twice.list().map(|(name, _)| name).collect();
        assert_eq!(names.last(), Some(&"network_levels_7"));
        for (at, (name, value)) in (1..).zip(twice.list()) {
            assert_eq!(value, 2 * at, "{name}");
        }
        assert_eq!(ReaderStatistics::from_values(1..count), None);
    }
}
