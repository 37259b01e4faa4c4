//! TPC-H's columns, by name.

use super::convert::arrow_type;
use crate::tpch::{Part, ScaleFactor, generated_lineitem, generated_orders};
use arrow_array::{ArrayRef, Date32Array, Decimal128Array, Int32Array, Int64Array, StringArray};
use core::fmt::Write;
use rackweave_endpoint::messaging::columns::DataType;
use std::sync::Arc;
use tpchgen::generators::{LineItem, Order};

const DECIMAL: DataType = DataType::Decimal128 {
    precision: 15,
    scale: 2,
};

/// A column that [`tpch_columns`] makes.
#[derive(Clone, Copy, Debug)]
pub struct TpchColumn {
    /// Its name: table, point, name in the specification.
    pub name: &'static str,
    /// Its data type: keys have 64 bits, decimals 15 digits.
    pub data_type: DataType,
    from: From,
}

#[derive(Clone, Copy, Debug)]
enum From {
    Orders(fn(&Order<'static>, &mut Values)),
    Lineitem(fn(&LineItem<'static>, &mut Values)),
}

/// There is no such column.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "there is no TPC-H column {0:?}; there are those of orders and lineitem without comments, such \
     as lineitem.l_quantity"
)]
pub struct UnknownColumn(pub String);

/// The values of a growing column.
enum Values {
    Int32(Vec<i32>),
    Int64(Vec<i64>),
    Decimal(Vec<i128>),
    Text { ends: Vec<usize>, bytes: String },
}

impl Values {
    fn new(data_type: DataType) -> Self {
        match data_type {
            DataType::Int32 | DataType::Date32 => Self::Int32(Vec::new()),
            DataType::Int64 => Self::Int64(Vec::new()),
            DataType::Decimal128 { .. } => Self::Decimal(Vec::new()),
            DataType::Utf8 => Self::Text {
                ends: Vec::new(),
                bytes: String::new(),
            },
            DataType::Boolean | DataType::Float64 => unreachable!("TPC-H has none such"),
        }
    }

    fn number(&mut self, value: i64) {
        match self {
            Self::Int32(values) => values.push(value.try_into().expect("dates and counts")),
            Self::Int64(values) => values.push(value),
            Self::Decimal(values) => values.push(value.into()),
            Self::Text { .. } => unreachable!("the table has the type of each column"),
        }
    }

    fn text(&mut self, value: impl core::fmt::Display) {
        let Self::Text { ends, bytes } = self else {
            unreachable!("the table has the type of each column");
        };
        write!(bytes, "{value}").expect("a string takes all texts");
        ends.push(bytes.len());
    }

    fn into_array(self, data_type: DataType) -> ArrayRef {
        match self {
            Self::Int32(values) if data_type == DataType::Date32 => {
                Arc::new(Date32Array::from(values))
            }
            Self::Int32(values) => Arc::new(Int32Array::from(values)),
            Self::Int64(values) => Arc::new(Int64Array::from(values)),
            Self::Decimal(values) => {
                let array = Decimal128Array::from(values);
                Arc::new(array.with_data_type(arrow_type(data_type)))
            }
            Self::Text { ends, bytes } => {
                let starts = [0].into_iter().chain(ends.iter().copied());
                let texts = starts.zip(&ends).map(|(start, &end)| &bytes[start..end]);
                Arc::new(StringArray::from_iter_values(texts))
            }
        }
    }
}

const fn orders(
    name: &'static str,
    data_type: DataType,
    from: fn(&Order<'static>, &mut Values),
) -> TpchColumn {
    let from = From::Orders(from);
    TpchColumn {
        name,
        data_type,
        from,
    }
}

const fn lineitem(
    name: &'static str,
    data_type: DataType,
    from: fn(&LineItem<'static>, &mut Values),
) -> TpchColumn {
    let from = From::Lineitem(from);
    TpchColumn {
        name,
        data_type,
        from,
    }
}

/// All columns of `orders` and `lineitem` except comments, in the order of the specification
/// (section 1.4.1).
#[rustfmt::skip]
pub const TPCH_COLUMNS: [TpchColumn; 23] = [
    orders("orders.o_orderkey", DataType::Int64, |o, v| v.number(o.o_orderkey)),
    orders("orders.o_custkey", DataType::Int64, |o, v| v.number(o.o_custkey)),
    orders("orders.o_orderstatus", DataType::Utf8, |o, v| v.text(o.o_orderstatus)),
    orders("orders.o_totalprice", DECIMAL, |o, v| v.number(o.o_totalprice.into_inner())),
    orders("orders.o_orderdate", DataType::Date32, |o, v| {
        v.number(o.o_orderdate.to_unix_epoch().into());
    }),
    orders("orders.o_orderpriority", DataType::Utf8, |o, v| v.text(o.o_orderpriority)),
    orders("orders.o_clerk", DataType::Utf8, |o, v| v.text(o.o_clerk)),
    orders("orders.o_shippriority", DataType::Int32, |o, v| v.number(o.o_shippriority.into())),
    lineitem("lineitem.l_orderkey", DataType::Int64, |l, v| v.number(l.l_orderkey)),
    lineitem("lineitem.l_partkey", DataType::Int64, |l, v| v.number(l.l_partkey)),
    lineitem("lineitem.l_suppkey", DataType::Int64, |l, v| v.number(l.l_suppkey)),
    lineitem("lineitem.l_linenumber", DataType::Int32, |l, v| v.number(l.l_linenumber.into())),
    // The generator uses whole units here, the specification a decimal.
    lineitem("lineitem.l_quantity", DECIMAL, |l, v| v.number(l.l_quantity * 100)),
    lineitem("lineitem.l_extendedprice", DECIMAL, |l, v| {
        v.number(l.l_extendedprice.into_inner());
    }),
    lineitem("lineitem.l_discount", DECIMAL, |l, v| v.number(l.l_discount.into_inner())),
    lineitem("lineitem.l_tax", DECIMAL, |l, v| v.number(l.l_tax.into_inner())),
    lineitem("lineitem.l_returnflag", DataType::Utf8, |l, v| v.text(l.l_returnflag)),
    lineitem("lineitem.l_linestatus", DataType::Utf8, |l, v| v.text(l.l_linestatus)),
    lineitem("lineitem.l_shipdate", DataType::Date32, |l, v| {
        v.number(l.l_shipdate.to_unix_epoch().into());
    }),
    lineitem("lineitem.l_commitdate", DataType::Date32, |l, v| {
        v.number(l.l_commitdate.to_unix_epoch().into());
    }),
    lineitem("lineitem.l_receiptdate", DataType::Date32, |l, v| {
        v.number(l.l_receiptdate.to_unix_epoch().into());
    }),
    lineitem("lineitem.l_shipinstruct", DataType::Utf8, |l, v| v.text(l.l_shipinstruct)),
    lineitem("lineitem.l_shipmode", DataType::Utf8, |l, v| v.text(l.l_shipmode)),
];

/// The column with this name.
///
/// # Errors
/// If there is none.
pub fn tpch_column(name: &str) -> Result<&'static TpchColumn, UnknownColumn> {
    static COLUMNS: [TpchColumn; 23] = TPCH_COLUMNS;
    let found = COLUMNS.iter().find(|column| column.name == name);
    found.ok_or_else(|| UnknownColumn(name.to_owned()))
}

/// Columns of a share of the tables, in the order of the names; each table is generated once.
///
/// # Errors
/// If there is no column with one of the names.
pub fn tpch_columns(
    scale: ScaleFactor,
    part: Part,
    names: &[&str],
) -> Result<Vec<ArrayRef>, UnknownColumn> {
    let columns = names.iter().map(|name| tpch_column(name));
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let mut values: Vec<_> = columns.iter().map(|c| Values::new(c.data_type)).collect();
    let mut of_orders = Vec::new();
    let mut of_lineitem = Vec::new();
    for (column, values) in columns.iter().zip(&mut values) {
        match column.from {
            From::Orders(add) => of_orders.push((add, values)),
            From::Lineitem(add) => of_lineitem.push((add, values)),
        }
    }
    if !of_orders.is_empty() {
        for order in generated_orders(scale, part) {
            for (add, values) in &mut of_orders {
                add(&order, values);
            }
        }
    }
    if !of_lineitem.is_empty() {
        for line in generated_lineitem(scale, part) {
            for (add, values) in &mut of_lineitem {
                add(&line, values);
            }
        }
    }
    let arrays = columns.iter().zip(values);
    Ok(arrays
        .map(|(column, values)| values.into_array(column.data_type))
        .collect())
}
