//! The samples of a percentile metric: a `DDSketch`, a histogram with bins of growing width.
//!
//! `datafusion-distributed` gives a sketch out as `bincode` bytes of the private fields of
//! `sketches-ddsketch` 0.3, and takes the type itself back. That type indexes its bins with keys
//! that it trusts, so that bytes of a peer are checked here first: a sketch whose keys lie outside
//! its bins would panic when it is merged.

use std::sync::LazyLock;

use bytes::Buf;
use sketches_ddsketch::{Config, DDSketch};

use super::CodecError;

/// Length of the configuration: bins at most, gamma, its logarithm, least value, offset of keys.
const CONFIG_LEN: usize = 4 + 3 * 8 + 4;

/// A sketch grows to this many bins.
const BINS_MAX: usize = 2048;

/// Keys are logarithms of nanoseconds: a `u64` has a key below 2300.
const KEY_MAX: u32 = 1 << 16;

/// Enough samples for any query, and far from where sums of them overflow.
const COUNT_MAX: u64 = 1 << 48;

/// The one configuration that all sketches have; with another, two don't merge.
static CONFIG: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let empty = DDSketch::new(Config::defaults());
    let mut bytes = bincode::serialize(&empty).unwrap_or_default();
    bytes.truncate(CONFIG_LEN);
    bytes
});

/// A sketch from the bytes of a peer.
pub(super) fn decode(bytes: &[u8]) -> Result<DDSketch, CodecError> {
    let invalid = |reason: &str| CodecError::invalid("sketch", reason);
    let mut rest = bytes
        .strip_prefix(CONFIG.as_slice())
        .ok_or_else(|| invalid("other configuration"))?;
    check_store(&mut rest).map_err(invalid)?;
    check_store(&mut rest).map_err(invalid)?;
    // Minimum, maximum, sum, number of zeros.
    if rest.len() != 4 * 8 {
        return Err(invalid("wrong length"));
    }
    rest.advance(3 * 8);
    if rest.get_u64_le() > COUNT_MAX {
        return Err(invalid("too many samples"));
    }
    bincode::deserialize(bytes).map_err(|error| invalid(&error.to_string()))
}

fn check_store(rest: &mut &[u8]) -> Result<(), &'static str> {
    const AFTER_BINS_LEN: usize = 8 + 3 * 4 + 8 + 1;
    let short = "ends early";
    let bins = usize::try_from(rest.try_get_u64_le().map_err(|_| short)?)
        .ok()
        .filter(|bins| *bins <= BINS_MAX)
        .ok_or("too many bins")?;
    if rest.len() < bins * 8 + AFTER_BINS_LEN {
        return Err(short);
    }
    let samples = (0..bins)
        .try_fold(0_u64, |sum, _| sum.checked_add(rest.get_u64_le()))
        .filter(|samples| *samples <= COUNT_MAX)
        .ok_or("too many samples")?;
    let count = rest.get_u64_le();
    let (key_min, key_max, offset) = (rest.get_i32_le(), rest.get_i32_le(), rest.get_i32_le());
    let limit = rest.get_u64_le();
    let collapsed = rest.get_u8();
    if count != samples || limit != BINS_MAX as u64 || collapsed > 1 {
        return Err("contradicts itself");
    }
    if bins == 0 {
        let empty = key_min == i32::MAX && key_max == i32::MIN && offset == 0;
        return if empty {
            Ok(())
        } else {
            Err("keys without bins")
        };
    }
    let near = [key_min, key_max, offset]
        .iter()
        .all(|key| key.unsigned_abs() <= KEY_MAX);
    let end = offset.saturating_add(i32::try_from(bins).unwrap_or(i32::MAX));
    if near && offset <= key_min && key_min <= key_max && key_max < end {
        Ok(())
    } else {
        Err("keys outside the bins")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sketch(samples: &[f64]) -> (DDSketch, Vec<u8>) {
        let mut sketch = DDSketch::new(Config::defaults());
        for sample in samples {
            sketch.add(*sample);
        }
        let bytes = bincode::serialize(&sketch).unwrap();
        (sketch, bytes)
    }

    #[test]
    fn a_sketch_comes_back() {
        let spread: Vec<f64> = (0..64).map(|power| 2_f64.powi(power)).collect();
        let tiny_then_huge = [0.0, 1e-8, 1e19, 1e19, 5.0];
        for samples in [&[][..], &[1.0], &[0.0], &spread, &tiny_then_huge] {
            let (sketch, bytes) = sketch(samples);
            let back = decode(&bytes).unwrap();
            assert_eq!(back.count(), samples.len());
            for quantile in [0.0, 0.5, 0.75, 0.95, 0.99, 1.0] {
                let pair = (
                    sketch.quantile(quantile).unwrap(),
                    back.quantile(quantile).unwrap(),
                );
                assert_eq!(pair.0, pair.1, "of {samples:?} at {quantile}");
            }
        }
    }

    #[test]
    fn every_single_change_is_an_error_or_a_sketch_that_merges() {
        let (mut other, bytes) = sketch(&[3.0, 1e6, 1e9]);
        let mut accepted = 0;
        for index in 0..bytes.len() {
            for change in [1, 0x7f, 0x80, 0xff] {
                let mut bytes = bytes.clone();
                bytes[index] ^= change;
                if let Ok(mut changed) = decode(&bytes) {
                    accepted += 1;
                    changed.merge(&other).unwrap();
                    other.merge(&changed).unwrap();
                    changed.quantile(0.99).unwrap();
                    other = sketch(&[3.0, 1e6, 1e9]).0;
                }
            }
        }
        // Of the minimum, maximum and sum nothing depends.
        assert!(accepted >= 3 * 8, "{accepted}");
    }
}
