//! Tests of errors that keep their type.

use std::io::ErrorKind;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError, TableReference};

use super::*;

/// The error arrives with the type and text that it had.
fn check(error: &DataFusionError) {
    let back = decode_error(&encode_error(error));
    assert_eq!(back.to_string(), error.to_string());
    assert_eq!(shape(&back), shape(error), "{error}");
}

/// Variants of an error and of those inside of it.
fn shape(error: &DataFusionError) -> String {
    let name = |error: &dyn std::fmt::Debug| {
        let text = format!("{error:?}");
        text.split(['(', ' ', '{'])
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    match error {
        DataFusionError::Context(_, inner) => format!("Context of {}", shape(inner)),
        DataFusionError::Diagnostic(_, inner) => format!("Diagnostic of {}", shape(inner)),
        DataFusionError::Shared(inner) => format!("Shared of {}", shape(inner)),
        DataFusionError::Collection(errors) => {
            format!("{:?}", errors.iter().map(shape).collect::<Vec<_>>())
        }
        DataFusionError::ArrowError(error, backtrace) => {
            format!("Arrow {} {backtrace:?}", name(error))
        }
        DataFusionError::IoError(error) => format!("Io {:?}", error.kind()),
        DataFusionError::SchemaError(error, backtrace) => {
            format!("Schema {} {backtrace:?}", name(error))
        }
        DataFusionError::ObjectStore(error) => format!("ObjectStore {}", name(error)),
        other => name(other),
    }
}

#[test]
fn errors_of_text() {
    let text = || "the text".to_owned();
    check(&DataFusionError::NotImplemented(text()));
    check(&DataFusionError::Internal(text()));
    check(&DataFusionError::Plan(text()));
    check(&DataFusionError::Configuration(text()));
    check(&DataFusionError::Execution(text()));
    check(&DataFusionError::ResourcesExhausted(text()));
    check(&DataFusionError::Substrait(text()));
    check(&DataFusionError::Ffi(text()));
    check(&DataFusionError::External(Box::new(std::fmt::Error)));
}

#[test]
fn errors_around_errors() {
    let inner = || DataFusionError::Plan("inner".to_owned());
    check(&DataFusionError::Context(
        "around".to_owned(),
        Box::new(inner()),
    ));
    check(&DataFusionError::Shared(Arc::new(inner())));
    check(&DataFusionError::Collection(vec![
        inner(),
        DataFusionError::Internal("2".to_owned()),
    ]));
    let nothing = decode_error(&encode_error(&DataFusionError::Collection(vec![])));
    assert_eq!(nothing.to_string(), "External error: no errors");
    let diagnostic = DataFusionError::Diagnostic(
        Box::new(Diagnostic::new_error("look here", None)),
        Box::new(inner().context("more")),
    );
    check(&diagnostic);
    let DataFusionError::Diagnostic(back, _) = decode_error(&encode_error(&diagnostic)) else {
        panic!("no diagnostic");
    };
    assert_eq!(back.message, "look here");
}

#[test]
fn errors_of_arrow() {
    let text = || "the text".to_owned();
    let io = std::io::Error::new(ErrorKind::StorageFull, "full");
    for error in [
        ArrowError::NotYetImplemented(text()),
        ArrowError::ExternalError(Box::new(std::fmt::Error)),
        ArrowError::CastError(text()),
        ArrowError::MemoryError(text()),
        ArrowError::ParseError(text()),
        ArrowError::SchemaError(text()),
        ArrowError::ComputeError(text()),
        ArrowError::DivideByZero,
        ArrowError::ArithmeticOverflow(text()),
        ArrowError::CsvError(text()),
        ArrowError::JsonError(text()),
        ArrowError::AvroError(text()),
        ArrowError::IoError(text(), io),
        ArrowError::IpcError(text()),
        ArrowError::InvalidArgumentError(text()),
        ArrowError::ParquetError(text()),
        ArrowError::CDataInterface(text()),
        ArrowError::DictionaryKeyOverflowError,
        ArrowError::RunEndIndexOverflowError,
        ArrowError::OffsetOverflowError(77),
    ] {
        check(&DataFusionError::ArrowError(
            Box::new(error),
            Some("backtrace".to_owned()),
        ));
    }
    check(&DataFusionError::ArrowError(
        Box::new(ArrowError::DivideByZero),
        None,
    ));
}

#[test]
fn errors_of_input_and_output() {
    for kind in [
        ErrorKind::NotFound,
        ErrorKind::UnexpectedEof,
        ErrorKind::Other,
    ] {
        check(&DataFusionError::IoError(std::io::Error::new(kind, "why")));
    }
}

#[test]
fn errors_of_schemas() {
    let tables = [
        TableReference::bare("t"),
        TableReference::partial("s", "t"),
        TableReference::full("c", "s", "t"),
    ];
    for table in tables {
        let column = Column::new(Some(table.clone()), "x");
        for error in [
            SchemaError::AmbiguousReference {
                field: Box::new(column.clone()),
            },
            SchemaError::DuplicateQualifiedField {
                qualifier: Box::new(table),
                name: "x".to_owned(),
            },
            SchemaError::DuplicateUnqualifiedField {
                name: "x".to_owned(),
            },
            SchemaError::FieldNotFound {
                field: Box::new(column.clone()),
                valid_fields: vec![column, Column::new_unqualified("y")],
            },
        ] {
            check(&DataFusionError::SchemaError(
                Box::new(error),
                Box::new(None),
            ));
        }
    }
}

#[test]
fn errors_of_object_stores() {
    use ::object_store::Error;
    let path = || "a/b".to_owned();
    let source = || Box::new(std::fmt::Error);
    for error in [
        Error::Generic {
            store: "S3",
            source: source(),
        },
        Error::NotFound {
            path: path(),
            source: source(),
        },
        Error::NotSupported { source: source() },
        Error::AlreadyExists {
            path: path(),
            source: source(),
        },
        Error::Precondition {
            path: path(),
            source: source(),
        },
        Error::NotModified {
            path: path(),
            source: source(),
        },
        Error::NotImplemented {
            operation: path(),
            implementer: "store".to_owned(),
        },
        Error::PermissionDenied {
            path: path(),
            source: source(),
        },
        Error::Unauthenticated {
            path: path(),
            source: source(),
        },
        Error::UnknownConfigurationKey {
            store: "GCS",
            key: "key".to_owned(),
        },
    ] {
        check(&DataFusionError::ObjectStore(Box::new(error)));
    }
}

#[test]
fn what_is_nested_deeper_is_text() {
    let mut error = DataFusionError::Plan("bottom".to_owned());
    for level in 0..200 {
        error = error.context(format!("level {level}"));
    }
    let back = decode_error(&encode_error(&error));
    assert_eq!(
        back.to_string().replace("External error: ", ""),
        error.to_string()
    );
    assert!(matches!(back.find_root(), DataFusionError::External(_)));
}

#[test]
fn an_error_of_an_unknown_kind_is_an_error() {
    assert!(matches!(decode_error(&[]), DataFusionError::External(_)));
    assert!(matches!(
        decode_error(&[0xff; 7]),
        DataFusionError::External(_)
    ));
}
