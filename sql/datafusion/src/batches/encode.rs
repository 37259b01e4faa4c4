//! Batches to messages.

use arrow_ipc::CompressionType;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use datafusion::arrow::array::{Array as _, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;

use super::compact;
use crate::codec::Compression;

/// Bytes of a message beside the columns: the header, and padding of a column's few buffers.
const HEADER_BYTES: usize = 1024;
const PADDING_BYTES: usize = 3 * 64;

/// Makes the messages of one stream of record batches.
pub struct BatchEncoder {
    /// Writes into the next message.
    writer: StreamWriter<Vec<u8>>,
    /// Whether the length of a message is known before it is written.
    is_plain: bool,
}

impl BatchEncoder {
    /// An encoder, and the stream's first message.
    ///
    /// # Errors
    ///
    /// A type that Arrow IPC can't carry: a dictionary of dictionaries.
    pub fn start(schema: &Schema, compression: Compression) -> Result<(Self, Vec<u8>), ArrowError> {
        let compression = match compression {
            Compression::None => None,
            Compression::Lz4 => Some(CompressionType::LZ4_FRAME),
            Compression::Zstd => Some(CompressionType::ZSTD),
        };
        let options = IpcWriteOptions::default().try_with_compression(compression)?;
        let mut writer = StreamWriter::try_new_with_options(Vec::new(), schema, options)?;
        let message = std::mem::take(writer.get_mut());
        let is_plain = compression.is_none();
        Ok((Self { writer, is_plain }, message))
    }

    /// The message of a batch.
    ///
    /// After an error the stream can't go on: the receiver may lack a dictionary.
    ///
    /// # Errors
    ///
    /// A compressor fails, or an array contradicts itself.
    pub fn encode(&mut self, batch: &RecordBatch) -> Result<Vec<u8>, ArrowError> {
        let batch = compact(batch)?;
        if self.is_plain {
            self.writer.get_mut().reserve(estimate(&batch));
        }
        self.writer.write(&batch)?;
        Ok(std::mem::take(self.writer.get_mut()))
    }
}

/// The batch in parts of about `bytes_max` each, at least one row: usually in one part, itself.
pub fn split(batch: &RecordBatch, bytes_max: usize) -> impl Iterator<Item = RecordBatch> {
    let rows = batch.num_rows();
    let parts = estimate(batch)
        .div_ceil(bytes_max.max(1))
        .clamp(1, rows.max(1));
    let rows_of_part = rows.div_ceil(parts).max(1);
    (0..rows.max(1)).step_by(rows_of_part).map(move |start| {
        if parts == 1 {
            batch.clone()
        } else {
            batch.slice(start, rows_of_part.min(rows - start))
        }
    })
}

/// About the length of the message without compression, so that it needn't grow as it is written.
fn estimate(batch: &RecordBatch) -> usize {
    let column = |size: usize| size + PADDING_BYTES;
    let columns = batch.columns().iter();
    let sizes = columns.map(|array| column(array.to_data().get_slice_memory_size().unwrap_or(0)));
    HEADER_BYTES + sizes.sum::<usize>()
}
