//! Leaves out what a batch holds and doesn't show.

use std::sync::Arc;

use arrow_select::dictionary::garbage_collect_any_dictionary;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewArray, RecordBatch, RecordBatchOptions, StringViewArray,
    make_array,
};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;

/// Bytes that no view shows, below which a copy isn't worth its time.
const WASTE_BYTES: usize = 4 << 10;

/// Strings up to this length are in their view.
const INLINE_BYTES: u32 = 12;

/// The batch without bytes that it doesn't show.
///
/// Arrow IPC writes all buffers of a column of views, and all values of a dictionary. Each batch
/// that a shuffle makes refers to the buffers of the batch that it was taken from: uncompacted,
/// each of n partitions would send all strings. Views are copied together when more than a quarter
/// of their buffers isn't shown, dictionaries are cut when they have more values than the column
/// has rows.
///
/// # Errors
///
/// An array contradicts itself.
pub fn compact(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let mut changed = false;
    let mut columns = Vec::with_capacity(batch.num_columns());
    for column in batch.columns() {
        let compacted = compact_array(column)?;
        changed |= compacted.is_some();
        columns.push(compacted.unwrap_or_else(|| Arc::clone(column)));
    }
    if !changed {
        return Ok(batch.clone());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

/// `None`: the array is as small as it gets.
fn compact_array(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    Ok(match array.data_type() {
        DataType::Utf8View => compact_strings(array.as_string_view()),
        DataType::BinaryView => compact_bytes(array.as_binary_view()),
        DataType::Dictionary(_, _) => {
            let Some(dictionary) = array.as_any_dictionary_opt() else {
                return Ok(None);
            };
            let cut = if dictionary.values().len() > dictionary.keys().len() {
                Some(garbage_collect_any_dictionary(dictionary)?)
            } else {
                None
            };
            let nested = compact_children(cut.as_ref().unwrap_or(array))?;
            nested.or(cut)
        }
        kind if kind.is_nested() => compact_children(array)?,
        _ => None,
    })
}

/// Compacts the arrays inside of another one. Their lengths stay, and so does what refers to them.
fn compact_children(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    if !has_waste(array.data_type()) {
        return Ok(None);
    }
    let data = array.to_data();
    let mut changed = false;
    let mut children = Vec::with_capacity(data.child_data().len());
    for child in data.child_data() {
        let compacted = compact_array(&make_array(child.clone()))?;
        changed |= compacted.is_some();
        children.push(compacted.map_or_else(|| child.clone(), |child| child.to_data()));
    }
    if !changed {
        return Ok(None);
    }
    Ok(Some(make_array(
        data.into_builder().child_data(children).build()?,
    )))
}

/// Whether views or dictionaries are somewhere inside of the type.
fn has_waste(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::Dictionary(_, values) => has_waste(values) || values.is_nested(),
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::ListView(field)
        | DataType::LargeListView(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _)
        | DataType::RunEndEncoded(_, field) => is_wasteful(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| is_wasteful(field.data_type())),
        DataType::Union(fields, _) => fields
            .iter()
            .any(|(_, field)| is_wasteful(field.data_type())),
        _ => false,
    }
}

fn is_wasteful(kind: &DataType) -> bool {
    matches!(kind, DataType::Dictionary(_, _)) || has_waste(kind)
}

fn compact_strings(array: &StringViewArray) -> Option<ArrayRef> {
    is_sparse(array.data_buffers(), array.views()).then(|| Arc::new(array.gc()) as ArrayRef)
}

fn compact_bytes(array: &BinaryViewArray) -> Option<ArrayRef> {
    is_sparse(array.data_buffers(), array.views()).then(|| Arc::new(array.gc()) as ArrayRef)
}

/// Whether views leave more than a quarter of their buffers out. A string that several views show
/// counts each time, as it would be copied each time.
fn is_sparse(buffers: &[Buffer], views: &[u128]) -> bool {
    let held: usize = buffers.iter().map(Buffer::len).sum();
    if held < WASTE_BYTES {
        return false;
    }
    // The length is the low 32 bits of a view.
    let length = |view: &u128| u32::try_from(view & u128::from(u32::MAX)).unwrap_or(0);
    let long = views
        .iter()
        .map(length)
        .filter(|length| *length > INLINE_BYTES);
    let shown: usize = long
        .map(|length| usize::try_from(length).unwrap_or(usize::MAX))
        .sum();
    held.saturating_sub(shown) >= (held / 4).max(WASTE_BYTES)
}
