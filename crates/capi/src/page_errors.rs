//! Errors of the page store as a status for C, with their text.

use crate::error::Fault;
use crate::status::Status;
use ::rackweave_rack::services::{CommitError, PageError};
use rackweave_endpoint::page_store::{
    AllocateError, CloseError, FixError, FlushError, MapError, OpenError,
};

impl From<FixError> for Fault {
    fn from(error: FixError) -> Self {
        let status = match error {
            FixError::NoSuchPage(_) => Status::NotFound,
            FixError::Lost(_) => Status::Lost,
            FixError::Corrupt { .. } | FixError::WrongPage { .. } => Status::Corrupt,
            FixError::StorageFull | FixError::PoolTooSmall { .. } => Status::NoRoom,
            FixError::Storage { .. } => Status::System,
            FixError::Gone => Status::Gone,
            FixError::Fenced => Status::Closed,
            FixError::NotMember(_) => Status::Refused,
            FixError::NotLogged(_) | FixError::TimedOut(_) => Status::TimedOut,
            FixError::Conflict(_) => Status::Conflict,
        };
        Self::new(status, error)
    }
}

impl From<CommitError> for Fault {
    fn from(error: CommitError) -> Self {
        let status = match error {
            CommitError::Superseded(_) => Status::Lost,
            CommitError::Fenced(_) => Status::Closed,
            CommitError::NotMember(_) => Status::Refused,
            CommitError::TimedOut(_) | CommitError::NotLogged(_) => Status::TimedOut,
        };
        Self::new(status, error)
    }
}

impl From<PageError> for Fault {
    fn from(error: PageError) -> Self {
        match error {
            PageError::TimedOut { .. } => Self::new(Status::TimedOut, error),
            PageError::Fix(error) => error.into(),
            PageError::Commit(error) => error.into(),
            PageError::Flush(error) | PageError::Close(CloseError::Flush(error)) => error.into(),
            PageError::Allocate(error) | PageError::Close(CloseError::Allocate(error)) => {
                error.into()
            }
            PageError::Open(error) => error.into(),
            PageError::Close(CloseError::Superblock(error)) => error.into(),
        }
    }
}

impl From<FlushError> for Fault {
    fn from(error: FlushError) -> Self {
        let Self { status, .. } = error.cause().into();
        Self::new(status, error)
    }
}

impl From<AllocateError> for Fault {
    fn from(error: AllocateError) -> Self {
        let status = match error {
            AllocateError::StoreFull { .. } => Status::NoRoom,
            AllocateError::NotInUse(_) | AllocateError::NotOpen => Status::Refused,
            AllocateError::NoSuchPage(..) => Status::NotFound,
            AllocateError::Damaged(_) => Status::Corrupt,
            AllocateError::Maps { source, .. } => match source {
                MapError::Fix(source) => Self::from(source).status,
                MapError::Flush(source) => Self::from(source).status,
                MapError::Damaged => Status::Corrupt,
                MapError::Contended => Status::Conflict,
            },
            AllocateError::Fix(source) => Self::from(source).status,
        };
        Self::new(status, error)
    }
}

impl From<OpenError> for Fault {
    fn from(error: OpenError) -> Self {
        let status = match error {
            OpenError::Blank(_) => Status::NotFound,
            OpenError::NoStore { .. } | OpenError::Damaged(_) | OpenError::Truncated { .. } => {
                Status::Corrupt
            }
            OpenError::Format { .. } | OpenError::PageSize { .. } | OpenError::Identity { .. } => {
                Status::Refused
            }
            OpenError::Capacity(_) => Status::BadArgument,
            OpenError::Fix(source) => Self::from(source).status,
            OpenError::Flush(source) => Self::from(source).status,
            OpenError::Contended(_) => Status::Conflict,
        };
        Self::new(status, error)
    }
}
