//! The amount of data: scale factor, rows, and shares of them.

use super::rows::{LineitemRow, OrderRow};
use core::fmt;
use core::str::FromStr;
use serde::{Deserialize, Serialize};
use tpchgen::generators::OrderGenerator;

/// TPC-H's scale factor: 1 means 1.5 million orders.
#[derive(Clone, Copy, PartialEq, PartialOrd, Debug)]
pub struct ScaleFactor(f64);

/// Why a number is not a valid scale factor.
#[derive(Clone, PartialEq, Debug, thiserror::Error)]
pub enum ScaleError {
    /// It is too small, too large, or not finite.
    #[error(
        "scale factor {0} is out of range; use one from {min} to {max}",
        min = ScaleFactor::MIN, max = ScaleFactor::MAX
    )]
    OutOfRange(f64),
    /// It is not a number.
    #[error("`{0}` is no scale factor; use a number such as 0.1")]
    NotANumber(String),
}

/// Rows of both tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowCounts {
    /// Rows of `orders`.
    pub orders: u64,
    /// Rows of `lineitem`.
    pub lineitem: u64,
}

/// One of several equal shares of both tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    index: i32,
    count: i32,
}

/// A share that does not exist.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("there is no part {part} of {parts}; parts are counted from zero, at most {PARTS_MAX}")]
pub struct PartError {
    /// The requested share, counted from zero.
    pub part: u32,
    /// The number of shares.
    pub parts: u32,
}

/// Maximum number of shares; the generator counts them in 31 bits, and no rack has more nodes than
/// this.
const PARTS_MAX: u32 = 1 << 16;

/// An order has one to seven line items, uniformly distributed.
const LINES_PER_ORDER: u64 = 4;

impl ScaleFactor {
    /// The minimum: 1500 orders.
    pub const MIN: f64 = 0.001;
    /// The maximum: 150 million orders.
    pub const MAX: f64 = 100.0;

    /// A validated scale factor.
    ///
    /// # Errors
    /// If it is out of range.
    pub fn new(factor: f64) -> Result<Self, ScaleError> {
        if (Self::MIN..=Self::MAX).contains(&factor) {
            Ok(Self(factor))
        } else {
            Err(ScaleError::OutOfRange(factor))
        }
    }

    /// The number.
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for ScaleFactor {
    type Err = ScaleError;

    fn from_str(text: &str) -> Result<Self, ScaleError> {
        let factor = text
            .parse()
            .map_err(|_| ScaleError::NotANumber(text.to_owned()))?;
        Self::new(factor)
    }
}

impl TryFrom<f64> for ScaleFactor {
    type Error = ScaleError;

    fn try_from(factor: f64) -> Result<Self, ScaleError> {
        Self::new(factor)
    }
}

impl fmt::Display for ScaleFactor {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Part {
    /// Everything in one share.
    pub const WHOLE: Self = Self { index: 0, count: 1 };

    /// The share `part`, counted from zero, of `parts`.
    ///
    /// # Errors
    /// If there is no such share.
    pub fn new(part: u32, parts: u32) -> Result<Self, PartError> {
        if part < parts && parts <= PARTS_MAX {
            Ok(Self {
                index: part as i32,
                count: parts as i32,
            })
        } else {
            Err(PartError { part, parts })
        }
    }

    /// The share's number for the generator, counted from one.
    pub(super) fn number(self) -> i32 {
        self.index + 1
    }

    /// The number of shares.
    pub(super) fn count(self) -> i32 {
        self.count
    }

    /// Rows of this share: of `orders` exactly, of `lineitem` within a few per cent.
    pub fn expected_rows(self, scale: ScaleFactor) -> RowCounts {
        let orders = OrderGenerator::calculate_row_count(scale.get(), self.number(), self.count);
        let orders = u64::try_from(orders).expect("a count of rows is not negative");
        RowCounts {
            orders,
            lineitem: orders * LINES_PER_ORDER,
        }
    }
}

impl RowCounts {
    /// Rows of both tables together.
    pub const fn total(self) -> u64 {
        self.orders + self.lineitem
    }

    /// Bytes of the encoded rows.
    pub const fn bytes(self) -> u64 {
        self.orders * OrderRow::BYTES as u64 + self.lineitem * LineitemRow::BYTES as u64
    }
}

/// Rows of the whole tables: of `orders` exactly, of `lineitem` within a few per cent.
pub fn expected_rows(scale: ScaleFactor) -> RowCounts {
    Part::WHOLE.expected_rows(scale)
}
