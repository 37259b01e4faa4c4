//! The properties of a controller: CAP, VS, CC, CSTS (Base 3.1.3; Fabrics 3.5).

/// A property that a controller over Fabrics has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Property {
    /// Controller Capabilities, eight bytes at 0h.
    Capabilities,
    /// Version, four bytes at 8h.
    Version,
    /// Controller Configuration, four bytes at 14h.
    Configuration,
    /// Controller Status, four bytes at 1Ch.
    Status,
}

impl Property {
    /// All properties.
    pub const ALL: [Self; 4] = [
        Self::Capabilities,
        Self::Version,
        Self::Configuration,
        Self::Status,
    ];

    /// The property's offset.
    pub const fn offset(self) -> u32 {
        match self {
            Self::Capabilities => 0x00,
            Self::Version => 0x08,
            Self::Configuration => 0x14,
            Self::Status => 0x1c,
        }
    }

    /// Whether it has eight bytes; four otherwise.
    pub const fn wide(self) -> bool {
        matches!(self, Self::Capabilities)
    }

    /// The property at `offset`, if there is one of that size.
    pub fn at(offset: u32, wide: bool) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|property| property.offset() == offset && property.wide() == wide)
    }
}

/// Version 2.0.0 of the specification, as encoded in the property and in Identify Controller.
pub const VERSION_2_0: u32 = 0x0002_0000;

/// Controller Capabilities (Base 3.1.3.1). Fields that are not here are zero: a doorbell stride, no
/// subsystem reset, 4 KiB as the only memory page size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Capabilities {
    /// Maximum entries of an I/O queue, counted from zero (MQES, bits 15:0).
    pub queue_size_max: u16,
    /// Queues are contiguous: always so over Fabrics (CQR, bit 16).
    pub contiguous: bool,
    /// Maximum time of enabling, in units of 500 ms (TO, bits 31:24).
    pub ready_timeout: u8,
    /// The NVM command set is supported (CSS, bit 37).
    pub nvm_commands: bool,
}

impl Capabilities {
    /// The property's value.
    pub const fn emit(self) -> u64 {
        self.queue_size_max as u64
            | (self.contiguous as u64) << 16
            | (self.ready_timeout as u64) << 24
            | (self.nvm_commands as u64) << 37
    }

    /// Decodes a value.
    pub const fn parse(value: u64) -> Self {
        Self {
            queue_size_max: value as u16,
            contiguous: value >> 16 & 1 != 0,
            ready_timeout: (value >> 24) as u8,
            nvm_commands: value >> 37 & 1 != 0,
        }
    }
}

/// Controller Configuration (Base 3.1.3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Configuration {
    /// The controller accepts commands (EN, bit 0).
    pub enable: bool,
    /// The command sets in use, three bits (CSS, bits 6:4); 0 is NVM.
    pub command_set: u8,
    /// The memory page size, 2 to the power of 12 plus this (MPS, bits 10:7).
    pub page_size: u8,
    /// The arbitration of queues, three bits (AMS, bits 13:11); 0 is round robin.
    pub arbitration: u8,
    /// Shutdown notification (SHN, bits 15:14): 0 none, 1 normal, 2 abrupt.
    pub shutdown: u8,
    /// Entry size of submission queues, a power of two: 6 (IOSQES, bits 19:16).
    pub sq_entry: u8,
    /// Entry size of completion queues, a power of two: 4 (IOCQES, bits 23:20).
    pub cq_entry: u8,
}

impl Configuration {
    /// The value that a host writes to enable a controller.
    pub const ENABLE: Self = Self {
        enable: true,
        command_set: 0,
        page_size: 0,
        arbitration: 0,
        shutdown: 0,
        sq_entry: 6,
        cq_entry: 4,
    };

    /// The property's value.
    pub const fn emit(self) -> u32 {
        self.enable as u32
            | (self.command_set as u32 & 0b111) << 4
            | (self.page_size as u32 & 0b1111) << 7
            | (self.arbitration as u32 & 0b111) << 11
            | (self.shutdown as u32 & 0b11) << 14
            | (self.sq_entry as u32 & 0b1111) << 16
            | (self.cq_entry as u32 & 0b1111) << 20
    }

    /// Decodes a value.
    pub const fn parse(value: u32) -> Self {
        Self {
            enable: value & 1 != 0,
            command_set: (value >> 4 & 0b111) as u8,
            page_size: (value >> 7 & 0b1111) as u8,
            arbitration: (value >> 11 & 0b111) as u8,
            shutdown: (value >> 14 & 0b11) as u8,
            sq_entry: (value >> 16 & 0b1111) as u8,
            cq_entry: (value >> 20 & 0b1111) as u8,
        }
    }
}

/// Controller Status (Base 3.1.3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ControllerStatus {
    /// The controller accepts commands (RDY, bit 0).
    pub ready: bool,
    /// The controller has failed and must be reset (CFS, bit 1).
    pub fatal: bool,
    /// Shutdown (SHST, bits 3:2): 0 none, 1 in progress, 2 complete.
    pub shutdown: u8,
}

impl ControllerStatus {
    /// The property's value.
    pub const fn emit(self) -> u32 {
        self.ready as u32 | (self.fatal as u32) << 1 | (self.shutdown as u32 & 0b11) << 2
    }

    /// Decodes a value.
    pub const fn parse(value: u32) -> Self {
        Self {
            ready: value & 1 != 0,
            fatal: value & 2 != 0,
            shutdown: (value >> 2 & 0b11) as u8,
        }
    }
}
