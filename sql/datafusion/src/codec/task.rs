//! Which task a message is about.

use datafusion_distributed::TaskKey;

use super::{CodecError, to_u64, to_usize, to_uuid};

/// [`TaskKey`].
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct TaskKeyWire {
    #[prost(bytes = "vec", tag = "1")]
    query_id: Vec<u8>,
    #[prost(uint64, tag = "2")]
    stage_id: u64,
    #[prost(uint64, tag = "3")]
    task_number: u64,
}

pub(super) fn encode(key: &TaskKey) -> TaskKeyWire {
    TaskKeyWire {
        query_id: key.query_id.as_bytes().to_vec(),
        stage_id: to_u64(key.stage_id),
        task_number: to_u64(key.task_number),
    }
}

pub(super) fn decode(wire: Option<TaskKeyWire>) -> Result<TaskKey, CodecError> {
    let wire = wire.ok_or_else(|| CodecError::missing("task_key"))?;
    Ok(TaskKey {
        query_id: to_uuid(&wire.query_id, "query_id")?,
        stage_id: to_usize(wire.stage_id, "stage_id")?,
        task_number: to_usize(wire.task_number, "task_number")?,
    })
}
