//! Column scans as bytes, for plans that are sent to workers.

use std::sync::Arc;

use datafusion::common::{Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use datafusion_proto::protobuf;
use prost::Message as _;

use super::client::StorageClient;
use super::description::{decode_schema, encode_schema};
use super::scan::{ColumnScanExec, ScanChunk};
use crate::codec::CodecError;

/// Encodes and decodes [`ColumnScanExec`]. Decoded scans fetch with the client of the codec.
#[derive(Clone, Debug)]
pub struct ColumnScanCodec {
    client: StorageClient,
}

impl ColumnScanCodec {
    /// A codec for scans at a node.
    #[must_use]
    pub fn new(client: StorageClient) -> Self {
        Self { client }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct ScanWire {
    #[prost(string, tag = "1")]
    table: String,
    #[prost(message, optional, tag = "2")]
    schema: Option<protobuf::Schema>,
    /// Each of the nodes once; chunks have a place in this list.
    #[prost(string, repeated, tag = "3")]
    nodes: Vec<String>,
    #[prost(message, repeated, tag = "4")]
    partitions: Vec<PartitionWire>,
    #[prost(uint64, optional, tag = "5")]
    limit: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct PartitionWire {
    #[prost(message, repeated, tag = "1")]
    chunks: Vec<ChunkWire>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct ChunkWire {
    #[prost(uint32, tag = "1")]
    node: u32,
    #[prost(uint32, tag = "2")]
    number: u32,
    #[prost(uint64, tag = "3")]
    rows: u64,
    #[prost(uint64, tag = "4")]
    bytes: u64,
}

impl PhysicalExtensionCodec for ColumnScanCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !inputs.is_empty() {
            return internal_err!("a column scan has no inputs");
        }
        Ok(Arc::new(self.decode(bytes)?))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(scan) = node.downcast_ref::<ColumnScanExec>() else {
            return internal_err!("{} is no column scan", node.name());
        };
        bytes.extend(encode(scan)?.encode_to_vec());
        Ok(())
    }
}

fn encode(scan: &ColumnScanExec) -> Result<ScanWire, CodecError> {
    let mut nodes: Vec<String> = Vec::new();
    let mut place = |node: &str| {
        let found = nodes.iter().position(|known| known == node);
        let place = found.unwrap_or_else(|| {
            nodes.push(node.to_owned());
            nodes.len() - 1
        });
        u32::try_from(place).map_err(|error| CodecError::invalid("nodes", &error))
    };
    let mut encode_chunk = |chunk: &ScanChunk| {
        Ok(ChunkWire {
            node: place(&chunk.node)?,
            number: chunk.number,
            rows: chunk.rows,
            bytes: chunk.bytes,
        })
    };
    let partitions = scan.partitions().iter().map(|chunks| {
        let chunks = chunks.iter().map(&mut encode_chunk);
        let chunks = chunks.collect::<Result<_, CodecError>>()?;
        Ok(PartitionWire { chunks })
    });
    let partitions = partitions.collect::<Result<_, CodecError>>()?;
    Ok(ScanWire {
        table: scan.table().to_owned(),
        schema: Some(encode_schema(&scan.schema())?),
        nodes,
        partitions,
        limit: scan.limit().map(|limit| limit as u64),
    })
}

impl ColumnScanCodec {
    fn decode(&self, bytes: &[u8]) -> Result<ColumnScanExec, CodecError> {
        let wire = ScanWire::decode(bytes)?;
        let nodes: Vec<Arc<str>> = wire.nodes.into_iter().map(Arc::from).collect();
        let decode_chunk = |chunk: ChunkWire| {
            let node = usize::try_from(chunk.node)
                .ok()
                .and_then(|at| nodes.get(at));
            let node = node.ok_or_else(|| CodecError::missing("node"))?;
            Ok(ScanChunk {
                node: Arc::clone(node),
                number: chunk.number,
                rows: chunk.rows,
                bytes: chunk.bytes,
            })
        };
        let partitions = wire.partitions.into_iter().map(|partition| {
            let chunks = partition.chunks.into_iter().map(decode_chunk);
            chunks.collect::<Result<Vec<_>, CodecError>>()
        });
        let partitions = partitions.collect::<Result<_, CodecError>>()?;
        let limit = wire.limit.map(usize::try_from).transpose();
        let limit = limit.map_err(|error| CodecError::invalid("limit", &error))?;
        Ok(ColumnScanExec::new(
            wire.table.into(),
            decode_schema(wire.schema)?,
            partitions,
            limit,
            self.client.clone(),
        ))
    }
}
