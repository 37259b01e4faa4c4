//! Messages to batches.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow_ipc::convert::fb_to_schema;
use arrow_ipc::reader::{RecordBatchDecoder, read_dictionary};
use arrow_ipc::{Message, MessageHeader, root_as_message};
use bytes::Bytes;
use datafusion::arrow::array::{ArrayRef, RecordBatch};
use datafusion::arrow::buffer::Buffer;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;

use super::check::check;

/// Before each header: a marker, and the header's length as a little-endian `u32`.
const MARKER: [u8; 4] = [0xff; 4];
const PREFIX_BYTES: usize = 8;

/// Flatbuffers are read in place, and have numbers of up to eight bytes.
const HEADER_ALIGN: usize = 8;

/// Why a message is no record batch.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The message contradicts itself.
    #[error("a peer's record batch has a wrong {what}")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
    /// The columns contradict themselves or the schema.
    #[error("a peer's record batch can't be read: {0}")]
    Arrow(#[from] ArrowError),
}

impl BatchError {
    pub(super) fn malformed(what: &'static str) -> Self {
        Self::Malformed { what }
    }
}

impl From<BatchError> for DataFusionError {
    fn from(error: BatchError) -> Self {
        Self::External(Box::new(error))
    }
}

/// Reads the messages of one stream of record batches.
#[derive(Default)]
pub struct BatchDecoder {
    schema: Option<SchemaRef>,
    /// Values of the dictionaries, by their number in the schema.
    dictionaries: HashMap<i64, ArrayRef>,
}

impl BatchDecoder {
    /// A decoder that waits for the schema.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The schema, once its message was here.
    #[must_use]
    pub fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// The batch of a message; `None` for that of the schema.
    ///
    /// The columns refer to the message's memory and keep it, where buffers are aligned for their
    /// type: 16 bytes for the largest. Others are copied, and those that are compressed.
    ///
    /// # Errors
    ///
    /// The message is malformed. Then the stream can't go on.
    pub fn decode(&mut self, message: Bytes) -> Result<Option<RecordBatch>, BatchError> {
        // `arrow-ipc` asserts some of what it reads. `check` finds what is known to fail there.
        let decoded = catch_unwind(AssertUnwindSafe(|| self.decode_all(message.into())));
        decoded.unwrap_or_else(|_| Err(BatchError::malformed("structure")))
    }

    fn decode_all(&mut self, mut rest: Buffer) -> Result<Option<RecordBatch>, BatchError> {
        loop {
            let (header, after) = split_header(&rest)?;
            let aligned;
            let header = if header.as_ptr().align_offset(HEADER_ALIGN) == 0 {
                header
            } else {
                aligned = Buffer::from(header.as_slice());
                aligned
            };
            let message = root_as_message(&header).map_err(|error| {
                ArrowError::ParseError(format!("the header is no flatbuffer: {error}"))
            })?;
            let body_len = usize::try_from(message.bodyLength())
                .ok()
                .filter(|len| *len <= after.len())
                .ok_or_else(|| BatchError::malformed("length of the body"))?;
            let body = after.slice_with_length(0, body_len);
            rest = after.slice(body_len);
            let batch = self.decode_one(message, &body)?;
            match (batch, rest.is_empty()) {
                (batch, true) => return Ok(batch),
                (None, false) => {}
                (Some(_), false) => return Err(BatchError::malformed("end")),
            }
        }
    }

    fn decode_one(
        &mut self,
        message: Message<'_>,
        body: &Buffer,
    ) -> Result<Option<RecordBatch>, BatchError> {
        let version = message.version();
        if message.header_type() == MessageHeader::Schema {
            let schema = message
                .header_as_schema()
                .filter(|schema| schema.fields().is_some());
            let schema = schema.ok_or_else(|| BatchError::malformed("schema"))?;
            if self.schema.is_some() {
                return Err(BatchError::malformed("second schema"));
            }
            self.schema = Some(Arc::new(fb_to_schema(schema)));
            return Ok(None);
        }
        let schema = self
            .schema
            .clone()
            .ok_or_else(|| BatchError::malformed("first message"))?;
        if let Some(dictionary) = message.header_as_dictionary_batch() {
            let values = dictionary
                .data()
                .ok_or_else(|| BatchError::malformed("dictionary"))?;
            check(values, body)?;
            read_dictionary(body, dictionary, &schema, &mut self.dictionaries, &version)?;
            return Ok(None);
        }
        let Some(batch) = message.header_as_record_batch() else {
            return Err(BatchError::malformed("kind of message"));
        };
        check(batch, body)?;
        let decoder =
            RecordBatchDecoder::try_new(body, batch, schema, &self.dictionaries, &version)?;
        Ok(Some(
            decoder.with_require_alignment(false).read_record_batch()?,
        ))
    }
}

/// The header that `buffer` starts with, and what is after it.
fn split_header(buffer: &Buffer) -> Result<(Buffer, Buffer), BatchError> {
    let wrong = || BatchError::malformed("start");
    let prefix = buffer.first_chunk::<PREFIX_BYTES>().ok_or_else(wrong)?;
    let [marker @ .., a, b, c, d] = *prefix;
    if marker != MARKER {
        return Err(wrong());
    }
    let len = usize::try_from(u32::from_le_bytes([a, b, c, d])).map_err(|_| wrong())?;
    if len > buffer.len() - PREFIX_BYTES {
        return Err(BatchError::malformed("length of the header"));
    }
    Ok((
        buffer.slice_with_length(PREFIX_BYTES, len),
        buffer.slice(PREFIX_BYTES + len),
    ))
}
