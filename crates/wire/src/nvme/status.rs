//! Status: the result of a command (Base 3.3.3.2.1; NVM 3.1.2; Fabrics 3.3).
//!
//! A status code type selects the table of a status code. There are two more bits: that a log page
//! has more information, which is never set here, and that a retry is useless.

use core::fmt;
use serde::{Deserialize, Serialize};

/// The status field without the phase tag: code in bits 7:0, type in 10:8, retry delay in 12:11,
/// more in 13, do not retry in 14.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Status(pub u16);

/// The table of a status code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StatusType {
    /// Type 0h: any command.
    Generic,
    /// Type 1h: one command.
    CommandSpecific,
    /// Type 2h: media and data integrity errors.
    Media,
    /// Type 3h: the path to the namespace.
    Path,
    /// Types 4h to 6h, reserved.
    Reserved(u8),
    /// Type 7h: vendor specific.
    Vendor,
}

const DO_NOT_RETRY: u16 = 1 << 14;
const CODE_AND_TYPE: u16 = 0x7ff;

macro_rules! statuses {
    ($($(#[$doc:meta])* $name:ident = $value:literal, $text:literal;)*) => {
        impl Status {
            $($(#[$doc])* pub const $name: Self = Self($value);)*

            /// The name in the specification, if the status is known.
            pub fn name(self) -> Option<&'static str> {
                match self.without_hints() {
                    $(Self::$name => Some($text),)*
                    _ => None,
                }
            }
        }
    };
}

statuses! {
    /// The command succeeded.
    SUCCESS = 0x000, "Successful Completion";
    /// The opcode is unknown.
    INVALID_OPCODE = 0x001, "Invalid Command Opcode";
    /// A field is reserved or has a value that is not supported.
    INVALID_FIELD = 0x002, "Invalid Field in Command";
    /// The command id is in use.
    COMMAND_ID_CONFLICT = 0x003, "Command ID Conflict";
    /// The data could not be transferred.
    DATA_TRANSFER = 0x004, "Data Transfer Error";
    /// An internal error of the target.
    INTERNAL = 0x006, "Internal Error";
    /// The namespace does not exist.
    INVALID_NAMESPACE = 0x00b, "Invalid Namespace or Format";
    /// The command arrived too early: before Connect, or before the controller was enabled.
    COMMAND_SEQUENCE = 0x00c, "Command Sequence Error";
    /// The SGL describes a different number of bytes than the command transfers.
    SGL_LENGTH = 0x00f, "Data SGL Length Invalid";
    /// The SGL descriptor's type is not supported.
    SGL_TYPE = 0x011, "SGL Descriptor Type Invalid";
    /// The offset is beyond the capsule.
    SGL_OFFSET = 0x016, "SGL Offset Invalid";
    /// A block is beyond the end of the namespace.
    LBA_OUT_OF_RANGE = 0x080, "LBA Out of Range";
    /// The device is full.
    CAPACITY_EXCEEDED = 0x081, "Capacity Exceeded";
    /// More event requests than the controller holds.
    EVENT_LIMIT = 0x105, "Asynchronous Event Request Limit Exceeded";
    /// The log page does not exist.
    INVALID_LOG_PAGE = 0x109, "Invalid Log Page";
    /// The Connect data has an unknown format.
    CONNECT_FORMAT = 0x180, "Incompatible Format";
    /// All controllers or queues are in use.
    CONNECT_BUSY = 0x181, "Controller Busy";
    /// A parameter of Connect is wrong; the result shows which one.
    CONNECT_PARAMETERS = 0x182, "Connect Invalid Parameters";
    /// The host may not connect to this subsystem or controller.
    CONNECT_HOST = 0x184, "Connect Invalid Host";
    /// Disconnect on an admin queue.
    QUEUE_TYPE = 0x185, "Invalid Queue Type";
    /// The medium did not accept the data.
    WRITE_FAULT = 0x280, "Write Fault";
    /// The medium did not return the data.
    READ_ERROR = 0x281, "Unrecovered Read Error";
}

impl Status {
    /// The status code.
    pub const fn code(self) -> u8 {
        self.0 as u8
    }

    /// The status code type.
    pub const fn kind(self) -> StatusType {
        match (self.0 >> 8 & 0b111) as u8 {
            0 => StatusType::Generic,
            1 => StatusType::CommandSpecific,
            2 => StatusType::Media,
            3 => StatusType::Path,
            7 => StatusType::Vendor,
            reserved => StatusType::Reserved(reserved),
        }
    }

    /// The same status, marked as do not retry.
    #[must_use]
    pub const fn permanent(self) -> Self {
        Self(self.0 | DO_NOT_RETRY)
    }

    /// Whether a retry would fail again.
    pub const fn do_not_retry(self) -> bool {
        self.0 & DO_NOT_RETRY != 0
    }

    /// Code and type alone, to compare with the constants.
    #[must_use]
    pub const fn without_hints(self) -> Self {
        Self(self.0 & CODE_AND_TYPE)
    }

    /// Whether the command succeeded.
    pub const fn is_success(self) -> bool {
        self.without_hints().0 == 0
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name)?,
            None => write!(f, "{:?} status {:#04x}", self.kind(), self.code())?,
        }
        if self.do_not_retry() {
            f.write_str(", permanent")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({:#06x}: {self})", self.0)
    }
}
