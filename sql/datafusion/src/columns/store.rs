//! The tables of a storage node, in its memory.

use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use rackweave::Rack;
use rackweave::columns::Catalogue;
use rackweave::memory::{BLOCKS_MAX, Memory};

use super::column_name;
use super::description::{ChunkDescription, TablePart};
use super::error::StoreError;
use super::values::{carried, to_column};

/// Tables, or shares of them, as columns of a catalogue.
#[derive(Debug)]
pub struct StorageTables {
    memory: Memory,
    pub(super) catalogue: Arc<Catalogue>,
    pub(super) parts: Vec<TablePart>,
}

impl StorageTables {
    /// No tables, in the memory of a rack.
    #[must_use]
    pub fn new(rack: &Rack) -> Self {
        Self {
            memory: rack.memory().clone(),
            // Each column is a block.
            catalogue: Arc::new(Catalogue::new(BLOCKS_MAX)),
            parts: Vec::new(),
        }
    }

    /// Adds a table of `chunks_total` chunks at all storage nodes, none of which is here yet.
    ///
    /// # Errors
    ///
    /// A type that no column can have, or a table of this name.
    pub fn add_table(
        &mut self,
        name: &str,
        schema: SchemaRef,
        chunks_total: u32,
    ) -> Result<(), StoreError> {
        for field in schema.fields() {
            if carried(field.data_type()).is_none() {
                return Err(StoreError::Type {
                    table: name.to_owned(),
                    column: field.name().clone(),
                    data_type: field.data_type().clone(),
                });
            }
        }
        if self.parts.iter().any(|part| part.name == name) {
            return Err(wrong(name, 0, "there is a table of this name already"));
        }
        self.parts.push(TablePart {
            name: name.to_owned(),
            schema,
            chunks_total,
            chunks: Vec::new(),
        });
        Ok(())
    }

    /// Adds the chunk of this number. Its rows are copied. Returns the bytes that it takes.
    ///
    /// # Errors
    ///
    /// A chunk that is there already or isn't of the table, or there is no memory. The columns that
    /// were added before stay.
    pub fn add_chunk(
        &mut self,
        table: &str,
        number: u32,
        rows: &RecordBatch,
    ) -> Result<u64, StoreError> {
        let part = self.parts.iter_mut().find(|part| part.name == table);
        let part = part.ok_or_else(|| wrong(table, number, "there is no such table"))?;
        if number >= part.chunks_total {
            return Err(wrong(table, number, "the table has fewer chunks"));
        }
        let types = |schema: &SchemaRef| {
            let fields = schema.fields().iter();
            fields
                .map(|field| field.data_type().clone())
                .collect::<Vec<_>>()
        };
        if types(&rows.schema()) != types(&part.schema) {
            return Err(wrong(
                table,
                number,
                "its columns are not those of the table",
            ));
        }
        let mut column_bytes = Vec::with_capacity(rows.num_columns());
        for (field, array) in part.schema.fields().iter().zip(rows.columns()) {
            let column = to_column(array)?;
            let name = column_name(table, number, field.name());
            self.catalogue.add(&self.memory, &name, &column)?;
            column_bytes.push(column.shape().bytes());
        }
        let bytes = column_bytes.iter().sum();
        part.chunks.push(ChunkDescription {
            number,
            rows: rows.num_rows() as u64,
            column_bytes,
        });
        Ok(bytes)
    }

    /// The tables.
    #[must_use]
    pub fn parts(&self) -> &[TablePart] {
        &self.parts
    }
}

fn wrong(table: &str, chunk: u32, reason: &'static str) -> StoreError {
    StoreError::Chunk {
        table: table.to_owned(),
        chunk,
        reason,
    }
}
