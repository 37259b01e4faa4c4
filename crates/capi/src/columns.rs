//! Columns that a storage node serves, and what a column is in C.

use crate::connection::Connection;
use crate::error::{Fault, call};
use crate::handle::{self, Handled, Kind};
use crate::messaging::rackweave_connection;
use crate::pointer::{read, slice, text};
use crate::rack::{Rack, rackweave_rack};
use crate::status::Status;
use crate::wait::wait;
use ::rackweave_rack::Node;
use ::rackweave_rack::messaging::ColumnService;
use core::ffi::c_char;
use rackweave_endpoint::messaging::columns::{
    Buffer, Catalogue, CatalogueError, ColumnData, ColumnServerConfig, ColumnShape, DataError,
    DataType,
};
use std::sync::Arc;

/// Named columns in a rack's memory, which any number of connections serve. Any thread, several at
/// a time.
pub struct rackweave_catalogue {
    _opaque: (),
}

/// Serves the columns of a catalogue over one connection. One thread at a time.
pub struct rackweave_column_server {
    _opaque: (),
}

/// The type of a column's values, little-endian.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_column_type {
    /// A bit each, from the lowest of a byte on.
    Boolean = 1,
    /// Signed numbers of 4 bytes.
    Int32 = 2,
    /// Signed numbers of 8 bytes.
    Int64 = 3,
    /// IEEE 754 binary64.
    Float64 = 4,
    /// Days since 1970-01-01, of 4 bytes.
    Date32 = 5,
    /// Signed numbers of 16 bytes: the value times ten to the power of `scale`.
    Decimal128 = 6,
    /// Texts in UTF-8, one after the other.
    Utf8 = 7,
}

/// A column: its shape, and its buffers as in Arrow's columnar format.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct rackweave_column_data {
    /// A RACKWEAVE_COLUMN_TYPE_*.
    pub data_type: u32,
    /// Of decimals: digits, 1 to 38; else 0.
    pub precision: u32,
    /// Of decimals: digits after the point; negative: zeros before it. Else 0.
    pub scale: i32,
    /// Rows.
    pub rows: u64,
    /// Rows that are null.
    pub nulls: u64,
    /// The version, a checksum of all of this. Not read by `rackweave_catalogue_add`.
    pub version: u64,
    /// A bit per row, 1 if it is not null; NULL if none is.
    pub validity: *const u8,
    /// Of texts: `rows` + 1 numbers of 4 bytes, where each begins and ends; else NULL.
    pub offsets: *const u8,
    /// The values.
    pub values: *const u8,
    /// Their bytes.
    pub values_length: usize,
}

impl rackweave_column_data {
    /// The content of a column, for as long as that stays.
    pub(crate) fn of(column: &ColumnData) -> Self {
        let shape = column.shape();
        let [data_type, precision, scale, _] = shape.data_type.emit();
        let buffer = |buffer| match column.buffer(buffer) {
            [] => core::ptr::null(),
            bytes => bytes.as_ptr(),
        };
        Self {
            data_type: data_type.into(),
            precision: precision.into(),
            scale: (scale as i8).into(),
            rows: shape.rows,
            nulls: shape.nulls,
            version: column.version(),
            validity: buffer(Buffer::Validity),
            offsets: buffer(Buffer::Offsets),
            values: buffer(Buffer::Values),
            values_length: column.buffer(Buffer::Values).len(),
        }
    }

    fn shape(&self) -> Result<ColumnShape, Fault> {
        let precision = u8::try_from(self.precision);
        let scale = i8::try_from(self.scale);
        let tag = u8::try_from(self.data_type);
        let (Ok(tag), Ok(precision), Ok(scale)) = (tag, precision, scale) else {
            let detail = format!(
                "there is no column type {} of precision {} and scale {}",
                self.data_type, self.precision, self.scale
            );
            return Err(Fault::argument(detail));
        };
        let data_type = DataType::parse([tag, precision, scale as u8, 0]);
        let data_type = data_type.map_err(Fault::argument)?;
        let bytes = self.values_length as u64;
        ColumnShape::new(data_type, self.rows, self.nulls, bytes).map_err(Fault::argument)
    }

    /// The column with copies of the buffers.
    ///
    /// # Safety
    /// The pointers that are not NULL are to buffers as long as the shape says.
    unsafe fn copied(&self) -> Result<ColumnData, Fault> {
        let shape = self.shape()?;
        let length = |buffer| {
            usize::try_from(shape.len_of(buffer)).map_err(|_| {
                Fault::argument(format!("{} rows are more than any memory has", self.rows))
            })
        };
        let (validity, offsets) = (length(Buffer::Validity)?, length(Buffer::Offsets)?);
        // SAFETY: as the caller promises.
        let buffers = unsafe {
            (
                slice(self.validity, validity, "validity")?,
                slice(self.offsets, offsets, "offsets")?,
                slice(self.values, self.values_length, "values")?,
            )
        };
        ColumnData::new(shape, buffers.0, buffers.1, buffers.2).map_err(|error| match error {
            DataError::Shape(error) => Fault::argument(error),
            DataError::NoMemory { .. } => Fault::new(Status::NoRoom, error),
        })
    }
}

/// A catalogue shared by handles.
#[derive(Clone)]
struct SharedCatalogue {
    catalogue: Arc<Catalogue>,
    rack: Rack,
}

impl Handled for SharedCatalogue {
    type Opaque = rackweave_catalogue;
    const KIND: Kind = Kind::Catalogue;
    const IS_SHARED: bool = true;
}

fn catalogue_fault(error: &CatalogueError) -> Fault {
    let status = match error {
        CatalogueError::Taken { .. } => Status::Exists,
        CatalogueError::Unknown { .. } => Status::NotFound,
        CatalogueError::Full { .. } | CatalogueError::Memory(_) => Status::NoRoom,
        CatalogueError::Column(_) | CatalogueError::Outside { .. } => Status::BadArgument,
    };
    Fault::new(status, error)
}

/// Makes a catalogue of up to `columns_max` columns.
///
/// # Safety
/// `catalogue` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_catalogue_create(
    rack: *const rackweave_rack,
    columns_max: usize,
    catalogue: *mut *mut rackweave_catalogue,
) -> Status {
    let make = || {
        Ok(SharedCatalogue {
            rack: handle::shared::<Rack>(rack)?,
            catalogue: Arc::new(Catalogue::new(columns_max)),
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(catalogue, "catalogue", make) }
}

/// Ends a handle of a catalogue. Servers go on with it. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_catalogue_destroy(catalogue: *mut rackweave_catalogue) -> Status {
    handle::destroy::<SharedCatalogue>(catalogue)
}

/// Copies a column into the rack's memory, and serves it from now on.
///
/// EXISTS: the catalogue has one of this name. BAD_ARGUMENT: name or shape make no sense. NO_ROOM:
/// the rack's `memory_limit`, or the catalogue is full.
///
/// # Safety
/// `name` ends with a zero byte. `column` points to a column whose buffers are as long as its shape
/// says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_catalogue_add(
    catalogue: *const rackweave_catalogue,
    name: *const c_char,
    column: *const rackweave_column_data,
) -> Status {
    call(|| {
        let SharedCatalogue { catalogue, rack } = handle::shared(catalogue)?;
        // SAFETY: as the caller promises.
        let (name, column) = unsafe { (text(name, "name")?, read(column, "column")?.copied()?) };
        let added = catalogue.add(rack.memory(), name, &column);
        added.map(drop).map_err(|error| catalogue_fault(&error))
    })
}

/// Serves a column no longer. An answer that is being sent is completed.
///
/// NOT_FOUND: there is none of this name.
///
/// # Safety
/// `name` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_catalogue_remove(
    catalogue: *const rackweave_catalogue,
    name: *const c_char,
) -> Status {
    call(|| {
        let SharedCatalogue { catalogue, .. } = handle::shared(catalogue)?;
        // SAFETY: as the caller promises.
        let removed = catalogue.remove(unsafe { text(name, "name")? });
        // The catalogue owns the column's memory, which stays for as long as it is sent.
        removed.map(drop).map_err(|error| catalogue_fault(&error))
    })
}

/// A server with its rack. The fields are dropped in this order.
struct Serving {
    service: ColumnService,
    node: Node,
    _rack: Rack,
}

impl Handled for Serving {
    type Opaque = rackweave_column_server;
    const KIND: Kind = Kind::ColumnServer;
}

/// Serves the present and future columns of a catalogue over a connection, whose ends belong to the
/// server from now on: none of them may have been taken.
///
/// IN_USE: an end was taken before. REFUSED: not connected yet.
///
/// # Safety
/// `server` may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackweave_column_server_create(
    connection: *mut rackweave_connection,
    catalogue: *const rackweave_catalogue,
    server: *mut *mut rackweave_column_server,
) -> Status {
    let make = || {
        let SharedCatalogue { catalogue, .. } = handle::shared(catalogue)?;
        handle::with(connection, |connection: &mut Connection| {
            let (node, rack) = (connection.place()?, connection.rack.clone());
            let config = ColumnServerConfig::default();
            Ok(Serving {
                service: ColumnService::new(connection.take_all()?, catalogue, config),
                node,
                _rack: rack,
            })
        })
    };
    // SAFETY: as the caller promises.
    unsafe { handle::create(server, "server", make) }
}

/// Closes the connection. NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_column_server_destroy(server: *mut rackweave_column_server) -> Status {
    handle::destroy::<Serving>(server)
}

/// Takes requests and gets on with answers. OK: something was done. PENDING: nothing was to do;
/// drive the rack. END: the reader has finished and has everything. CLOSED, GONE: the connection is
/// closed, or broken.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_column_server_poll(server: *mut rackweave_column_server) -> Status {
    handle::on(server, |serving: &mut Serving| {
        match serving.service.poll()? {
            true => Ok(()),
            false if serving.service.is_finished() => Err(Fault::quiet(Status::End)),
            false => Err(Fault::quiet(Status::Pending)),
        }
    })
}

/// Serves until the reader has finished and has everything (OK), at most `timeout_ns` nanoseconds.
/// CLOSED, GONE: the connection is closed, or broken.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_column_server_serve(
    server: *mut rackweave_column_server,
    timeout_ns: u64,
) -> Status {
    handle::on(server, |serving: &mut Serving| {
        let Serving { service, node, .. } = serving;
        wait(node, timeout_ns, || {
            service.poll()?;
            Ok(service.is_finished().then_some(()))
        })
    })
}
