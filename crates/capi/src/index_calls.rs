//! Simple calls of a client of an index: one operation each, executed synchronously.

use crate::error::Fault;
use crate::handle;
use crate::index_client::{
    Client, DELETE, INSERT, PUT, UPDATE, decode, rackweave_index_client, rackweave_index_operation,
};
use crate::pointer::{space, tell};
use crate::status::Status;
use rackweave_endpoint::index::Op;

/// A write of a kind.
fn write(kind: u32, key: u64, value: *const u8, value_length: usize) -> rackweave_index_operation {
    rackweave_index_operation {
        kind,
        limit: 0,
        key,
        last: 0,
        value,
        value_length,
    }
}

/// A call that executes a write and waits for its result.
///
/// # Safety
/// The value of the operation has its stated length.
unsafe fn carry_out(
    client: *mut rackweave_index_client,
    operation: &rackweave_index_operation,
    timeout_ns: u64,
) -> Status {
    handle::on(client, |client: &mut Client| {
        // SAFETY: as the caller promises.
        let (op, kind) = unsafe { decode(operation)? };
        client.write(&op, kind, timeout_ns)
    })
}

impl Client {
    /// A write that is waited for.
    fn write(&mut self, op: &Op<'_>, kind: u32, timeout_ns: u64) -> Result<(), Fault> {
        match self.execute(op, kind, timeout_ns)?.status {
            Status::Ok => Ok(()),
            other => Err(Fault::quiet(other)),
        }
    }
}

/// The value of a key, copied into `value`; `length`, which may be NULL, is how long it is.
/// NOT_FOUND: the key has none. TOO_LONG: it has more than `capacity` bytes; nothing was copied.
///
/// # Safety
/// `value` has `capacity` bytes; `length` is NULL or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_lookup(
    client: *mut rackweave_index_client,
    key: u64,
    timeout_ns: u64,
    value: *mut u8,
    capacity: usize,
    length: *mut usize,
) -> Status {
    handle::on(client, |client: &mut Client| {
        // SAFETY: as the caller promises.
        let buffer = unsafe { space(value, capacity, "value")? };
        let reply = client.execute(&Op::Get { key }, 0, timeout_ns)?;
        let Some((_, found)) = client.values.first() else {
            return Err(Fault::quiet(reply.status));
        };
        // SAFETY: as the caller promises.
        unsafe { tell(length, "length", found.len())? };
        let Some(buffer) = buffer.get_mut(..found.len()) else {
            let has = found.len();
            let detail = format!("the value has {has} bytes, the buffer {capacity}");
            return Err(Fault::new(Status::TooLong, detail));
        };
        buffer.copy_from_slice(found);
        Ok(())
    })
}

/// Gives a key that has none a value. EXISTS: it has one, which stays as it is.
///
/// # Safety
/// `value` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_insert(
    client: *mut rackweave_index_client,
    key: u64,
    value: *const u8,
    length: usize,
    timeout_ns: u64,
) -> Status {
    let operation = write(INSERT, key, value, length);
    // SAFETY: as the caller promises.
    unsafe { carry_out(client, &operation, timeout_ns) }
}

/// Gives a key that has a value another one. NOT_FOUND: it has none, and gets none.
///
/// # Safety
/// `value` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_update(
    client: *mut rackweave_index_client,
    key: u64,
    value: *const u8,
    length: usize,
    timeout_ns: u64,
) -> Status {
    let operation = write(UPDATE, key, value, length);
    // SAFETY: as the caller promises.
    unsafe { carry_out(client, &operation, timeout_ns) }
}

/// Gives a key a value, whether or not it has one.
///
/// # Safety
/// `value` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_index_client_put(
    client: *mut rackweave_index_client,
    key: u64,
    value: *const u8,
    length: usize,
    timeout_ns: u64,
) -> Status {
    let operation = write(PUT, key, value, length);
    // SAFETY: as the caller promises.
    unsafe { carry_out(client, &operation, timeout_ns) }
}

/// Takes a key's value away. NOT_FOUND: it has none.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_index_client_delete(
    client: *mut rackweave_index_client,
    key: u64,
    timeout_ns: u64,
) -> Status {
    handle::on(client, |client: &mut Client| {
        client.write(&Op::Delete { key }, DELETE, timeout_ns)
    })
}
