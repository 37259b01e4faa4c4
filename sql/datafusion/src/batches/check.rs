//! Checks the header of a record batch before `arrow-ipc` reads the body with it.
//!
//! The decoder of `arrow-ipc` checks what arrays contain, but slices the body with a header's
//! offsets as they are, and panics when they lie outside.

use arrow_ipc::RecordBatch;

use super::BatchError;

/// Bytes that a message may have after it is decompressed. A header can claim any length.
const DECOMPRESSED_BYTES_MAX: u64 = 1 << 34;

/// Bytes before a compressed buffer: its length when it is decompressed.
const PREFIX_BYTES: usize = 8;

pub(super) fn check(batch: RecordBatch<'_>, body: &[u8]) -> Result<(), BatchError> {
    let length = |value: i64, what| usize::try_from(value).map_err(|_| BatchError::malformed(what));
    length(batch.length(), "number of rows")?;
    for node in batch.nodes().into_iter().flatten() {
        let rows = length(node.length(), "length of a column")?;
        if length(node.null_count(), "number of nulls")? > rows {
            return Err(BatchError::malformed("number of nulls"));
        }
    }
    let mut decompressed = 0_u64;
    let mut buffers = 0_usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let start = length(buffer.offset(), "offset of a buffer")?;
        let len = length(buffer.length(), "length of a buffer")?;
        let end = start.checked_add(len);
        let bytes = end
            .and_then(|end| body.get(start..end))
            .ok_or_else(|| BatchError::malformed("place of a buffer"))?;
        if batch.compression().is_some() && !bytes.is_empty() {
            decompressed = decompressed.saturating_add(claimed(bytes)?);
        }
        buffers += 1;
    }
    if decompressed > DECOMPRESSED_BYTES_MAX {
        return Err(BatchError::malformed("length of a compressed buffer"));
    }
    let mut variadic = 0_usize;
    for count in batch.variadicBufferCounts().into_iter().flatten() {
        variadic = variadic.saturating_add(length(count, "number of a column's buffers")?);
    }
    if variadic > buffers {
        return Err(BatchError::malformed("number of a column's buffers"));
    }
    Ok(())
}

/// The length that a compressed buffer says it has; -1 stands for one that isn't compressed.
fn claimed(bytes: &[u8]) -> Result<u64, BatchError> {
    let wrong = || BatchError::malformed("length of a compressed buffer");
    let prefix = bytes.first_chunk::<PREFIX_BYTES>().ok_or_else(wrong)?;
    match i64::from_le_bytes(*prefix) {
        -1 => Ok(0),
        claimed => u64::try_from(claimed).map_err(|_| wrong()),
    }
}
