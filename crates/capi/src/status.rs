//! How a call ended.

use core::ffi::{CStr, c_char};

/// How a call ended. Those below 16 are no errors.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum rackweave_status {
    /// It was done.
    Ok = 0,
    /// Nothing yet, or no space yet: try again later.
    Pending = 1,
    /// Nothing will come any more: the stream has ended, and all of it was taken.
    End = 2,
    /// There is no such thing: key, node, ticket.
    NotFound = 3,
    /// There is one already: an index had the key.
    Exists = 4,
    /// The time given for it is over. What was begun for the call was given up.
    TimedOut = 5,
    /// A pointer that must point to something is NULL, or is not aligned.
    NullPointer = 16,
    /// The handle is none, or of another kind, or was destroyed.
    BadHandle = 17,
    /// Another thread is in a call with this handle, which is for one thread at a time.
    Busy = 18,
    /// An argument is out of range, or does not go with the others.
    BadArgument = 19,
    /// The configuration of the rack makes no sense.
    BadConfig = 20,
    /// A limit is reached: of memory, of a NIC, of the switch, of a queue, of a store.
    NoRoom = 21,
    /// What was given is longer than what takes it, or what came than where it is to go.
    TooLong = 22,
    /// Somebody else has it already.
    InUse = 23,
    /// The caller would wait for itself: it has fixed the page already.
    Conflict = 24,
    /// The system refused: a file, a thread, a socket.
    System = 25,
    /// What came from storage or from a peer is damaged.
    Corrupt = 26,
    /// Whoever has to answer does not, or the connection to it is broken.
    Gone = 27,
    /// A write was not answered: it may or may not have been done.
    OutcomeUnknown = 28,
    /// The flow was broken off.
    Aborted = 29,
    /// The caller has said before that nothing more will come.
    Finished = 30,
    /// The other side refuses, or the state of things does not allow it.
    Refused = 31,
    /// The connection is closed.
    Closed = 32,
    /// The newest version went down with the node that had it.
    Lost = 33,
    /// A bug of Rackweave's: please report it with the detail text. The handle that was used can
    /// only be destroyed.
    Internal = 99,
}

pub(crate) use rackweave_status as Status;

impl Status {
    /// Every status, in the order of the numbers.
    pub const ALL: [Self; 25] = [
        Self::Ok,
        Self::Pending,
        Self::End,
        Self::NotFound,
        Self::Exists,
        Self::TimedOut,
        Self::NullPointer,
        Self::BadHandle,
        Self::Busy,
        Self::BadArgument,
        Self::BadConfig,
        Self::NoRoom,
        Self::TooLong,
        Self::InUse,
        Self::Conflict,
        Self::System,
        Self::Corrupt,
        Self::Gone,
        Self::OutcomeUnknown,
        Self::Aborted,
        Self::Finished,
        Self::Refused,
        Self::Closed,
        Self::Lost,
        Self::Internal,
    ];

    const fn text(self) -> &'static CStr {
        match self {
            Self::Ok => c"done",
            Self::Pending => c"nothing yet; try again later",
            Self::End => c"the stream has ended",
            Self::NotFound => c"not found",
            Self::Exists => c"exists already",
            Self::TimedOut => c"timed out",
            Self::NullPointer => c"a pointer is NULL or not aligned",
            Self::BadHandle => c"no such handle, or one that was destroyed",
            Self::Busy => c"the handle is in use by another thread",
            Self::BadArgument => c"an argument is out of range",
            Self::BadConfig => c"the configuration makes no sense",
            Self::NoRoom => c"a limit is reached",
            Self::TooLong => c"too long",
            Self::InUse => c"in use already",
            Self::Conflict => c"the caller would wait for itself",
            Self::System => c"the system refused",
            Self::Corrupt => c"damaged",
            Self::Gone => c"no answer, or the connection is broken",
            Self::OutcomeUnknown => c"not answered; it may or may not have been done",
            Self::Aborted => c"the flow was broken off",
            Self::Finished => c"finished already",
            Self::Refused => c"refused",
            Self::Closed => c"the connection is closed",
            Self::Lost => c"the newest version is lost",
            Self::Internal => c"internal error; please report it",
        }
    }
}

/// A few words for a status, in English; of a number that is no status, NULL. The text stays as
/// long as the library is loaded. Any thread.
#[unsafe(no_mangle)]
pub extern "C" fn rackweave_status_text(status: i32) -> *const c_char {
    let known = Status::ALL.iter().find(|known| **known as i32 == status);
    known.map_or(core::ptr::null(), |known| known.text().as_ptr())
}
