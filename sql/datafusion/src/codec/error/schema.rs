//! Errors of names that a schema lacks or has twice.

use datafusion::common::{Column, SchemaError, TableReference};

use crate::codec::CodecError;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct SchemaErrorWire {
    #[prost(string, optional, tag = "1")]
    backtrace: Option<String>,
    #[prost(oneof = "SchemaErrorKind", tags = "2, 3, 4, 5")]
    kind: Option<SchemaErrorKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum SchemaErrorKind {
    #[prost(message, tag = "2")]
    Ambiguous(ColumnWire),
    #[prost(message, tag = "3")]
    DuplicateQualified(ColumnWire),
    #[prost(string, tag = "4")]
    DuplicateUnqualified(String),
    #[prost(message, tag = "5")]
    NotFound(NotFoundWire),
}

#[derive(Clone, PartialEq, prost::Message)]
struct NotFoundWire {
    #[prost(message, optional, tag = "1")]
    field: Option<ColumnWire>,
    #[prost(message, repeated, tag = "2")]
    valid: Vec<ColumnWire>,
}

/// A column without its place in the query's text.
#[derive(Clone, PartialEq, prost::Message)]
struct ColumnWire {
    /// Catalog, schema and table, of which the first ones may be missing.
    #[prost(string, repeated, tag = "1")]
    table: Vec<String>,
    #[prost(string, tag = "2")]
    name: String,
}

pub(super) fn encode(error: &SchemaError, backtrace: Option<&String>) -> SchemaErrorWire {
    let kind = match error {
        SchemaError::AmbiguousReference { field } => {
            SchemaErrorKind::Ambiguous(encode_column(field))
        }
        SchemaError::DuplicateQualifiedField { qualifier, name } => {
            SchemaErrorKind::DuplicateQualified(ColumnWire {
                table: encode_table(qualifier),
                name: name.clone(),
            })
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            SchemaErrorKind::DuplicateUnqualified(name.clone())
        }
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => SchemaErrorKind::NotFound(NotFoundWire {
            field: Some(encode_column(field)),
            valid: valid_fields.iter().map(encode_column).collect(),
        }),
    };
    SchemaErrorWire {
        backtrace: backtrace.cloned(),
        kind: Some(kind),
    }
}

pub(super) fn decode(wire: SchemaErrorWire) -> Result<(SchemaError, Option<String>), CodecError> {
    let error = match wire
        .kind
        .ok_or_else(|| CodecError::missing("schema error"))?
    {
        SchemaErrorKind::Ambiguous(field) => SchemaError::AmbiguousReference {
            field: Box::new(decode_column(field)?),
        },
        SchemaErrorKind::DuplicateQualified(ColumnWire { table, name }) => {
            let qualifier = decode_table(table)?.ok_or_else(|| CodecError::missing("qualifier"))?;
            SchemaError::DuplicateQualifiedField {
                qualifier: Box::new(qualifier),
                name,
            }
        }
        SchemaErrorKind::DuplicateUnqualified(name) => {
            SchemaError::DuplicateUnqualifiedField { name }
        }
        SchemaErrorKind::NotFound(NotFoundWire { field, valid }) => SchemaError::FieldNotFound {
            field: Box::new(decode_column(
                field.ok_or_else(|| CodecError::missing("field"))?,
            )?),
            valid_fields: valid
                .into_iter()
                .map(decode_column)
                .collect::<Result<_, _>>()?,
        },
    };
    Ok((error, wire.backtrace))
}

fn encode_column(column: &Column) -> ColumnWire {
    ColumnWire {
        table: column
            .relation
            .as_ref()
            .map(encode_table)
            .unwrap_or_default(),
        name: column.name.clone(),
    }
}

fn encode_table(table: &TableReference) -> Vec<String> {
    [table.catalog(), table.schema(), Some(table.table())]
        .into_iter()
        .flatten()
        .map(str::to_owned)
        .collect()
}

fn decode_column(wire: ColumnWire) -> Result<Column, CodecError> {
    Ok(Column::new(decode_table(wire.table)?, wire.name))
}

fn decode_table(parts: Vec<String>) -> Result<Option<TableReference>, CodecError> {
    let mut parts = parts.into_iter();
    let table = match (parts.next(), parts.next(), parts.next()) {
        (None, _, _) => return Ok(None),
        (Some(table), None, _) => TableReference::bare(table),
        (Some(schema), Some(table), None) => TableReference::partial(schema, table),
        (Some(catalog), Some(schema), Some(table)) => TableReference::full(catalog, schema, table),
    };
    match parts.next() {
        None => Ok(Some(table)),
        Some(_) => Err(CodecError::invalid("table", "more than three parts")),
    }
}
