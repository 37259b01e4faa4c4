//! Reads the bytes of a fuzzer as choices.

/// A reader of the input. The run ends when the input does.
pub struct Input<'a> {
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    pub fn half(&mut self) -> Option<u16> {
        Some(u16::from_le_bytes(self.array()?))
    }

    /// A half word as a signed number.
    pub fn signed_half(&mut self) -> Option<i64> {
        Some(i16::from_le_bytes(self.array()?).into())
    }

    pub fn word(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.array()?))
    }

    /// A number below `bound`, which must be 1 to 256.
    pub fn below(&mut self, bound: usize) -> Option<usize> {
        Some(usize::from(self.byte()?) % bound)
    }

    /// The next `len` bytes, or all that are left.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(len.min(self.bytes.len()));
        self.bytes = rest;
        taken
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (&array, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(array)
    }
}
