//! Errors of Arrow's kernels.

use datafusion::arrow::error::ArrowError;

use super::PeerError;
use super::io::{self, IoWire};

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ArrowWire {
    #[prost(enumeration = "ArrowKind", tag = "1")]
    kind: i32,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(string, optional, tag = "3")]
    backtrace: Option<String>,
    /// Of [`ArrowKind::OffsetOverflow`].
    #[prost(uint64, tag = "4")]
    offset: u64,
    /// Of [`ArrowKind::Io`].
    #[prost(message, optional, tag = "5")]
    io: Option<IoWire>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum ArrowKind {
    External = 0,
    NotYetImplemented = 1,
    Cast = 2,
    Memory = 3,
    Parse = 4,
    Schema = 5,
    Compute = 6,
    DivideByZero = 7,
    ArithmeticOverflow = 8,
    Csv = 9,
    Json = 10,
    Avro = 11,
    Io = 12,
    Ipc = 13,
    InvalidArgument = 14,
    Parquet = 15,
    CDataInterface = 16,
    DictionaryKeyOverflow = 17,
    RunEndIndexOverflow = 18,
    OffsetOverflow = 19,
}

pub(super) fn encode(error: &ArrowError, backtrace: Option<&String>) -> ArrowWire {
    let external;
    let (kind, text) = match error {
        ArrowError::ExternalError(error) => {
            external = error.to_string();
            (ArrowKind::External, external.as_str())
        }
        ArrowError::NotYetImplemented(text) => (ArrowKind::NotYetImplemented, text.as_str()),
        ArrowError::CastError(text) => (ArrowKind::Cast, text.as_str()),
        ArrowError::MemoryError(text) => (ArrowKind::Memory, text.as_str()),
        ArrowError::ParseError(text) => (ArrowKind::Parse, text.as_str()),
        ArrowError::SchemaError(text) => (ArrowKind::Schema, text.as_str()),
        ArrowError::ComputeError(text) => (ArrowKind::Compute, text.as_str()),
        ArrowError::DivideByZero => (ArrowKind::DivideByZero, ""),
        ArrowError::ArithmeticOverflow(text) => (ArrowKind::ArithmeticOverflow, text.as_str()),
        ArrowError::CsvError(text) => (ArrowKind::Csv, text.as_str()),
        ArrowError::JsonError(text) => (ArrowKind::Json, text.as_str()),
        ArrowError::AvroError(text) => (ArrowKind::Avro, text.as_str()),
        ArrowError::IoError(text, _) => (ArrowKind::Io, text.as_str()),
        ArrowError::IpcError(text) => (ArrowKind::Ipc, text.as_str()),
        ArrowError::InvalidArgumentError(text) => (ArrowKind::InvalidArgument, text.as_str()),
        ArrowError::ParquetError(text) => (ArrowKind::Parquet, text.as_str()),
        ArrowError::CDataInterface(text) => (ArrowKind::CDataInterface, text.as_str()),
        ArrowError::DictionaryKeyOverflowError => (ArrowKind::DictionaryKeyOverflow, ""),
        ArrowError::RunEndIndexOverflowError => (ArrowKind::RunEndIndexOverflow, ""),
        ArrowError::OffsetOverflowError(_) => (ArrowKind::OffsetOverflow, ""),
    };
    let mut wire = ArrowWire {
        kind: kind.into(),
        text: text.to_owned(),
        backtrace: backtrace.cloned(),
        ..ArrowWire::default()
    };
    match error {
        ArrowError::IoError(_, error) => wire.io = Some(io::encode(error)),
        ArrowError::OffsetOverflowError(offset) => wire.offset = crate::codec::to_u64(*offset),
        _ => {}
    }
    wire
}

pub(super) fn decode(wire: ArrowWire) -> (ArrowError, Option<String>) {
    let ArrowWire {
        kind,
        text,
        backtrace,
        offset,
        io,
    } = wire;
    let error = match ArrowKind::try_from(kind).unwrap_or(ArrowKind::External) {
        ArrowKind::External => ArrowError::ExternalError(Box::new(PeerError { text })),
        ArrowKind::NotYetImplemented => ArrowError::NotYetImplemented(text),
        ArrowKind::Cast => ArrowError::CastError(text),
        ArrowKind::Memory => ArrowError::MemoryError(text),
        ArrowKind::Parse => ArrowError::ParseError(text),
        ArrowKind::Schema => ArrowError::SchemaError(text),
        ArrowKind::Compute => ArrowError::ComputeError(text),
        ArrowKind::DivideByZero => ArrowError::DivideByZero,
        ArrowKind::ArithmeticOverflow => ArrowError::ArithmeticOverflow(text),
        ArrowKind::Csv => ArrowError::CsvError(text),
        ArrowKind::Json => ArrowError::JsonError(text),
        ArrowKind::Avro => ArrowError::AvroError(text),
        ArrowKind::Io => ArrowError::IoError(text, io::decode(io.unwrap_or_default())),
        ArrowKind::Ipc => ArrowError::IpcError(text),
        ArrowKind::InvalidArgument => ArrowError::InvalidArgumentError(text),
        ArrowKind::Parquet => ArrowError::ParquetError(text),
        ArrowKind::CDataInterface => ArrowError::CDataInterface(text),
        ArrowKind::DictionaryKeyOverflow => ArrowError::DictionaryKeyOverflowError,
        ArrowKind::RunEndIndexOverflow => ArrowError::RunEndIndexOverflowError,
        ArrowKind::OffsetOverflow => {
            ArrowError::OffsetOverflowError(usize::try_from(offset).unwrap_or(usize::MAX))
        }
    };
    (error, backtrace)
}
