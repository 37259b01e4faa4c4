//! The version of a column: a checksum of 64 bits.

use super::header::{COLUMN_HEADER_LEN, ColumnHeader};
use rackweave_base::checksum::{fold, word};

const LANES: [u64; 4] = [
    0x9fb2_1c65_1e98_df25,
    0xd6e8_feb8_6659_fd93,
    0xa3b1_9535_4a39_b70d,
    0x1b03_7387_12fa_d5c9,
];
/// Constants that differ from all of [`LANES`]: a lane without input must not make a product zero.
const LAST: [u64; 2] = [0xc2b2_ae3d_27d4_eb4f, 0x1656_67b1_9e37_79f9];
const STEP: usize = 64;

/// The checksum of a column, computed as its bytes arrive.
///
/// Each step takes 64 bytes, as four pairs of words: a lane combines one word of its pair with its
/// state, multiplies the pair to 128 bits, and folds the halves together, as wyhash does. The input
/// is the column's header, without the request and the version, and its buffers with the zeros
/// after them, so that there is always a whole number of steps. The checksum detects corruption and
/// changes, not malice. It is on the wire, so it never changes.
#[derive(Clone, Debug)]
pub struct Checksum {
    lanes: [u64; 4],
    steps: u64,
    /// Bytes of a step that is not complete yet.
    rest: [u8; STEP],
    rest_len: usize,
}

impl Checksum {
    /// Starts the checksum of a column with this header, before its bytes.
    pub fn new(header: &ColumnHeader) -> Self {
        let mut sum = Self {
            lanes: LANES,
            steps: 0,
            rest: [0; STEP],
            rest_len: 0,
        };
        const { assert!(COLUMN_HEADER_LEN == STEP) };
        let anonymous = ColumnHeader {
            request: 0,
            version: 0,
            ..*header
        };
        sum.update(&anonymous.emit());
        sum
    }

    /// Adds the next bytes after the header.
    pub fn update(&mut self, mut bytes: &[u8]) {
        if self.rest_len > 0 {
            let taken = bytes.len().min(STEP - self.rest_len);
            self.rest[self.rest_len..self.rest_len + taken].copy_from_slice(&bytes[..taken]);
            self.rest_len += taken;
            bytes = &bytes[taken..];
            if self.rest_len < STEP {
                return;
            }
            let step = self.rest;
            self.step(&step);
            self.rest_len = 0;
        }
        let mut steps = bytes.chunks_exact(STEP);
        for step in &mut steps {
            self.step(step);
        }
        let rest = steps.remainder();
        self.rest[..rest.len()].copy_from_slice(rest);
        self.rest_len = rest.len();
    }

    /// Returns the checksum of all bytes so far, never zero. An incomplete step is padded with
    /// zeros.
    pub fn finish(mut self) -> u64 {
        if self.rest_len > 0 {
            self.rest[self.rest_len..].fill(0);
            let step = self.rest;
            self.step(&step);
        }
        let mut sum = fold(self.steps ^ LANES[0], LANES[1]);
        for lane in self.lanes {
            sum = fold(sum ^ LAST[0], lane ^ LAST[1]);
        }
        sum.max(1)
    }

    #[inline]
    fn step(&mut self, step: &[u8]) {
        for (at, lane) in self.lanes.iter_mut().enumerate() {
            let (a, b) = (word(&step[16 * at..]), word(&step[16 * at + 8..]));
            *lane = fold(a ^ LANES[at], b ^ *lane);
        }
        self.steps += 1;
    }
}
