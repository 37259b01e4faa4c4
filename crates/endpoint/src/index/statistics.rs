//! Counters of clients and endpoints.

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

            /// The counters from these values, in the order of [`Self::list`]; `None` if there are
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
    /// Counters of one-sided readers since their creation. Those of several readers can be added.
    ReaderStatistics {
        /// Lookups that ended.
        lookups,
        /// Leaves from which scans took entries.
        leaves_scanned,
        /// READs posted, of any kind.
        reads,
        /// READs of tree nodes.
        node_reads,
        /// READs of value records.
        record_reads,
        /// READs of map versions, to confirm that an absent key belongs to the endpoint.
        version_reads,
        /// Tree nodes that arrived torn and were read again.
        torn,
        /// Value records that arrived torn and were read again.
        records_torn,
        /// Tree nodes that were freed or reused.
        stale,
        /// Value records that were freed; the leaf was read again.
        records_stale,
        /// Times that a key was to the right of the tree node where it was expected.
        followed,
        /// Times that a walk restarted at the root.
        restarts,
        /// Walks that left the tree, or whose map version was not confirmed.
        moved,
        /// Walks given up after too many attempts.
        given_up,
        /// Inner tree nodes taken from the cache.
        cache_hits,
        /// Inner tree nodes that were not in the cache.
        cache_misses,
        /// Inner tree nodes evicted from the cache.
        cache_evictions,
        /// Inner tree nodes removed from the cache because they were outdated.
        cache_stale,
        /// READs of the deepest tree node that the network knows for a key.
        network_queries,
        /// Answers of the network where the key was to the right, and the walk followed.
        network_followed,
        /// Answers of the network without a tree node for the key; the walk began at the root.
        network_astray,
        /// Times that the path to an endpoint broke while the network was queried.
        network_refused,
    }
    by level {
        /// Answers of the network by the level of the tree node; 0 is a leaf, 7 means 7 or more.
        network_levels,
    }
}

statistics! {
    /// Counters of a client since its creation. Those of several clients can be added.
    ClientStatistics {
        /// Successful operations.
        done,
        /// Failed operations.
        failed,
        /// Requests sent.
        calls,
        /// Replies that the keys belong to another endpoint.
        moved,
        /// Replies that the keys are being moved, and waits for a map that had not arrived.
        busy,
        /// Maps fetched.
        maps_fetched,
        /// Fetched maps that were newer than the client's.
        maps_newer,
        /// Reads done by a request after READs did not succeed.
        fallbacks,
    }
}

statistics! {
    /// Counters of one endpoint since its creation.
    ShardStatistics {
        /// Lookups.
        gets,
        /// Inserts, updates, puts and deletes.
        writes,
        /// Pages of scans.
        scans,
        /// Requests for keys that another endpoint owns.
        moved,
        /// Writes to keys that were being moved.
        busy,
        /// Malformed requests.
        malformed,
        /// Writes that failed because the tree was full.
        full,
        /// Entries received with ranges.
        entries_in,
        /// Entries given away with ranges.
        entries_out,
        /// Ranges received.
        ranges_in,
        /// Ranges given away.
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
