//! What a storage node says of itself, and how it is asked, as bytes.
//!
//! A stream to a storage node's exchange opens with a request, and is answered with one message.
//! The format is Protocol Buffers. Requests have other field numbers than those of workers, so that
//! a worker that is taken for a storage node refuses them, and the other way round.

use std::net::SocketAddr;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion_proto::protobuf;
use prost::Message as _;

use crate::codec::CodecError;

/// What a node is asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StorageRequest {
    /// The address of its column service.
    Address,
    /// Its tables.
    Tables,
}

/// The chunks of a table that one storage node serves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TablePart {
    /// The name of the table.
    pub name: String,
    /// Its columns.
    pub schema: SchemaRef,
    /// The chunks of the table at all storage nodes.
    pub chunks_total: u32,
    /// Those of this node.
    pub chunks: Vec<ChunkDescription>,
}

/// A chunk of rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChunkDescription {
    /// Its number in the table, from zero.
    pub number: u32,
    /// Its rows.
    pub rows: u64,
    /// The bytes of each column, in the order of the schema.
    pub column_bytes: Vec<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct RequestWire {
    #[prost(oneof = "RequestKind", tags = "101, 102")]
    kind: Option<RequestKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum RequestKind {
    #[prost(bool, tag = "101")]
    Address(bool),
    #[prost(bool, tag = "102")]
    Tables(bool),
}

#[derive(Clone, PartialEq, prost::Message)]
struct AddressWire {
    #[prost(string, tag = "1")]
    address: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TablesWire {
    #[prost(message, repeated, tag = "1")]
    tables: Vec<TableWire>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct TableWire {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    schema: Option<protobuf::Schema>,
    #[prost(uint32, tag = "3")]
    chunks_total: u32,
    #[prost(message, repeated, tag = "4")]
    chunks: Vec<ChunkWire>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ChunkWire {
    #[prost(uint32, tag = "1")]
    number: u32,
    #[prost(uint64, tag = "2")]
    rows: u64,
    #[prost(uint64, repeated, tag = "3")]
    column_bytes: Vec<u64>,
}

pub(super) fn encode_request(request: StorageRequest) -> Vec<u8> {
    let kind = Some(match request {
        StorageRequest::Address => RequestKind::Address(true),
        StorageRequest::Tables => RequestKind::Tables(true),
    });
    RequestWire { kind }.encode_to_vec()
}

pub(super) fn decode_request(bytes: &[u8]) -> Result<StorageRequest, CodecError> {
    match RequestWire::decode(bytes)?.kind {
        Some(RequestKind::Address(_)) => Ok(StorageRequest::Address),
        Some(RequestKind::Tables(_)) => Ok(StorageRequest::Tables),
        None => Err(CodecError::missing("kind")),
    }
}

pub(super) fn encode_address(address: SocketAddr) -> Vec<u8> {
    let address = address.to_string();
    AddressWire { address }.encode_to_vec()
}

pub(super) fn decode_address(bytes: &[u8]) -> Result<SocketAddr, CodecError> {
    let wire = AddressWire::decode(bytes)?;
    let parsed = wire.address.parse();
    parsed.map_err(|error| CodecError::invalid("address", &error))
}

/// Tables whose schemas were checked when they were added.
pub(super) fn encode_tables(tables: &[TablePart]) -> Result<Vec<u8>, CodecError> {
    let tables = tables.iter().map(|table| {
        Ok(TableWire {
            name: table.name.clone(),
            schema: Some(encode_schema(&table.schema)?),
            chunks_total: table.chunks_total,
            chunks: table.chunks.iter().map(encode_chunk).collect(),
        })
    });
    let tables = tables.collect::<Result<_, CodecError>>()?;
    Ok(TablesWire { tables }.encode_to_vec())
}

pub(super) fn decode_tables(bytes: &[u8]) -> Result<Vec<TablePart>, CodecError> {
    let tables = TablesWire::decode(bytes)?.tables.into_iter().map(|wire| {
        let table = TablePart {
            name: wire.name,
            schema: decode_schema(wire.schema)?,
            chunks_total: wire.chunks_total,
            chunks: wire.chunks.into_iter().map(decode_chunk).collect(),
        };
        check(&table)?;
        Ok(table)
    });
    tables.collect()
}

pub(super) fn encode_schema(schema: &Schema) -> Result<protobuf::Schema, CodecError> {
    let encoded = protobuf::Schema::try_from(schema);
    encoded.map_err(|error| CodecError::invalid("schema", &error))
}

pub(super) fn decode_schema(wire: Option<protobuf::Schema>) -> Result<SchemaRef, CodecError> {
    let wire = wire.ok_or_else(|| CodecError::missing("schema"))?;
    let schema = Schema::try_from(&wire);
    let schema = schema.map_err(|error| CodecError::invalid("schema", &error))?;
    let is_carried = |data_type| super::values::carried(data_type).is_some();
    match schema
        .fields()
        .iter()
        .find(|field| !is_carried(field.data_type()))
    {
        Some(field) => Err(CodecError::invalid(
            "schema",
            &format!("the column '{}' is {}", field.name(), field.data_type()),
        )),
        None => Ok(Arc::new(schema)),
    }
}

fn encode_chunk(chunk: &ChunkDescription) -> ChunkWire {
    ChunkWire {
        number: chunk.number,
        rows: chunk.rows,
        column_bytes: chunk.column_bytes.clone(),
    }
}

fn decode_chunk(wire: ChunkWire) -> ChunkDescription {
    ChunkDescription {
        number: wire.number,
        rows: wire.rows,
        column_bytes: wire.column_bytes,
    }
}

/// A description that contradicts itself would panic later.
fn check(table: &TablePart) -> Result<(), CodecError> {
    let columns = table.schema.fields().len();
    for chunk in &table.chunks {
        if chunk.column_bytes.len() != columns {
            let found = chunk.column_bytes.len();
            let reason = format!("{found} for {columns} columns");
            return Err(CodecError::invalid("column_bytes", &reason));
        }
        if chunk.number >= table.chunks_total {
            let reason = format!("{} of {}", chunk.number, table.chunks_total);
            return Err(CodecError::invalid("number", &reason));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::datatypes::{DataType, Field};

    fn part(column_bytes: Vec<u64>, number: u32) -> TablePart {
        let fields = vec![
            Field::new("key", DataType::Int64, false),
            Field::new("text", DataType::Utf8View, true),
            Field::new("price", DataType::Decimal128(15, 2), false),
        ];
        TablePart {
            name: "items".to_owned(),
            schema: Arc::new(Schema::new(fields)),
            chunks_total: 3,
            chunks: vec![ChunkDescription {
                number,
                rows: 1000,
                column_bytes,
            }],
        }
    }

    #[test]
    fn messages_come_back() {
        for request in [StorageRequest::Address, StorageRequest::Tables] {
            let bytes = encode_request(request);
            assert_eq!(decode_request(&bytes).unwrap(), request);
            assert!(crate::codec::decode_request(&bytes).is_err());
        }
        let address = "10.0.0.1:4711".parse().unwrap();
        assert_eq!(decode_address(&encode_address(address)).unwrap(), address);
        let tables = [part(vec![8000, 20_000, 16_000], 2)];
        let bytes = encode_tables(&tables).unwrap();
        assert_eq!(decode_tables(&bytes).unwrap(), tables);
    }

    #[test]
    fn contradictions_are_refused() {
        let check = |part: TablePart, expect: &str| {
            let bytes = encode_tables(&[part]).unwrap();
            let error = decode_tables(&bytes).unwrap_err().to_string();
            assert!(error.contains(expect), "{error}");
        };
        check(part(vec![1, 2], 0), "column_bytes");
        check(part(vec![1, 2, 3], 3), "number");
        let mut other = part(vec![1], 0);
        let field = Field::new("small", DataType::UInt8, false);
        other.schema = Arc::new(Schema::new(vec![field]));
        check(other, "'small' is UInt8");
        assert!(decode_request(&[]).is_err());
        let worker = crate::codec::encode_worker_info_request();
        assert!(decode_request(&worker).is_err());
        assert!(decode_address(b"\x0a\x03no!").is_err());
    }
}
