//! Parsing of requests.

use super::super::ColumnError;
use crate::messaging::Closed;
use rackweave_wire::fabric::message::column::{
    ASK, ASK_HEADER_LEN, ASK_LIST, Ask, AskList, NAME_MAX,
};

/// The longest request message.
pub(super) const REQUEST_MAX: u64 = (ASK_HEADER_LEN + NAME_MAX) as u64;

/// A parsed request.
#[derive(Debug)]
pub(super) enum Request {
    Column {
        request: u32,
        known: Option<u64>,
        name: Box<str>,
    },
    List {
        request: u32,
    },
}

impl Request {
    /// Its number.
    pub fn number(&self) -> u32 {
        match *self {
            Self::Column { request, .. } | Self::List { request } => request,
        }
    }
}

/// Why nothing more is received.
pub(super) enum Trouble {
    Closed(Closed),
    Malformed(ColumnError),
}

impl From<Closed> for Trouble {
    fn from(closed: Closed) -> Self {
        Self::Closed(closed)
    }
}

impl From<ColumnError> for Trouble {
    fn from(error: ColumnError) -> Self {
        Self::Malformed(error)
    }
}

/// Parses a message as a request.
pub(super) fn parse(opcode: u32, bytes: &[u8]) -> Result<Request, ColumnError> {
    match opcode {
        ASK => Ask::parse(bytes).map(|ask| Request::Column {
            request: ask.request,
            known: ask.known,
            name: ask.name.into(),
        }),
        ASK_LIST => AskList::parse(bytes).map(|ask| Request::List {
            request: ask.request,
        }),
        opcode => Err(ColumnError::Opcode { opcode }),
    }
}
