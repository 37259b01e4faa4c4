//! Errors of object stores: missing files, permissions and the like.

use object_store::Error;

use super::PeerError;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ObjectStoreWire {
    #[prost(enumeration = "StoreKind", tag = "1")]
    kind: i32,
    /// Name of the store, path of the object, key of the configuration, or the operation.
    #[prost(string, tag = "2")]
    subject: String,
    /// Text of the cause; the implementer of an operation that isn't implemented; the store whose
    /// configuration lacks a key.
    #[prost(string, tag = "3")]
    cause: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum StoreKind {
    Generic = 0,
    NotFound = 1,
    NotSupported = 2,
    AlreadyExists = 3,
    Precondition = 4,
    NotModified = 5,
    NotImplemented = 6,
    PermissionDenied = 7,
    Unauthenticated = 8,
    UnknownConfigurationKey = 9,
}

pub(super) fn encode(error: &Error) -> ObjectStoreWire {
    let (kind, subject, cause) = match error {
        Error::Generic { store, source } => {
            (StoreKind::Generic, (*store).to_owned(), source.to_string())
        }
        Error::NotFound { path, source } => (StoreKind::NotFound, path.clone(), source.to_string()),
        Error::NotSupported { source } => {
            (StoreKind::NotSupported, String::new(), source.to_string())
        }
        Error::AlreadyExists { path, source } => {
            (StoreKind::AlreadyExists, path.clone(), source.to_string())
        }
        Error::Precondition { path, source } => {
            (StoreKind::Precondition, path.clone(), source.to_string())
        }
        Error::NotModified { path, source } => {
            (StoreKind::NotModified, path.clone(), source.to_string())
        }
        Error::NotImplemented {
            operation,
            implementer,
        } => (
            StoreKind::NotImplemented,
            operation.clone(),
            implementer.clone(),
        ),
        Error::PermissionDenied { path, source } => (
            StoreKind::PermissionDenied,
            path.clone(),
            source.to_string(),
        ),
        Error::Unauthenticated { path, source } => {
            (StoreKind::Unauthenticated, path.clone(), source.to_string())
        }
        Error::UnknownConfigurationKey { store, key } => (
            StoreKind::UnknownConfigurationKey,
            key.clone(),
            (*store).to_owned(),
        ),
        // Paths that can't be and joins: their causes are types that can't be built.
        other => (StoreKind::Generic, String::new(), other.to_string()),
    };
    ObjectStoreWire {
        kind: kind.into(),
        subject,
        cause,
    }
}

pub(super) fn decode(wire: ObjectStoreWire) -> Error {
    let ObjectStoreWire {
        kind,
        subject,
        cause,
    } = wire;
    let kind = StoreKind::try_from(kind).unwrap_or(StoreKind::Generic);
    let (path, source) = (
        subject,
        Box::new(PeerError {
            text: cause.clone(),
        }),
    );
    match kind {
        StoreKind::Generic => Error::Generic {
            store: store(&path),
            source,
        },
        StoreKind::NotFound => Error::NotFound { path, source },
        StoreKind::NotSupported => Error::NotSupported { source },
        StoreKind::AlreadyExists => Error::AlreadyExists { path, source },
        StoreKind::Precondition => Error::Precondition { path, source },
        StoreKind::NotModified => Error::NotModified { path, source },
        StoreKind::NotImplemented => Error::NotImplemented {
            operation: path,
            implementer: cause,
        },
        StoreKind::PermissionDenied => Error::PermissionDenied { path, source },
        StoreKind::Unauthenticated => Error::Unauthenticated { path, source },
        StoreKind::UnknownConfigurationKey => Error::UnknownConfigurationKey {
            store: store(&cause),
            key: path,
        },
    }
}

/// The error wants a name with a static lifetime: one of those that `object_store` itself uses.
fn store(name: &str) -> &'static str {
    const STORES: [&str; 14] = [
        "S3",
        "GCS",
        "MicrosoftAzure",
        "HTTP",
        "HTTP client",
        "LocalFileSystem",
        "InMemory",
        "Config",
        "ChunkedStore",
        "LineDelimiter",
        "URL",
        "ObjectStoreRegistry",
        "Parts",
        "PrefixStore",
    ];
    STORES
        .into_iter()
        .find(|store| *store == name)
        .unwrap_or("peer")
}
