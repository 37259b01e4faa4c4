//! What a request to the inner device is for, packed into its tag.

/// The purpose of a request to the inner backend; packed into its tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Work {
    /// A read, with its index in `reads`.
    Read(u32),
    /// Data or header of a batch is written to the area.
    Copy,
    /// The flush of a batch.
    Flush,
    /// The data of this command of a batch is written home.
    Home(u32),
    /// A step of recovery.
    Recover,
}

impl Work {
    pub(super) fn pack(self) -> u64 {
        let (kind, index) = match self {
            Self::Read(at) => (0, at),
            Self::Copy => (1, 0),
            Self::Flush => (2, 0),
            Self::Home(at) => (3, at),
            Self::Recover => (4, 0),
        };
        kind << 32 | u64::from(index)
    }

    pub(super) fn unpack(tag: u64) -> Self {
        match tag >> 32 {
            0 => Self::Read(tag as u32),
            1 => Self::Copy,
            2 => Self::Flush,
            3 => Self::Home(tag as u32),
            _ => Self::Recover,
        }
    }
}
