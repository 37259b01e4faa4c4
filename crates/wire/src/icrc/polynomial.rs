//! Arithmetic of CRC-32: polynomials over GF(2) modulo the one of IEEE 802.3.
//!
//! A `u32` holds a polynomial of degree below 32 in the reflected order that zlib uses: the most
//! significant bit is the coefficient of x^0. "Raw" means without the initial and final inversion,
//! so everything here is linear.

use rackweave_base::packet::PAYLOAD_MAX;

/// The modulus without its x^32.
const MODULUS: u32 = 0xedb8_8320;
/// The polynomial 1.
const ONE: u32 = 1 << 31;
/// Maximum length of a tail (payload and pad) whose power is in a table.
const TAIL_MAX: usize = PAYLOAD_MAX + 3;

/// The lengths of tails that are frequent: a fragment that is not the last one of its message has
/// as many payload bytes as the path MTU, and there are these five.
const MTUS: [usize; 5] = [256, 512, 1024, 2048, 4096];

/// The product of a constant and each value of each byte of the other factor.
type Products = [[u32; 256]; 4];

/// `SHIFTS[k][b]`: the byte `b`, then `k` zero bytes, raw.
static SHIFTS: [[u32; 256]; 8] = shifts();
/// `POWERS[n]`: x^(8n).
static POWERS: [u32; TAIL_MAX + 1] = powers();
/// For each of [`MTUS`]: products with x^(8 MTU).
static MTU_PRODUCTS: [Products; MTUS.len()] = {
    let mut products = [[[0; 256]; 4]; MTUS.len()];
    let mut at = 0;
    while at < MTUS.len() {
        products[at] = products_with(powers()[MTUS[at]]);
        at += 1;
    }
    products
};

/// All products with `factor`.
const fn products_with(factor: u32) -> Products {
    let mut columns = [0; 32];
    let mut power = factor;
    let mut bit = 32;
    while bit > 0 {
        bit -= 1;
        columns[bit] = power;
        power = times_x(power);
    }
    lookups(columns)
}

/// The product of a matrix over GF(2), given by columns, with each value of each byte of its
/// argument.
pub const fn lookups(columns: [u32; 32]) -> Products {
    let mut lookups = [[0; 256]; 4];
    let mut byte = 0;
    while byte < 4 {
        let mut value = 1;
        while value < 256_usize {
            let lowest = value.trailing_zeros() as usize;
            lookups[byte][value] = lookups[byte][value & (value - 1)] ^ columns[8 * byte + lowest];
            value += 1;
        }
        byte += 1;
    }
    lookups
}

/// The product of a matrix and `value`.
#[inline]
pub fn look_up(products: &Products, value: u32) -> u32 {
    let [b0, b1, b2, b3] = value.to_le_bytes();
    products[0][usize::from(b0)]
        ^ products[1][usize::from(b1)]
        ^ products[2][usize::from(b2)]
        ^ products[3][usize::from(b3)]
}

const fn shifts() -> [[u32; 256]; 8] {
    let mut shifts = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut state = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            state = times_x(state);
            bit += 1;
        }
        shifts[0][byte] = state;
        byte += 1;
    }
    let mut count = 1;
    while count < 8 {
        let mut byte = 0;
        while byte < 256 {
            let state: u32 = shifts[count - 1][byte];
            shifts[count][byte] = (state >> 8) ^ shifts[0][state as usize & 0xff];
            byte += 1;
        }
        count += 1;
    }
    shifts
}

const fn powers() -> [u32; TAIL_MAX + 1] {
    let shifts = shifts();
    let mut powers = [ONE; TAIL_MAX + 1];
    let mut n = 1;
    while n <= TAIL_MAX {
        let state = powers[n - 1];
        powers[n] = (state >> 8) ^ shifts[0][state as usize & 0xff];
        n += 1;
    }
    powers
}

/// `value` times x.
pub const fn times_x(value: u32) -> u32 {
    (value >> 1) ^ if value & 1 == 0 { 0 } else { MODULUS }
}

/// `value` times x^(8n): the raw CRC of the bytes that `value` stands for, followed by `n` zero
/// bytes.
#[inline]
pub fn shift(value: u32, n: usize) -> u32 {
    let at = (n / MTUS[0]).trailing_zeros() as usize;
    if MTUS.get(at) == Some(&n) {
        return look_up(&MTU_PRODUCTS[at], value);
    }
    multiply(
        value,
        POWERS.get(n).copied().unwrap_or_else(|| large_power(n)),
    )
}

/// The raw CRC of four bytes, as a little-endian word.
#[inline]
pub fn word_remainder(word: u32) -> u32 {
    let [b0, b1, b2, b3] = word.to_le_bytes();
    SHIFTS[3][usize::from(b0)]
        ^ SHIFTS[2][usize::from(b1)]
        ^ SHIFTS[1][usize::from(b2)]
        ^ SHIFTS[0][usize::from(b3)]
}

/// The raw CRC of words, which are little-endian.
#[inline]
pub fn remainder(words: impl Iterator<Item = u64>) -> u32 {
    words.fold(0, |state, word| {
        let word = word ^ u64::from(state);
        // Differences of headers are zero in some words, in front of the first change at least.
        if word == 0 {
            return 0;
        }
        let bytes = word.to_le_bytes();
        (0..8).fold(0, |sum, at| sum ^ SHIFTS[7 - at][usize::from(bytes[at])])
    })
}

/// x^(8n) for an `n` beyond the table: no tail of a RoCEv2 packet is that long.
#[cold]
fn large_power(n: usize) -> u32 {
    let mut product = POWERS[n % TAIL_MAX];
    let mut square = POWERS[TAIL_MAX];
    let mut count = n / TAIL_MAX;
    while count > 0 {
        if count & 1 == 1 {
            product = multiply(product, square);
        }
        square = multiply(square, square);
        count >>= 1;
    }
    product
}

/// The product of two polynomials.
#[inline]
pub fn multiply(a: u32, b: u32) -> u32 {
    // Bit k of the plain product stands for x^(62-k); one step to the left it is x^(63-k). The high
    // half is then reduced already, and the low half is a polynomial times x^32.
    let product = carryless(a, b) << 1;
    (product >> 32) as u32 ^ word_remainder(product as u32)
}

/// The product of two numbers without carries, in bits 0 to 62.
///
/// Each factor is split into four parts with a bit in every fourth position. In a product of two
/// such parts at most eight ones are added in one position, so no carry reaches the next position
/// in use.
#[inline]
fn carryless(a: u32, b: u32) -> u64 {
    const PART: u32 = 0x1111_1111;
    const PLACES: u64 = 0x1111_1111_1111_1111;
    let part = |value: u32, k: u32| u64::from(value & (PART << k));
    let (a0, a1, a2, a3) = (part(a, 0), part(a, 1), part(a, 2), part(a, 3));
    let (b0, b1, b2, b3) = (part(b, 0), part(b, 1), part(b, 2), part(b, 3));
    let c0 = (a0 * b0) ^ (a1 * b3) ^ (a2 * b2) ^ (a3 * b1);
    let c1 = (a0 * b1) ^ (a1 * b0) ^ (a2 * b3) ^ (a3 * b2);
    let c2 = (a0 * b2) ^ (a1 * b1) ^ (a2 * b0) ^ (a3 * b3);
    let c3 = (a0 * b3) ^ (a1 * b2) ^ (a2 * b1) ^ (a3 * b0);
    (c0 & PLACES) | (c1 & (PLACES << 1)) | (c2 & (PLACES << 2)) | (c3 & (PLACES << 3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn multiply_slowly(a: u32, b: u32) -> u32 {
        let (mut sum, mut power) = (0, a);
        for bit in (0..32).rev() {
            if b >> bit & 1 == 1 {
                sum ^= power;
            }
            power = times_x(power);
        }
        sum
    }

    proptest! {
        #[test]
        fn the_product_is_that_of_the_definition(a: u32, b: u32) {
            prop_assert_eq!(multiply(a, b), multiply_slowly(a, b));
            prop_assert_eq!(multiply(a, ONE), a);
        }

        #[test]
        fn a_shift_is_zero_bytes(value: u32, any in 0usize..40_000) {
            for n in MTUS.into_iter().chain([any]) {
                let mut hasher = crc32fast::Hasher::new_with_initial(!value);
                hasher.update(&vec![0; n]);
                prop_assert_eq!(shift(value, n), !hasher.finalize());
            }
        }

        #[test]
        fn a_remainder_is_a_raw_crc(words: [u64; 4], zero in 0usize..4) {
            let mut words = words;
            words[zero] = 0;
            let mut hasher = crc32fast::Hasher::new_with_initial(!0);
            hasher.update(words.map(u64::to_le_bytes).as_flattened());
            prop_assert_eq!(remainder(words.into_iter()), !hasher.finalize());
            let word = words[3] as u32;
            prop_assert_eq!(word_remainder(word), remainder([u64::from(word) << 32].into_iter()));
        }
    }
}
