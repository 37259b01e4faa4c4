//! Tables of storage nodes in a session.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::TableType;
use datafusion::logical_expr::Expr;
use datafusion::physical_plan::ExecutionPlan;
use futures::future::try_join_all;

use super::client::StorageClient;
use super::description::{ChunkDescription, TablePart};
use super::error::StorageError;
use super::scan::{ColumnScanExec, ScanChunk};
use super::tasks::divide;

/// A table whose chunks are at storage nodes.
#[derive(Clone, Debug)]
pub struct StorageTable {
    name: Arc<str>,
    schema: SchemaRef,
    /// In the order of their numbers, with the node of each.
    chunks: Vec<(Arc<str>, ChunkDescription)>,
    client: StorageClient,
}

/// The tables that these storage nodes serve.
///
/// # Errors
///
/// A node can't be reached, or [the shares don't fit](combine).
pub async fn tables(
    client: &StorageClient,
    nodes: impl IntoIterator<Item = impl AsRef<str>>,
) -> Result<Vec<StorageTable>, StorageError> {
    let ask = async |node: Arc<str>| {
        let parts = client.tables(&node).await?;
        Ok((node, parts))
    };
    let nodes = nodes.into_iter().map(|node| Arc::from(node.as_ref()));
    let answers = try_join_all(nodes.map(ask)).await?;
    combine(client, answers)
}

/// Tables of the shares that storage nodes have, in the order of their names.
///
/// # Errors
///
/// Nodes have different tables of the same name, or a chunk is at none of them.
pub fn combine(
    client: &StorageClient,
    answers: Vec<(Arc<str>, Vec<TablePart>)>,
) -> Result<Vec<StorageTable>, StorageError> {
    let mut shares: BTreeMap<String, Shares> = BTreeMap::new();
    for (node, parts) in answers {
        for part in parts {
            let shares = shares.entry(part.name.clone()).or_insert_with(|| Shares {
                node: Arc::clone(&node),
                schema: Arc::clone(&part.schema),
                chunks_total: part.chunks_total,
                chunks: BTreeMap::new(),
            });
            shares.add(&node, part)?;
        }
    }
    let complete = |(name, shares): (String, Shares)| shares.complete(name, client);
    shares.into_iter().map(complete).collect()
}

/// What is known of a table.
struct Shares {
    /// The node that described it first.
    node: Arc<str>,
    schema: SchemaRef,
    chunks_total: u32,
    chunks: BTreeMap<u32, (Arc<str>, ChunkDescription)>,
}

impl Shares {
    /// A chunk that several nodes have is read from the one that was asked first.
    fn add(&mut self, node: &Arc<str>, part: TablePart) -> Result<(), StorageError> {
        let table = part.name;
        let different = |one: &Arc<str>, what| {
            Err(StorageError::Different {
                table: table.clone(),
                one: one.to_string(),
                other: node.to_string(),
                what,
            })
        };
        if part.schema != self.schema {
            return different(&self.node, "the columns");
        }
        if part.chunks_total != self.chunks_total {
            return different(&self.node, "the numbers of chunks");
        }
        for chunk in part.chunks {
            let number = chunk.number;
            let entry = self.chunks.entry(number);
            let (first, known) = entry.or_insert_with(|| (Arc::clone(node), chunk.clone()));
            if *known != chunk {
                return different(&*first, "the rows of a chunk");
            }
        }
        Ok(())
    }

    fn complete(self, table: String, client: &StorageClient) -> Result<StorageTable, StorageError> {
        let missing = (0..self.chunks_total).find(|number| !self.chunks.contains_key(number));
        if let Some(chunk) = missing {
            return Err(StorageError::Missing {
                table,
                chunk,
                chunks: self.chunks_total,
            });
        }
        Ok(StorageTable {
            name: table.into(),
            schema: self.schema,
            chunks: self.chunks.into_values().collect(),
            client: client.clone(),
        })
    }
}

impl StorageTable {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.chunks.iter().map(|(_, chunk)| chunk.rows).sum()
    }

    /// The bytes of all columns.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let chunks = self.chunks.iter();
        chunks.flat_map(|(_, chunk)| &chunk.column_bytes).sum()
    }

    /// The scan of some columns, all of them without a projection, in at most `partitions`.
    ///
    /// # Errors
    ///
    /// A projection to a column that isn't there.
    pub fn scan_columns(
        &self,
        projection: Option<&[usize]>,
        limit: Option<usize>,
        partitions: usize,
    ) -> Result<ColumnScanExec> {
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        let schema = Arc::new(self.schema.project(projection)?);
        let mut chunks = Vec::new();
        let mut rows_before = 0;
        for (node, chunk) in &self.chunks {
            let is_enough = |limit| rows_before >= limit as u64;
            if limit.is_some_and(is_enough) {
                break;
            }
            rows_before += chunk.rows;
            let bytes = projection.iter().map(|&column| chunk.column_bytes[column]);
            chunks.push(ScanChunk {
                node: Arc::clone(node),
                number: chunk.number,
                rows: chunk.rows,
                bytes: bytes.sum(),
            });
        }
        let partitions = partitions.min(chunks.len());
        Ok(ColumnScanExec::new(
            Arc::clone(&self.name),
            schema,
            divide(chunks, partitions),
            limit,
            self.client.clone(),
        ))
    }
}

#[async_trait]
impl TableProvider for StorageTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let partitions = session.config().target_partitions();
        let projection = projection.map(Vec::as_slice);
        Ok(Arc::new(self.scan_columns(projection, limit, partitions)?))
    }
}
