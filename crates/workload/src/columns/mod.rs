//! Columns: Arrow arrays as `rackweave_endpoint::messaging::columns` carries them, TPC-H's columns
//! from the generator, and queries over columns.
//!
//! [`encode`] converts an array to a column that a storage node serves; [`array`](array()) converts
//! a column that a compute node received to an array, without copying it: the array keeps the
//! column in memory, and in its cache, for as long as it lives. Bytes come from a peer, so
//! everything in them is checked before an array is made.
//!
//! [`tpch_columns`] makes columns by name, such as `lineitem.l_quantity`; [`sum`] and [`PieceSum`]
//! add one up, from memory or in place in receive buffers, and [`reference_sum`] computes the
//! expected result. [`q6`] is TPC-H's Q6 (specification, section 2.4.6) with its validation
//! parameters:
//!
//! ```sql
//! select sum(l_extendedprice * l_discount) from lineitem
//! where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
//!   and l_discount between 0.05 and 0.07 and l_quantity < 24
//! ```
//!
//! [`q1`] is [`tpch`](crate::tpch)'s Q1 over columns.
//!
//! [`reference_q6`] answers Q6 over the generator's rows, and [`PUBLISHED_Q6_SF1`] is the answer
//! published in the specification.

mod convert;
mod q1;
mod q6;
mod query;
mod sum;
mod tpch;

pub use convert::{DecodeError, EncodeError, array, arrow_type, encode};
pub use q1::{Q1_COLUMNS, q1};
pub use q6::{PUBLISHED_Q6_SF1, Q6_COLUMNS, q6, reference_q6};
pub use query::QueryError;
pub use sum::{PieceSum, SumError, reference_sum, sum};
pub use tpch::{TPCH_COLUMNS, TpchColumn, UnknownColumn, tpch_column, tpch_columns};

#[cfg(test)]
mod tests;
