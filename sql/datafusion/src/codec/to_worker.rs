//! What a coordinator sends to a worker after the plan.

use datafusion_distributed::{CoordinatorToWorkerMsg, MaybeEncoded, WorkUnitBatch, WorkUnitMsg};
use prost::Message as _;

use super::{CodecError, to_u64, to_usize, to_uuid};

#[derive(Clone, PartialEq, prost::Message)]
struct ToWorkerWire {
    #[prost(oneof = "ToWorkerKind", tags = "1, 2")]
    kind: Option<ToWorkerKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum ToWorkerKind {
    #[prost(message, tag = "1")]
    Batch(BatchWire),
    #[prost(bool, tag = "2")]
    EndOfUnits(bool),
}

#[derive(Clone, PartialEq, prost::Message)]
struct BatchWire {
    #[prost(message, repeated, tag = "1")]
    units: Vec<UnitWire>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct UnitWire {
    #[prost(bytes = "vec", tag = "1")]
    feed: Vec<u8>,
    #[prost(uint64, tag = "2")]
    partition: u64,
    #[prost(bytes = "vec", tag = "3")]
    body: Vec<u8>,
    /// Created, sent, received, processed: nanoseconds since 1970, 0 for what hasn't happened.
    #[prost(uint64, tag = "4")]
    created_ns: u64,
    #[prost(uint64, tag = "5")]
    sent_ns: u64,
    #[prost(uint64, tag = "6")]
    received_ns: u64,
    #[prost(uint64, tag = "7")]
    processed_ns: u64,
}

/// A message of the coordinator as bytes.
#[must_use]
pub fn encode_to_worker(message: CoordinatorToWorkerMsg) -> Vec<u8> {
    let kind = match message {
        CoordinatorToWorkerMsg::WorkUnitBatch(batch) => ToWorkerKind::Batch(BatchWire {
            units: batch.batch.into_iter().map(encode_unit).collect(),
        }),
        CoordinatorToWorkerMsg::WorkUnitEos => ToWorkerKind::EndOfUnits(true),
    };
    ToWorkerWire { kind: Some(kind) }.encode_to_vec()
}

/// The message of the coordinator that `bytes` are.
///
/// # Errors
///
/// The bytes are no such message.
pub fn decode_to_worker(bytes: &[u8]) -> Result<CoordinatorToWorkerMsg, CodecError> {
    let wire = ToWorkerWire::decode(bytes)?;
    Ok(
        match wire
            .kind
            .ok_or_else(|| CodecError::missing("message to the worker"))?
        {
            ToWorkerKind::Batch(batch) => CoordinatorToWorkerMsg::WorkUnitBatch(WorkUnitBatch {
                batch: batch
                    .units
                    .into_iter()
                    .map(decode_unit)
                    .collect::<Result<_, _>>()?,
            }),
            ToWorkerKind::EndOfUnits(_) => CoordinatorToWorkerMsg::WorkUnitEos,
        },
    )
}

fn encode_unit(unit: WorkUnitMsg) -> UnitWire {
    UnitWire {
        feed: unit.id.as_bytes().to_vec(),
        partition: to_u64(unit.partition),
        body: match unit.body {
            MaybeEncoded::Encoded(bytes) => bytes,
            MaybeEncoded::Decoded(unit) => unit.encode_to_bytes(),
        },
        created_ns: to_u64(unit.created_timestamp_unix_nanos),
        sent_ns: to_u64(unit.sent_timestamp_unix_nanos),
        received_ns: to_u64(unit.received_timestamp_unix_nanos),
        processed_ns: to_u64(unit.processed_timestamp_unix_nanos),
    }
}

fn decode_unit(wire: UnitWire) -> Result<WorkUnitMsg, CodecError> {
    let time = |ns| to_usize(ns, "time of a work unit");
    Ok(WorkUnitMsg {
        id: to_uuid(&wire.feed, "feed id")?,
        partition: to_usize(wire.partition, "partition")?,
        body: MaybeEncoded::Encoded(wire.body),
        created_timestamp_unix_nanos: time(wire.created_ns)?,
        sent_timestamp_unix_nanos: time(wire.sent_ns)?,
        received_timestamp_unix_nanos: time(wire.received_ns)?,
        processed_timestamp_unix_nanos: time(wire.processed_ns)?,
    })
}
