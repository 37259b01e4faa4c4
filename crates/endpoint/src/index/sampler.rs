//! A sample of the requested keys, used to decide what switches should know.

use std::collections::VecDeque;

/// Configuration of the sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleConfig {
    /// One key in this many is remembered; 0: none.
    pub every: u32,
    /// Maximum number of keys kept until they are taken; the oldest are dropped first.
    pub most: u32,
}

impl Default for SampleConfig {
    fn default() -> Self {
        Self {
            every: 0,
            most: 4096,
        }
    }
}

/// Remembers a sample of keys.
#[derive(Clone, Debug)]
pub struct KeySampler {
    config: SampleConfig,
    seen: u64,
    keys: VecDeque<u64>,
}

impl KeySampler {
    /// An empty sampler.
    pub fn new(config: SampleConfig) -> Self {
        Self {
            config,
            seen: 0,
            keys: VecDeque::new(),
        }
    }

    /// Records that a key was requested.
    #[inline]
    pub fn note(&mut self, key: u64) {
        if self.config.every == 0 || self.config.most == 0 {
            return;
        }
        // Multiples of the golden ratio are evenly distributed, and do not correlate with periodic
        // client behaviour.
        let share = self.seen.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.seen += 1;
        if share > u64::MAX / u64::from(self.config.every) {
            return;
        }
        if self.keys.len() == self.config.most as usize {
            self.keys.pop_front();
        }
        self.keys.push_back(key);
    }

    /// Appends the remembered keys, oldest first, and forgets them.
    pub fn take(&mut self, keys: &mut Vec<u64>) {
        keys.extend(self.keys.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(every: u32, most: u32, keys: impl Iterator<Item = u64>) -> Vec<u64> {
        let mut sampler = KeySampler::new(SampleConfig { every, most });
        keys.for_each(|key| sampler.note(key));
        let mut taken = Vec::new();
        sampler.take(&mut taken);
        let len = taken.len();
        sampler.take(&mut taken);
        assert_eq!(taken.len(), len, "they are given once");
        taken
    }

    #[test]
    fn it_takes_its_share_of_all_keys_even_if_they_come_in_turns() {
        for every in [1, 2, 3, 7, 16, 100] {
            let taken = sample(every, u32::MAX, (0..100_000).map(|at| at % 4));
            let expect = 100_000 / every as usize;
            assert!(
                taken.len().abs_diff(expect) <= 2,
                "{} of 1 in {every}",
                taken.len()
            );
            for key in 0..4 {
                let share = taken.iter().filter(|&&taken| taken == key).count();
                assert!(
                    share.abs_diff(expect / 4) <= expect / 40 + 3,
                    "{share} of {expect}"
                );
            }
        }
        assert!(sample(0, 10, 0..1000).is_empty());
        assert!(sample(1, 0, 0..1000).is_empty());
    }

    #[test]
    fn it_keeps_the_last_keys() {
        assert_eq!(sample(1, 3, 0..100), [97, 98, 99]);
    }
}
