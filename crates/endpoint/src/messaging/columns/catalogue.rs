//! The columns that a storage node serves.

use super::{COLUMN_HEADER_LEN, ColumnData, ColumnError, ColumnHeader, ColumnShape, NAME_MAX};
use core::ops::Range;
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::memory::MemoryError;
use rackweave_base::{Block, Memory};
use rackweave_wire::fabric::message::column::{Checksum, ListEntry, ListHeader};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Named columns in region memory. All connections of a storage node share one catalogue, and
/// columns are added and removed while they are served.
#[derive(Debug)]
pub struct Catalogue {
    columns: RwLock<BTreeMap<Arc<str>, Arc<ServedColumn>>>,
    columns_max: usize,
}

/// Why an operation on a catalogue failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogueError {
    /// A column of this name already exists.
    #[error("there is a column {name:?} already; remove it first, or replace it")]
    Taken {
        /// The name.
        name: String,
    },
    /// There is no column of this name.
    #[error("there is no column {name:?}")]
    Unknown {
        /// The name.
        name: String,
    },
    /// The maximum number of columns is reached.
    #[error("the catalogue has {max} columns already")]
    Full {
        /// That maximum.
        max: usize,
    },
    /// The name or the shape is not valid.
    #[error(transparent)]
    Column(#[from] ColumnError),
    /// Its bytes could not be allocated.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The block is too short for the column.
    #[error("bytes {}..{} of a block of {block} bytes", range.start, range.end)]
    Outside {
        /// The range that the column would occupy.
        range: Range<u64>,
        /// Bytes of the block.
        block: u64,
    },
}

/// A column that is served.
#[derive(Debug)]
pub struct ServedColumn {
    name: Arc<str>,
    version: u64,
    shape: ColumnShape,
    block: Block,
    offset: u64,
    removed: AtomicBool,
}

/// A column that is no longer served, though connections may still be sending it.
#[derive(Debug)]
#[must_use = "the column's memory may be used again only when nobody sends it"]
pub struct Removal(Arc<ServedColumn>);

impl Removal {
    /// Whether no connection sends or holds it any more. A closed connection releases it when it is
    /// polled or destroyed.
    pub fn is_done(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// The column.
    pub fn column(&self) -> &ServedColumn {
        &self.0
    }
}

impl ServedColumn {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Its type, rows, nulls and lengths.
    pub fn shape(&self) -> &ColumnShape {
        &self.shape
    }

    /// The block with its buffers.
    pub fn block(&self) -> &Block {
        &self.block
    }

    /// The offset in the block where they start.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether it has been removed from the catalogue.
    pub fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Acquire)
    }

    pub(super) fn header(&self, request: u32) -> ColumnHeader {
        ColumnHeader {
            request,
            version: self.version,
            shape: self.shape,
        }
    }
}

impl Catalogue {
    /// An empty catalogue for at most `columns_max` columns.
    pub fn new(columns_max: usize) -> Self {
        Self {
            columns: RwLock::default(),
            columns_max,
        }
    }

    /// Adds a column. Its bytes are copied into memory of `memory`.
    ///
    /// # Errors
    /// If the name is not valid or taken, or there is no space.
    pub fn add(
        &self,
        memory: &Memory,
        name: &str,
        data: &ColumnData,
    ) -> Result<Arc<ServedColumn>, CatalogueError> {
        self.check(name)?;
        let column = place(memory, name, data)?;
        self.enter(column)
    }

    /// Adds a column whose buffers are already in `block` from `offset` on, each at a multiple of
    /// [`super::BUFFER_ALIGN`] bytes from there, followed by zeros. The bytes must not change until
    /// the column has been removed and [`Removal::is_done`] returns true.
    ///
    /// # Errors
    /// If the name is not valid or taken, the shape contradicts itself, or the block is too short.
    pub fn add_block(
        &self,
        name: &str,
        shape: ColumnShape,
        block: Block,
        offset: u64,
    ) -> Result<Arc<ServedColumn>, CatalogueError> {
        self.check(name)?;
        shape.check()?;
        let range = offset..offset.saturating_add(shape.bytes());
        let len = block.len() as u64;
        if range.end > len {
            return Err(CatalogueError::Outside { range, block: len });
        }
        let column = ServedColumn {
            name: name.into(),
            version: version_in(&block, offset, shape),
            shape,
            block,
            offset,
            removed: AtomicBool::new(false),
        };
        self.enter(column)
    }

    /// Serves other bytes under a name, taken or not. Transfers of the previous column are
    /// completed; its removal is returned.
    ///
    /// # Errors
    /// If the name is not valid, or there is no space.
    pub fn replace(
        &self,
        memory: &Memory,
        name: &str,
        data: &ColumnData,
    ) -> Result<Option<Removal>, CatalogueError> {
        check_name(name)?;
        let column = Arc::new(place(memory, name, data)?);
        let mut columns = self.write();
        if !columns.contains_key(name) {
            self.check_room(&columns)?;
        }
        Ok(columns.insert(column.name.clone(), column).map(removal))
    }

    /// Removes a column. Requests whose answers have not started are refused.
    ///
    /// # Errors
    /// If there is no such column.
    pub fn remove(&self, name: &str) -> Result<Removal, CatalogueError> {
        let removed = self.write().remove(name);
        removed.map(removal).ok_or_else(|| CatalogueError::Unknown {
            name: name.to_owned(),
        })
    }

    /// The column of this name.
    pub fn get(&self, name: &str) -> Option<Arc<ServedColumn>> {
        self.read().get(name).cloned()
    }

    /// All columns, by name.
    pub fn columns(&self) -> Vec<Arc<ServedColumn>> {
        self.read().values().cloned().collect()
    }

    /// The number of columns.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there are no columns.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// The message that lists them.
    pub(super) fn list(&self, request: u32) -> Vec<u8> {
        let columns = self.read();
        let header = ListHeader {
            request,
            count: columns.len() as u64,
        };
        let mut bytes = header.emit().to_vec();
        for column in columns.values() {
            let entry = ListEntry {
                name: &column.name,
                version: column.version,
                shape: column.shape,
            };
            entry.emit(&mut bytes).expect("names were checked");
        }
        bytes
    }

    /// The checks that need no column.
    fn check(&self, name: &str) -> Result<(), CatalogueError> {
        check_name(name)?;
        self.check_entry(&self.read(), name)
    }

    fn check_entry(
        &self,
        columns: &BTreeMap<Arc<str>, Arc<ServedColumn>>,
        name: &str,
    ) -> Result<(), CatalogueError> {
        if columns.contains_key(name) {
            return Err(CatalogueError::Taken {
                name: name.to_owned(),
            });
        }
        self.check_room(columns)
    }

    fn check_room(
        &self,
        columns: &BTreeMap<Arc<str>, Arc<ServedColumn>>,
    ) -> Result<(), CatalogueError> {
        let max = self.columns_max;
        if columns.len() >= max {
            return Err(CatalogueError::Full { max });
        }
        Ok(())
    }

    fn enter(&self, column: ServedColumn) -> Result<Arc<ServedColumn>, CatalogueError> {
        let column = Arc::new(column);
        let mut columns = self.write();
        self.check_entry(&columns, &column.name)?;
        columns.insert(column.name.clone(), column.clone());
        Ok(column)
    }

    // Every change of the map is a single call, so a panic elsewhere leaves it consistent.

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<Arc<str>, Arc<ServedColumn>>> {
        self.columns.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<Arc<str>, Arc<ServedColumn>>> {
        self.columns.write().unwrap_or_else(PoisonError::into_inner)
    }
}

fn check_name(name: &str) -> Result<(), ColumnError> {
    let found = name.len();
    if found == 0 || found > NAME_MAX {
        return Err(ColumnError::Name { found });
    }
    Ok(())
}

fn removal(column: Arc<ServedColumn>) -> Removal {
    column.removed.store(true, Ordering::Release);
    Removal(column)
}

/// Copies a column into memory that can be registered.
fn place(memory: &Memory, name: &str, data: &ColumnData) -> Result<ServedColumn, CatalogueError> {
    let bytes = data.bytes();
    // A block is never empty, but a column without rows is.
    let block = memory.allocate(bytes.len().max(COLUMN_HEADER_LEN))?;
    block.write(0, bytes);
    Ok(ServedColumn {
        name: name.into(),
        version: data.content(),
        shape: *data.shape(),
        block,
        offset: 0,
        removed: AtomicBool::new(false),
    })
}

/// The version that belongs to bytes in a block.
fn version_in(block: &Block, offset: u64, shape: ColumnShape) -> u64 {
    const CHUNK: usize = 1 << 16;
    let header = ColumnHeader {
        request: 0,
        version: 0,
        shape,
    };
    let mut sum = Checksum::new(&header);
    let mut bytes = vec![0; CHUNK];
    let (mut at, mut left) = (offset as usize, shape.bytes() as usize);
    while left > 0 {
        let len = left.min(CHUNK);
        block.read(at, &mut bytes[..len]);
        sum.update(&bytes[..len]);
        (at, left) = (at + len, left - len);
    }
    sum.finish()
}
