//! An answer that arrives in pieces.

use super::super::{BadAnswer, ColumnData, ColumnError, ColumnHeader, DataError, RequestError};
use super::pieces::{ColumnPiece, PieceReader};
use super::{Answer, ColumnClientConfig, Kind, ListedColumn, Pending, Reply, Ticket};
use rackweave_base::memory::SharedBytes;
use rackweave_wire::fabric::message::column::{
    COLUMN, COLUMN_HEADER_LEN, Checksum, LIST, LIST_HEADER_LEN, MESSAGE_MIN, REFUSED, Refused,
    UNCHANGED, UNCHANGED_LEN, Unchanged, list_entries,
};
use std::collections::VecDeque;

/// The part of an answer that has arrived.
#[derive(Debug)]
pub(super) enum Assembly {
    /// An answer that is parsed when it is complete.
    Short { opcode: u32, bytes: Vec<u8> },
    /// A column whose header is not yet complete.
    Head {
        total: u64,
        bytes: [u8; COLUMN_HEADER_LEN],
        len: usize,
    },
    /// A column whose buffers are arriving.
    Body(Box<Body>),
}

#[derive(Debug)]
pub(super) struct Body {
    header: ColumnHeader,
    /// Bytes of the buffers that have arrived.
    at: u64,
    target: Target,
}

/// The destination of the bytes.
#[derive(Debug)]
enum Target {
    Memory(ColumnData),
    /// To the reader; and, if they are verified, into a checksum.
    Reader(Option<Checksum>),
    /// Discarded: the request has failed with this error.
    Nowhere(RequestError),
}

impl Assembly {
    /// Starts an answer.
    pub fn begin(opcode: u32, total: u64, config: &ColumnClientConfig) -> Result<Self, BadAnswer> {
        let max = match opcode {
            COLUMN => {
                return Ok(Self::Head {
                    total,
                    bytes: [0; COLUMN_HEADER_LEN],
                    len: 0,
                });
            }
            UNCHANGED => UNCHANGED_LEN as u64,
            REFUSED => MESSAGE_MIN,
            LIST => config.list_max.max(LIST_HEADER_LEN as u64),
            opcode => return Err(BadAnswer::Opcode { opcode }),
        };
        if total > max {
            let bytes = total;
            return Err(BadAnswer::TooLong { opcode, bytes, max });
        }
        Ok(Self::Short {
            opcode,
            bytes: Vec::new(),
        })
    }

    /// Adds the next bytes.
    pub fn piece(
        &mut self,
        mut bytes: SharedBytes<'_>,
        pending: &mut VecDeque<Pending>,
        config: &ColumnClientConfig,
        reader: &mut dyn PieceReader,
    ) -> Result<(), BadAnswer> {
        if let Self::Short { bytes: so_far, .. } = self {
            bytes.append_to(so_far);
            return Ok(());
        }
        if let Self::Head {
            total,
            bytes: head,
            len,
        } = self
        {
            let taken = bytes.len().min(COLUMN_HEADER_LEN - *len);
            bytes.slice(..taken).copy_to(&mut head[*len..*len + taken]);
            *len += taken;
            bytes = bytes.slice(taken..);
            if *len < COLUMN_HEADER_LEN {
                return Ok(());
            }
            let header = ColumnHeader::parse(head.as_slice())?;
            header.check(*total)?;
            *self = Self::Body(Box::new(Body::new(header, pending, config)?));
        }
        if let Self::Body(body) = self {
            body.piece(bytes, reader);
        }
        Ok(())
    }

    /// Ends an answer that has arrived completely.
    pub fn finish(
        self,
        pending: &mut VecDeque<Pending>,
        config: &ColumnClientConfig,
    ) -> Result<Answer, BadAnswer> {
        match self {
            Self::Short { opcode, bytes } => short(opcode, &bytes, pending),
            Self::Head { len, .. } => Err(BadAnswer::Malformed(ColumnError::Length {
                expected: COLUMN_HEADER_LEN as u64,
                found: len as u64,
            })),
            Self::Body(body) => body.finish(pending, config),
        }
    }
}

impl Body {
    fn new(
        header: ColumnHeader,
        pending: &VecDeque<Pending>,
        config: &ColumnClientConfig,
    ) -> Result<Self, BadAnswer> {
        let request = header.request;
        let kind = kind_of(pending, request)?;
        let (bytes, max) = (header.shape.bytes(), config.column_max);
        let target = match kind {
            Kind::List => return Err(BadAnswer::WrongKind { request }),
            // The request asked to confirm this version.
            Kind::Memory { known } if known == Some(header.version) => {
                return Err(BadAnswer::WrongKind { request });
            }
            Kind::InPlace => Target::Reader(config.verify.then(|| Checksum::new(&header))),
            Kind::Memory { .. } if bytes > max => {
                Target::Nowhere(RequestError::TooLarge { bytes, max })
            }
            Kind::Memory { .. } => match ColumnData::zeroed(header.shape, header.version) {
                Ok(data) => Target::Memory(data),
                Err(DataError::NoMemory { bytes }) => {
                    Target::Nowhere(RequestError::NoMemory { bytes })
                }
                Err(DataError::Shape(error)) => return Err(error.into()),
            },
        };
        Ok(Self {
            header,
            at: 0,
            target,
        })
    }

    fn piece(&mut self, bytes: SharedBytes<'_>, reader: &mut dyn PieceReader) {
        match &mut self.target {
            Target::Memory(data) => {
                let at = self.at as usize;
                bytes.copy_to(&mut data.bytes_mut()[at..at + bytes.len()]);
            }
            Target::Reader(sum) => {
                let mut show = |at: usize, part: &[u8]| {
                    // Over the copy that the reader sees, whatever the peer does meanwhile.
                    if let Some(sum) = sum {
                        sum.update(part);
                    }
                    reader.piece(&ColumnPiece {
                        ticket: Ticket(self.header.request),
                        header: &self.header,
                        offset: self.at + at as u64,
                        bytes: part,
                    });
                    true
                };
                if bytes.is_empty() {
                    show(0, &[]);
                }
                bytes.each_part(show);
            }
            Target::Nowhere(_) => {}
        }
        self.at += bytes.len() as u64;
    }

    fn finish(
        self,
        pending: &mut VecDeque<Pending>,
        config: &ColumnClientConfig,
    ) -> Result<Answer, BadAnswer> {
        let (request, expected) = (self.header.request, self.header.version);
        let (found, result) = match self.target {
            Target::Memory(data) => {
                let content = config.verify.then(|| data.content());
                (content, Ok(Reply::Column(data)))
            }
            Target::Reader(sum) => (sum.map(Checksum::finish), Ok(Reply::Shown(self.header))),
            Target::Nowhere(error) => (None, Err(error)),
        };
        if let Some(found) = found.filter(|&found| found != expected) {
            return Err(BadAnswer::Version {
                request,
                expected,
                found,
            });
        }
        end(pending, request, result)
    }
}

/// An answer that is not a column.
fn short(opcode: u32, bytes: &[u8], pending: &mut VecDeque<Pending>) -> Result<Answer, BadAnswer> {
    let (request, right, result) = match opcode {
        UNCHANGED => {
            let Unchanged { request, version } = Unchanged::parse(bytes)?;
            let known = Some(version);
            let right = kind_of(pending, request)? == Kind::Memory { known };
            (request, right, Ok(Reply::Unchanged { version }))
        }
        REFUSED => {
            let Refused {
                request,
                code,
                text,
            } = Refused::parse(bytes)?;
            let text = text.to_owned();
            (request, true, Err(RequestError::Refused { code, text }))
        }
        _ => {
            let (request, entries) = list_entries(bytes)?;
            let columns = entries.into_iter().map(|entry| ListedColumn {
                name: entry.name.to_owned(),
                version: entry.version,
                shape: entry.shape,
            });
            let right = kind_of(pending, request)? == Kind::List;
            (request, right, Ok(Reply::List(columns.collect())))
        }
    };
    if !right {
        return Err(BadAnswer::WrongKind { request });
    }
    end(pending, request, result)
}

/// What a request in flight asks for.
fn kind_of(pending: &VecDeque<Pending>, request: u32) -> Result<Kind, BadAnswer> {
    let found = pending.iter().find(|pending| pending.request == request);
    Ok(found.ok_or(BadAnswer::UnknownRequest { request })?.kind)
}

/// Ends a request in flight.
fn end(
    pending: &mut VecDeque<Pending>,
    request: u32,
    result: Result<Reply, RequestError>,
) -> Result<Answer, BadAnswer> {
    let at = pending
        .iter()
        .position(|pending| pending.request == request);
    let found = at.and_then(|at| pending.remove(at));
    found.ok_or(BadAnswer::UnknownRequest { request })?;
    Ok(Answer {
        ticket: Ticket(request),
        result,
    })
}
