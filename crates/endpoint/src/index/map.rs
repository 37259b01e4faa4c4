//! The mapping of keys to endpoints.

mod encoding;

use core::fmt;
use core::ops::RangeInclusive;
use serde::{Deserialize, Serialize};

/// An endpoint of an index: the memory and cores of a host, or those of its DPU.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
pub struct EndpointId(pub u16);

impl fmt::Display for EndpointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "endpoint {}", self.0)
    }
}

impl EndpointId {
    /// Its position among all endpoints.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Maximum number of endpoints of one index.
pub const ENDPOINTS_MAX: u16 = 256;

/// The keys that one endpoint owns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Part {
    /// The least key.
    pub low: u64,
    /// The greatest key.
    pub last: u64,
    /// The owner.
    pub endpoint: EndpointId,
}

impl Part {
    /// The keys.
    pub fn keys(&self) -> RangeInclusive<u64> {
        self.low..=self.last
    }
}

/// A range partition of all keys: no gap, no overlap, at most one contiguous range for each
/// endpoint. An endpoint without keys is in no part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartitionMap {
    version: u64,
    /// By endpoint: the version since which its keys are unchanged.
    since: Vec<u64>,
    parts: Vec<Part>,
}

/// Why parts are not a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum MapError {
    /// No endpoints, or too many.
    #[error("an index has 1 to {ENDPOINTS_MAX} endpoints, not {0}")]
    Endpoints(u16),
    /// A range that ends before it begins.
    #[error("part {part} goes from key {low} to key {last}, which is before it")]
    Backwards {
        /// The part, from 0.
        part: usize,
        /// Its least key.
        low: u64,
        /// Its greatest key.
        last: u64,
    },
    /// Parts are not in the order of their keys.
    #[error("part {part} begins at key {low}, before the part in front of it; sort the parts")]
    Unsorted {
        /// The part, from 0.
        part: usize,
        /// Its least key.
        low: u64,
    },
    /// Keys that no endpoint owns.
    #[error("nobody has the keys {low} to {last}")]
    Gap {
        /// The first of them.
        low: u64,
        /// The last of them.
        last: u64,
    },
    /// Keys that two endpoints own.
    #[error("{first} and {second} both have the keys {low} to {last}")]
    Overlap {
        /// One of the endpoints.
        first: EndpointId,
        /// The other endpoint.
        second: EndpointId,
        /// The first key that both own.
        low: u64,
        /// The last key that both own.
        last: u64,
    },
    /// An endpoint that the index does not have.
    #[error("part {part} belongs to {endpoint}, but the index has {endpoints} endpoints")]
    Foreign {
        /// The part, from 0.
        part: usize,
        /// The owner that the part names.
        endpoint: EndpointId,
        /// Number of endpoints of the index.
        endpoints: u16,
    },
    /// An endpoint with more than one range.
    #[error("{0} has more than one range; give it one contiguous range")]
    Twice(EndpointId),
    /// A range cannot be moved.
    #[error(
        "keys {low} to {last} cannot go from {from} to {to}: they must be at an end of what {from} \
         has, next to what {to} has, if it has any"
    )]
    NoSuchMove {
        /// The endpoint that should give the range.
        from: EndpointId,
        /// The endpoint that should take the range.
        to: EndpointId,
        /// The first key.
        low: u64,
        /// The last key.
        last: u64,
    },
    /// The bytes are not a map.
    #[error("{0} bytes are no partition map")]
    Malformed(usize),
}

impl PartitionMap {
    /// A map of these parts, which must be sorted by their keys.
    ///
    /// # Errors
    /// If they are not a partition of all keys among `endpoints` endpoints.
    pub fn new(version: u64, endpoints: u16, parts: Vec<Part>) -> Result<Self, MapError> {
        if !(1..=ENDPOINTS_MAX).contains(&endpoints) {
            return Err(MapError::Endpoints(endpoints));
        }
        check(endpoints, &parts)?;
        Ok(Self {
            version,
            since: vec![version; usize::from(endpoints)],
            parts,
        })
    }

    /// The first map of an index whose keys all belong to one endpoint.
    ///
    /// # Errors
    /// If the endpoint does not exist.
    pub fn whole(endpoints: u16, owner: EndpointId) -> Result<Self, MapError> {
        let part = Part {
            low: 0,
            last: u64::MAX,
            endpoint: owner,
        };
        Self::new(1, endpoints, vec![part])
    }

    /// The first map of an index with one endpoint more than there are boundaries. Each endpoint
    /// owns the keys from the boundary before it, inclusive, to the next, exclusive. Where two
    /// boundaries are equal, or the first is 0, the endpoint between owns no keys.
    ///
    /// # Errors
    /// If the boundaries do not ascend, or there are too many.
    pub fn split(boundaries: &[u64]) -> Result<Self, MapError> {
        let endpoints = u16::try_from(boundaries.len() + 1).unwrap_or(u16::MAX);
        let ends = boundaries.iter().map(|&next| next.checked_sub(1));
        let mut low = Some(0u64);
        let mut parts = Vec::new();
        for (at, last) in ends.chain([Some(u64::MAX)]).enumerate() {
            let (Some(from), Some(to)) = (low, last) else {
                continue;
            };
            let empty = from.checked_sub(1) == Some(to);
            if !empty {
                parts.push(Part {
                    low: from,
                    last: to,
                    endpoint: EndpointId(at as u16),
                });
                low = to.checked_add(1);
            }
        }
        Self::new(1, endpoints, parts)
    }

    /// The version. Every change makes a higher one.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Number of endpoints of the index, including those without keys.
    pub fn endpoints(&self) -> u16 {
        self.since.len() as u16
    }

    /// The version in which the keys of an endpoint last changed. While it is the same, so are the
    /// endpoint's keys.
    ///
    /// # Panics
    /// If the endpoint does not exist.
    pub fn since(&self, endpoint: EndpointId) -> u64 {
        self.since[endpoint.index()]
    }

    /// The parts, in the order of their keys.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The part that contains a key.
    #[inline]
    pub fn part(&self, key: u64) -> Part {
        let at = self.parts.partition_point(|part| part.last < key);
        self.parts[at]
    }

    /// The owner of a key.
    #[inline]
    pub fn owner(&self, key: u64) -> EndpointId {
        self.part(key).endpoint
    }

    /// The part that an endpoint owns.
    pub fn part_of(&self, endpoint: EndpointId) -> Option<Part> {
        let mut parts = self.parts.iter();
        parts.find(|part| part.endpoint == endpoint).copied()
    }

    /// The next map, in which `low..=last` have moved from `from` to `to`.
    ///
    /// # Errors
    /// If they are not at an end of the range of `from`, or not adjacent to the range of `to`.
    pub fn with_move(
        &self,
        from: EndpointId,
        to: EndpointId,
        low: u64,
        last: u64,
    ) -> Result<Self, MapError> {
        let refused = MapError::NoSuchMove {
            from,
            to,
            low,
            last,
        };
        let source = self.part_of(from).ok_or(refused)?;
        let inside = low <= last && source.low <= low && last <= source.last;
        if !inside || from == to || to.0 >= self.endpoints() {
            return Err(refused);
        }
        let mut parts: Vec<Part> = Vec::with_capacity(self.parts.len() + 1);
        for &part in &self.parts {
            if part.endpoint != from {
                parts.push(part);
                continue;
            }
            let before = low.checked_sub(1).filter(|&end| end >= part.low);
            let after = last.checked_add(1).filter(|&start| start <= part.last);
            parts.extend(before.map(|last| Part { last, ..part }));
            parts.push(Part {
                low,
                last,
                endpoint: to,
            });
            parts.extend(after.map(|low| Part { low, ..part }));
        }
        parts.dedup_by(|right, left| {
            let joined = left.endpoint == right.endpoint;
            if joined {
                left.last = right.last;
            }
            joined
        });
        check(self.endpoints(), &parts).map_err(|_| refused)?;
        let mut since = self.since.clone();
        let version = self.version + 1;
        (since[from.index()], since[to.index()]) = (version, version);
        Ok(Self {
            version,
            since,
            parts,
        })
    }

    /// The next map, with the same parts, in which `endpoint` has restarted.
    ///
    /// # Panics
    /// If the endpoint does not exist.
    #[must_use]
    pub fn with_restart(mut self, endpoint: EndpointId) -> Self {
        self.version += 1;
        self.since[endpoint.index()] = self.version;
        self
    }
}

/// Checks whether parts are a partition of all keys.
fn check(endpoints: u16, parts: &[Part]) -> Result<(), MapError> {
    let mut seen = vec![false; usize::from(endpoints)];
    for (at, part) in parts.iter().enumerate() {
        let (low, last) = (part.low, part.last);
        if low > last {
            let part = at;
            return Err(MapError::Backwards { part, low, last });
        }
        let mine = seen.get_mut(part.endpoint.index());
        let mine = mine.ok_or(MapError::Foreign {
            part: at,
            endpoint: part.endpoint,
            endpoints,
        })?;
        if core::mem::replace(mine, true) {
            return Err(MapError::Twice(part.endpoint));
        }
    }
    for (at, pair) in parts.windows(2).enumerate() {
        let (left, right) = (pair[0], pair[1]);
        if right.low < left.low {
            return Err(MapError::Unsorted {
                part: at + 1,
                low: right.low,
            });
        }
        if right.low <= left.last {
            return Err(MapError::Overlap {
                first: left.endpoint,
                second: right.endpoint,
                low: right.low,
                last: left.last.min(right.last),
            });
        }
        if right.low - left.last > 1 {
            return Err(MapError::Gap {
                low: left.last + 1,
                last: right.low - 1,
            });
        }
    }
    let first = parts.first().map_or(u64::MAX, |part| part.low);
    if first > 0 {
        let last = if parts.is_empty() { first } else { first - 1 };
        return Err(MapError::Gap { low: 0, last });
    }
    match parts.last() {
        Some(part) if part.last < u64::MAX => Err(MapError::Gap {
            low: part.last + 1,
            last: u64::MAX,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
