//! A result as rows of cells, and the comparison of two results.

use crate::error::CommandError;
use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::logical_expr::{Expr, LogicalPlan};
use std::cmp::Ordering;
use std::fmt;

/// Relative difference that two floating-point cells may have: sums over several workers add in
/// another order.
const TOLERANCE: f64 = 1e-9;

/// A cell. Integers, decimals, dates and strings are exact.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// No value.
    Null,
    /// The text of a value.
    Exact(String),
    /// A floating-point number.
    Float(f64),
}

impl fmt::Display for Cell {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("NULL"),
            Self::Exact(text) => formatter.write_str(text),
            Self::Float(number) => number.fmt(formatter),
        }
    }
}

impl Cell {
    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => {
                a.to_bits() == b.to_bits()
                    || (a.is_nan() && b.is_nan())
                    || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
            }
            _ => self == other,
        }
    }

    /// Exact cells first, so that rows with nearly equal numbers are in the same order.
    fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a.total_cmp(b),
            (Self::Exact(a), Self::Exact(b)) => a.cmp(b),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Exact(_) => 1,
            Self::Float(_) => 2,
        }
    }
}

/// A result.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Names and types of the columns, for comparison.
    pub columns: Vec<(String, DataType)>,
    /// Rows in the order of the result.
    pub rows: Vec<Vec<Cell>>,
    /// Columns by which the query orders its rows, the first key first.
    pub ordered_by: Vec<usize>,
}

impl Table {
    /// Reads a result.
    ///
    /// # Errors
    /// A column has a type that cannot be printed.
    pub fn read(
        schema: &SchemaRef,
        batches: &[RecordBatch],
        plan: &LogicalPlan,
    ) -> Result<Self, CommandError> {
        let column = |field: &datafusion::arrow::datatypes::FieldRef| {
            (field.name().clone(), comparable(field.data_type()))
        };
        let columns = schema.fields().iter().map(column).collect();
        let mut rows = Vec::with_capacity(batches.iter().map(RecordBatch::num_rows).sum());
        for batch in batches {
            let start = rows.len();
            rows.resize_with(start + batch.num_rows(), Vec::new);
            for array in batch.columns() {
                append(array.as_ref(), &mut rows[start..])?;
            }
        }
        Ok(Self {
            columns,
            rows,
            ordered_by: ordered_by(plan),
        })
    }

    /// Compares two results: rows as multisets, and the order of the keys where a query orders.
    /// Rows with equal keys may be in any order.
    ///
    /// # Errors
    /// The first difference; `self` is named `name`, and `other` is named `reference`.
    pub fn check(&self, name: &str, other: &Self, reference: &str) -> Result<(), String> {
        if self.columns != other.columns {
            let columns = |table: &Self| format!("{:?}", table.columns);
            let (own, other) = (columns(self), columns(other));
            return Err(format!(
                "{name} has the columns {own}, {reference} has {other}"
            ));
        }
        if self.rows.len() != other.rows.len() {
            let (own, other) = (self.rows.len(), other.rows.len());
            return Err(format!("{name} has {own} rows, {reference} has {other}"));
        }
        let (sorted, other_sorted) = (self.sorted(), other.sorted());
        for (row, other) in sorted.into_iter().zip(other_sorted) {
            if !rows_equal(row, other) {
                let (row, other) = (text(row), text(other));
                return Err(format!("{name} has the row {row}, {reference} has {other}"));
            }
        }
        for (index, (row, other)) in self.rows.iter().zip(&other.rows).enumerate() {
            if self
                .ordered_by
                .iter()
                .any(|&key| !row[key].equals(&other[key]))
            {
                return Err(format!(
                    "row {index} of {name} is not in the order of {reference}"
                ));
            }
        }
        Ok(())
    }

    fn sorted(&self) -> Vec<&Vec<Cell>> {
        let mut rows: Vec<&Vec<Cell>> = self.rows.iter().collect();
        rows.sort_by(|a, b| order(a, b, false).then_with(|| order(a, b, true)));
        rows
    }
}

/// The order of two rows by their exact cells, or by their floating-point cells.
fn order(a: &[Cell], b: &[Cell], floats: bool) -> Ordering {
    let of_kind =
        |(a, b): &(&Cell, &Cell)| matches!((a, b), (Cell::Float(_), Cell::Float(_))) == floats;
    let different = |(a, b): (&Cell, &Cell)| Some(a.order(b)).filter(|order| order.is_ne());
    a.iter()
        .zip(b)
        .filter(of_kind)
        .find_map(different)
        .unwrap_or(Ordering::Equal)
}

fn rows_equal(a: &[Cell], b: &[Cell]) -> bool {
    a.iter().zip(b).all(|(a, b)| a.equals(b))
}

fn text(row: &[Cell]) -> String {
    row.iter()
        .map(Cell::to_string)
        .collect::<Vec<_>>()
        .join(" | ")
}

/// A plan may choose between the layouts of strings; their contents are the same.
fn comparable(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        DataType::Dictionary(_, values) => comparable(values),
        other => other.clone(),
    }
}

fn append(array: &dyn Array, rows: &mut [Vec<Cell>]) -> Result<(), CommandError> {
    let options = FormatOptions::default();
    let formatter = ArrayFormatter::try_new(array, &options)
        .map_err(|error| CommandError::Failed(format!("cannot read the result: {error}")))?;
    for (index, row) in rows.iter_mut().enumerate() {
        row.push(if array.is_null(index) {
            Cell::Null
        } else {
            match array.data_type() {
                DataType::Float64 => Cell::Float(array.as_primitive::<Float64Type>().value(index)),
                DataType::Float32 => {
                    Cell::Float(array.as_primitive::<Float32Type>().value(index).into())
                }
                _ => Cell::Exact(formatter.value(index).to_string()),
            }
        });
    }
    Ok(())
}

/// The output columns by which a plan orders its rows. A key that is not in the output ends the
/// list: what follows it is not visible in the result.
fn ordered_by(plan: &LogicalPlan) -> Vec<usize> {
    let mut node = plan;
    loop {
        node = match node {
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Projection(projection) => &projection.input,
            LogicalPlan::Sort(sort) => {
                let column = |key: &datafusion::logical_expr::SortExpr| match &key.expr {
                    Expr::Column(column) => {
                        let names = plan.schema().field_names();
                        names.iter().position(|name| *name == column.flat_name())
                    }
                    _ => None,
                };
                return sort.expr.iter().map_while(column).collect();
            }
            _ => return Vec::new(),
        };
    }
}

#[cfg(test)]
mod tests;
