//! Packet sequence numbers: 24 bits, wrapping (InfiniBand specification 1.4, 9.7.2).

use core::fmt;
use serde::{Deserialize, Serialize};

/// A packet sequence number, always below 2^24.
///
/// Two PSNs are compared within half the number space: `a` is before `b` if `b - a` modulo 2^24 is
/// in 1..2^23.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Psn(u32);

impl Psn {
    /// The number of distinct PSNs, 2^24.
    pub const SPACE: u32 = 1 << 24;
    const MASK: u32 = Self::SPACE - 1;

    /// The PSN `value` modulo 2^24.
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// The number, below 2^24.
    pub const fn get(self) -> u32 {
        self.0
    }

    /// The PSN `count` packets later (modulo 2^24).
    #[must_use]
    pub const fn add(self, count: u32) -> Self {
        Self(self.0.wrapping_add(count) & Self::MASK)
    }

    /// The PSN `count` packets earlier (modulo 2^24).
    #[must_use]
    pub const fn sub(self, count: u32) -> Self {
        Self(self.0.wrapping_sub(count) & Self::MASK)
    }

    /// Packets from `earlier` forward to `self`, in 0..2^24.
    pub const fn distance_from(self, earlier: Psn) -> u32 {
        self.0.wrapping_sub(earlier.0) & Self::MASK
    }

    /// Whether `self` comes before `other` within half the number space.
    pub const fn is_before(self, other: Psn) -> bool {
        let ahead = other.distance_from(self);
        ahead != 0 && ahead < Self::SPACE / 2
    }

    /// Whether `self` is one of the `count` PSNs that start at `first`.
    pub const fn is_within(self, first: Psn, count: u32) -> bool {
        self.distance_from(first) < count
    }
}

impl From<u32> for Psn {
    fn from(value: u32) -> Self {
        Self::new(value)
    }
}

impl From<Psn> for u32 {
    fn from(psn: Psn) -> Self {
        psn.0
    }
}

impl fmt::Debug for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:06x}", self.0)
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_across_the_wrap() {
        let last = Psn::new(Psn::SPACE - 1);
        let first = last.add(1);
        assert_eq!(first.get(), 0);
        assert!(last.is_before(first));
        assert!(!first.is_before(last));
        assert_eq!(first.distance_from(last), 1);
        assert_eq!(first.sub(1), last);
    }

    #[test]
    fn half_the_space_is_neither_before() {
        let a = Psn::new(7);
        let b = a.add(Psn::SPACE / 2);
        assert!(!a.is_before(b) && !b.is_before(a));
        assert!(a.is_before(a.add(Psn::SPACE / 2 - 1)));
    }

    #[test]
    fn a_window_may_span_the_wrap() {
        let first = Psn::new(Psn::SPACE - 2);
        assert!(Psn::new(1).is_within(first, 4));
        assert!(!Psn::new(2).is_within(first, 4));
    }
}
