//! Encoded rows: all columns of fixed width, little-endian, comments left out.
//!
//! The position of each column is defined once, in [`TABLES`] and the constants below it. Decimals
//! are hundredths; dates are days since 1970-01-01. Keys of parts, suppliers, customers and clerks
//! fit in 32 bits up to the largest scale factor. `o_clerk` is encoded as its number: the text
//! `Clerk#` precedes it in every row.
//!
//! Rows begin with codes that are never zero in bytes 2 and 3, because Wireshark takes a captured
//! payload with zeros there for an encapsulated Ethernet type.

use super::codes::{LineStatus, OrderPriority, OrderStatus, ReturnFlag, ShipInstruct, ShipMode};

/// A row of `lineitem`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LineitemRow {
    /// `l_linenumber`
    pub line_number: u8,
    /// `l_shipinstruct`
    pub ship_instruct: ShipInstruct,
    /// `l_shipmode`
    pub ship_mode: ShipMode,
    /// `l_returnflag`
    pub return_flag: ReturnFlag,
    /// `l_linestatus`
    pub line_status: LineStatus,
    /// `l_receiptdate`, in days since 1970-01-01.
    pub receipt_date: i32,
    /// `l_orderkey`
    pub order_key: i64,
    /// `l_quantity`, in hundredths.
    pub quantity: i64,
    /// `l_extendedprice`, in hundredths.
    pub extended_price: i64,
    /// `l_discount`, in hundredths.
    pub discount: i64,
    /// `l_tax`, in hundredths.
    pub tax: i64,
    /// `l_partkey`
    pub part_key: u32,
    /// `l_suppkey`
    pub supplier_key: u32,
    /// `l_shipdate`, in days since 1970-01-01.
    pub ship_date: i32,
    /// `l_commitdate`, in days since 1970-01-01.
    pub commit_date: i32,
}

/// A row of `orders`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderRow {
    /// `o_shippriority`, always zero in TPC-H's data.
    pub ship_priority: i16,
    /// `o_orderstatus`
    pub order_status: OrderStatus,
    /// `o_orderpriority`
    pub order_priority: OrderPriority,
    /// `o_orderdate`, in days since 1970-01-01.
    pub order_date: i32,
    /// `o_orderkey`
    pub order_key: i64,
    /// `o_totalprice`, in hundredths.
    pub total_price: i64,
    /// `o_custkey`
    pub customer_key: u32,
    /// The number in `o_clerk`.
    pub clerk: u32,
}

/// The encoding of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Bytes of an encoded row.
    pub row_bytes: usize,
    /// Its columns, in the order of their bytes.
    pub columns: &'static [Column],
}

/// The position of a column in an encoded row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Column {
    /// Its name, or the names of both columns that share a byte.
    pub name: &'static str,
    /// Its first byte.
    pub offset: usize,
    /// Its length in bytes.
    pub bytes: usize,
}

/// The tables that storage workers send, in the order in which they send them.
pub const TABLES: [Table; 2] = [
    Table {
        name: "orders",
        row_bytes: OrderRow::BYTES,
        columns: &ORDER_COLUMNS,
    },
    Table {
        name: "lineitem",
        row_bytes: LineitemRow::BYTES,
        columns: &LINEITEM_COLUMNS,
    },
];

const ORDER_COLUMNS: [Column; 8] = [
    column("o_shippriority", order::SHIP_PRIORITY, 2),
    column("o_orderstatus", order::STATUS, 1),
    column("o_orderpriority", order::PRIORITY, 1),
    column("o_orderdate", order::DATE, 4),
    column("o_orderkey", order::KEY, 8),
    column("o_totalprice", order::TOTAL_PRICE, 8),
    column("o_custkey", order::CUSTOMER_KEY, 4),
    column("o_clerk", order::CLERK, 4),
];

const LINEITEM_COLUMNS: [Column; 14] = [
    column("l_linenumber", lineitem::LINE_NUMBER, 1),
    column(
        "l_shipmode (low four bits), l_shipinstruct (high four)",
        lineitem::SHIPPING,
        1,
    ),
    column("l_returnflag", lineitem::RETURN_FLAG, 1),
    column("l_linestatus", lineitem::LINE_STATUS, 1),
    column("l_receiptdate", lineitem::RECEIPT_DATE, 4),
    column("l_orderkey", lineitem::ORDER_KEY, 8),
    column("l_quantity", lineitem::QUANTITY, 8),
    column("l_extendedprice", lineitem::EXTENDED_PRICE, 8),
    column("l_discount", lineitem::DISCOUNT, 8),
    column("l_tax", lineitem::TAX, 8),
    column("l_partkey", lineitem::PART_KEY, 4),
    column("l_suppkey", lineitem::SUPPLIER_KEY, 4),
    column("l_shipdate", lineitem::SHIP_DATE, 4),
    column("l_commitdate", lineitem::COMMIT_DATE, 4),
];

const fn column(name: &'static str, offset: usize, bytes: usize) -> Column {
    Column {
        name,
        offset,
        bytes,
    }
}

/// First bytes of the columns of `orders`.
pub(super) mod order {
    pub const SHIP_PRIORITY: usize = 0;
    pub const STATUS: usize = 2;
    pub const PRIORITY: usize = 3;
    pub const DATE: usize = 4;
    pub const KEY: usize = 8;
    pub const TOTAL_PRICE: usize = 16;
    pub const CUSTOMER_KEY: usize = 24;
    pub const CLERK: usize = 28;
}

/// First bytes of the columns of `lineitem`.
pub(super) mod lineitem {
    pub const LINE_NUMBER: usize = 0;
    pub const SHIPPING: usize = 1;
    pub const RETURN_FLAG: usize = 2;
    pub const LINE_STATUS: usize = 3;
    pub const RECEIPT_DATE: usize = 4;
    pub const ORDER_KEY: usize = 8;
    pub const QUANTITY: usize = 16;
    pub const EXTENDED_PRICE: usize = 24;
    pub const DISCOUNT: usize = 32;
    pub const TAX: usize = 40;
    pub const PART_KEY: usize = 48;
    pub const SUPPLIER_KEY: usize = 52;
    pub const SHIP_DATE: usize = 56;
    pub const COMMIT_DATE: usize = 60;
}

/// Why bytes are not a valid row.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RowError {
    /// A byte that is not a code of the column.
    #[error("{column} has the unknown code {code:#04x}")]
    Code {
        /// The column.
        column: &'static str,
        /// The byte.
        code: u8,
    },
    /// A number that is invalid in the column.
    #[error("{column} is {value}, which is out of its range")]
    Range {
        /// The column.
        column: &'static str,
        /// The number.
        value: i64,
    },
    /// Two orders have the same key.
    #[error("the order {key} is there twice")]
    Duplicate {
        /// Their key.
        key: i64,
    },
}

impl OrderRow {
    /// Bytes of an encoded row.
    pub const BYTES: usize = 32;

    /// The row's bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(&mut bytes, order::KEY, self.order_key.to_le_bytes());
        put(
            &mut bytes,
            order::TOTAL_PRICE,
            self.total_price.to_le_bytes(),
        );
        put(
            &mut bytes,
            order::CUSTOMER_KEY,
            self.customer_key.to_le_bytes(),
        );
        put(&mut bytes, order::DATE, self.order_date.to_le_bytes());
        put(&mut bytes, order::CLERK, self.clerk.to_le_bytes());
        put(
            &mut bytes,
            order::SHIP_PRIORITY,
            self.ship_priority.to_le_bytes(),
        );
        bytes[order::STATUS] = self.order_status.code();
        bytes[order::PRIORITY] = self.order_priority.code();
        bytes
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// If a column has an unknown code.
    #[inline]
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, RowError> {
        let (status, priority) = (bytes[order::STATUS], bytes[order::PRIORITY]);
        Ok(Self {
            order_key: i64::from_le_bytes(get(bytes, order::KEY)),
            total_price: i64::from_le_bytes(get(bytes, order::TOTAL_PRICE)),
            customer_key: u32::from_le_bytes(get(bytes, order::CUSTOMER_KEY)),
            order_date: i32::from_le_bytes(get(bytes, order::DATE)),
            clerk: u32::from_le_bytes(get(bytes, order::CLERK)),
            ship_priority: i16::from_le_bytes(get(bytes, order::SHIP_PRIORITY)),
            order_status: known("o_orderstatus", status, OrderStatus::from_code(status))?,
            order_priority: known(
                "o_orderpriority",
                priority,
                OrderPriority::from_code(priority),
            )?,
        })
    }
}

impl LineitemRow {
    /// Bytes of an encoded row.
    pub const BYTES: usize = 64;

    /// The row's bytes.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        put(
            &mut bytes,
            lineitem::ORDER_KEY,
            self.order_key.to_le_bytes(),
        );
        put(&mut bytes, lineitem::QUANTITY, self.quantity.to_le_bytes());
        put(
            &mut bytes,
            lineitem::EXTENDED_PRICE,
            self.extended_price.to_le_bytes(),
        );
        put(&mut bytes, lineitem::DISCOUNT, self.discount.to_le_bytes());
        put(&mut bytes, lineitem::TAX, self.tax.to_le_bytes());
        put(&mut bytes, lineitem::PART_KEY, self.part_key.to_le_bytes());
        put(
            &mut bytes,
            lineitem::SUPPLIER_KEY,
            self.supplier_key.to_le_bytes(),
        );
        put(
            &mut bytes,
            lineitem::SHIP_DATE,
            self.ship_date.to_le_bytes(),
        );
        put(
            &mut bytes,
            lineitem::COMMIT_DATE,
            self.commit_date.to_le_bytes(),
        );
        put(
            &mut bytes,
            lineitem::RECEIPT_DATE,
            self.receipt_date.to_le_bytes(),
        );
        bytes[lineitem::LINE_NUMBER] = self.line_number;
        bytes[lineitem::RETURN_FLAG] = self.return_flag.code();
        bytes[lineitem::LINE_STATUS] = self.line_status.code();
        bytes[lineitem::SHIPPING] = self.ship_instruct.code() << 4 | self.ship_mode.code();
        bytes
    }

    /// Decodes a row.
    ///
    /// # Errors
    /// If a column has an unknown code.
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, RowError> {
        let (flag, status) = (bytes[lineitem::RETURN_FLAG], bytes[lineitem::LINE_STATUS]);
        let (instruct, mode) = (
            bytes[lineitem::SHIPPING] >> 4,
            bytes[lineitem::SHIPPING] & 15,
        );
        Ok(Self {
            order_key: i64::from_le_bytes(get(bytes, lineitem::ORDER_KEY)),
            quantity: i64::from_le_bytes(get(bytes, lineitem::QUANTITY)),
            extended_price: i64::from_le_bytes(get(bytes, lineitem::EXTENDED_PRICE)),
            discount: i64::from_le_bytes(get(bytes, lineitem::DISCOUNT)),
            tax: i64::from_le_bytes(get(bytes, lineitem::TAX)),
            part_key: u32::from_le_bytes(get(bytes, lineitem::PART_KEY)),
            supplier_key: u32::from_le_bytes(get(bytes, lineitem::SUPPLIER_KEY)),
            ship_date: i32::from_le_bytes(get(bytes, lineitem::SHIP_DATE)),
            commit_date: i32::from_le_bytes(get(bytes, lineitem::COMMIT_DATE)),
            receipt_date: i32::from_le_bytes(get(bytes, lineitem::RECEIPT_DATE)),
            line_number: bytes[lineitem::LINE_NUMBER],
            return_flag: known("l_returnflag", flag, ReturnFlag::from_code(flag))?,
            line_status: known("l_linestatus", status, LineStatus::from_code(status))?,
            ship_instruct: known(
                "l_shipinstruct",
                instruct,
                ShipInstruct::from_code(instruct),
            )?,
            ship_mode: known("l_shipmode", mode, ShipMode::from_code(mode))?,
        })
    }
}

fn known<T>(column: &'static str, code: u8, value: Option<T>) -> Result<T, RowError> {
    value.ok_or(RowError::Code { column, code })
}

fn put<const N: usize, const ROW: usize>(row: &mut [u8; ROW], at: usize, bytes: [u8; N]) {
    row[at..at + N].copy_from_slice(&bytes);
}

/// The `N` bytes of a row from `at` on.
#[inline(always)]
pub(super) fn get<const N: usize, const ROW: usize>(row: &[u8; ROW], at: usize) -> [u8; N] {
    *row[at..]
        .first_chunk()
        .expect("columns lie within their row")
}
