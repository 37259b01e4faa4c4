//! TPC-H over flows: `orders` and `lineitem`, shuffled by order key.
//!
//! Each storage node has a [`StorageWorker`] with its share of both tables. It pushes all its
//! orders, marks their end, and then pushes its line items. Each compute node has a
//! [`ComputeWorker`], which takes orders to their end and then line items. As both tables are
//! partitioned by order key, a line item comes to the node that has its order, and the nodes'
//! partial results add up ([`QueryResult::merge`]) to the answers of two queries.
//!
//! **Q1**, the pricing summary report of the TPC-H specification (section 2.4.1) with its
//! validation parameter DELTA = 90:
//!
//! ```sql
//! select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
//!        sum(l_extendedprice * (1 - l_discount)),
//!        sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
//!        avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*)
//! from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
//! group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus
//! ```
//!
//! **The join**, our own, with the revenue that several TPC-H queries use:
//!
//! ```sql
//! select o_orderpriority, count(*), sum(l_extendedprice * (1 - l_discount))
//! from orders join lineitem on l_orderkey = o_orderkey
//! where o_orderdate >= date '1995-01-01' and o_orderdate < date '1996-01-01'
//! group by o_orderpriority order by o_orderpriority
//! ```
//!
//! All arithmetic is exact, in integers. [`reference()`] answers both queries over the same
//! generated rows without encoding or sending rows, by another algorithm; [`published_q1_sf1`] is
//! the answer published in the specification.
//!
//! Files in the order in which a row passes through them: `scale` (number of rows), `generate`,
//! `codes` and `rows` (their bytes), `storage`, `compute` with `order_table` and `aggregate`,
//! `result` with `exact` (the encoding of sums); `fan_out` for flows whose producers do not choose
//! a consumer; then `reference` and `published`, the expected results.

mod aggregate;
mod codes;
mod compute;
mod exact;
mod fan_out;
mod generate;
mod order_table;
mod published;
mod reference;
mod result;
mod rows;
mod scale;
mod storage;
mod worker;

pub(crate) use aggregate::{Q1Groups, Q1Line};
pub use codes::{LineStatus, OrderPriority, OrderStatus, ReturnFlag, ShipInstruct, ShipMode};
pub use compute::ComputeWorker;
pub use fan_out::{Q1Partial, Q1Worker, ReplicaWorker, RowsDigest, TableWorker};
pub(crate) use generate::{lineitem as generated_lineitem, orders as generated_orders};
pub use generate::{lineitem_rows, order_rows};
pub use published::{Q1Answer, published_q1_sf1};
pub use reference::{Reference, reference};
pub use result::{ComputeResult, JoinRow, Q1Row, QueryResult};
pub use rows::{Column, LineitemRow, OrderRow, RowError, TABLES, Table};
pub use scale::{Part, PartError, RowCounts, ScaleError, ScaleFactor, expected_rows};
pub use storage::StorageWorker;
pub use worker::{WorkerError, WorkerStep};

/// Ship dates up to 1998-09-02, which is 1998-12-01 less 90 days, count in Q1. In days since
/// 1970-01-01.
pub const Q1_SHIP_DATE_MAX: i32 = 10_471;

/// Orders of 1995 count in the join: days since 1970-01-01, end exclusive.
pub const JOIN_ORDER_DATES: core::ops::Range<i32> = 9_131..9_496;

#[cfg(test)]
mod tests;
