//! The operators of this module as bytes, for workers.

use super::count::CountExec;
use super::source::SourceExec;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};
use prost::Message as _;
use std::sync::Arc;

/// Knows the operators of [`Traffic`](super::Traffic).
#[derive(Debug)]
pub struct TrafficCodec;

#[derive(Clone, PartialEq, prost::Message)]
struct OperatorWire {
    #[prost(oneof = "OperatorKind", tags = "1, 2")]
    kind: Option<OperatorKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum OperatorKind {
    #[prost(message, tag = "1")]
    Source(SourceWire),
    /// The number of readers.
    #[prost(uint64, tag = "2")]
    Count(u64),
}

#[derive(Clone, PartialEq, prost::Message)]
struct SourceWire {
    #[prost(uint64, tag = "1")]
    partitions: u64,
    #[prost(uint64, tag = "2")]
    batches: u64,
    #[prost(uint64, tag = "3")]
    batch_rows: u64,
}

impl PhysicalExtensionCodec for TrafficCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        _context: &TaskContext,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let operator = OperatorWire::decode(bytes).map_err(external)?;
        match (operator.kind, inputs) {
            (Some(OperatorKind::Source(source)), []) => Ok(Arc::new(SourceExec::new(
                to_usize(source.partitions)?,
                to_usize(source.batches)?,
                to_usize(source.batch_rows)?,
            ))),
            (Some(OperatorKind::Count(readers)), [input]) => Ok(Arc::new(CountExec::new(
                Arc::clone(input),
                to_usize(readers)?,
            ))),
            _ => internal_err!("no operator of traffic"),
        }
    }

    fn try_encode(
        &self,
        operator: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        _converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let kind = if let Some(source) = operator.downcast_ref::<SourceExec>() {
            OperatorKind::Source(SourceWire {
                partitions: source.partitions as u64,
                batches: source.batches as u64,
                batch_rows: source.batch_rows as u64,
            })
        } else if let Some(count) = operator.downcast_ref::<CountExec>() {
            OperatorKind::Count(count.readers as u64)
        } else {
            return internal_err!("{} is no operator of traffic", operator.name());
        };
        let wire = OperatorWire { kind: Some(kind) };
        wire.encode(bytes).map_err(external)
    }
}

fn to_usize(number: u64) -> Result<usize> {
    usize::try_from(number).map_err(external)
}

fn external(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
