//! Record batches as messages, in the streaming format of Arrow IPC.
//!
//! The first message of a stream is the schema, each other one a record batch, after the
//! dictionaries that it needs and that the receiver hasn't. Within a message every buffer of a
//! column starts at a multiple of 64 bytes. The [encoder](BatchEncoder) copies each buffer once,
//! into the message; the [decoder](BatchDecoder) makes columns of the message's own memory.
//!
//! What a batch doesn't show isn't sent: slices are cut to size, and see [`compact`] for strings
//! and dictionaries.
//!
//! The format is that of the
//! [specification](https://arrow.apache.org/docs/format/Columnar.html#ipc-streaming-format)
//! without its end marker: a stream that ends without an error is complete.

mod check;
mod compact;
mod decode;
mod encode;

#[cfg(test)]
mod tests;

pub use compact::compact;
pub use decode::{BatchDecoder, BatchError};
pub use encode::{BatchEncoder, split};
