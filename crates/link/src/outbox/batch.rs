//! Datagrams in one buffer, in order, so that the system can take several in one call.

/// Datagrams that wait for the system.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    lens: Vec<usize>,
    /// Number of datagrams at the start that the system has taken, and their bytes.
    taken: usize,
    taken_bytes: usize,
}

/// The datagrams of a batch that the system has not taken yet; at least one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Datagrams<'a> {
    /// The datagrams without gaps, the first one at the start.
    pub(crate) bytes: &'a [u8],
    pub(crate) lens: &'a [usize],
}

impl Batch {
    /// Number of datagrams.
    pub(super) fn len(&self) -> usize {
        self.lens.len() - self.taken
    }

    #[cfg(any(test, target_os = "linux"))]
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of all datagrams.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.len() - self.taken_bytes
    }

    /// Adds the datagram that `write` appends to the buffer, unless it returns false.
    pub(super) fn add(&mut self, write: impl FnOnce(&mut Vec<u8>) -> bool) {
        let at = self.bytes.len();
        if write(&mut self.bytes) {
            self.lens.push(self.bytes.len() - at);
        } else {
            self.bytes.truncate(at);
        }
    }

    /// The datagrams that wait; `None` if there are none.
    pub(super) fn waiting(&self) -> Option<Datagrams<'_>> {
        let waiting = Datagrams {
            bytes: &self.bytes[self.taken_bytes..],
            lens: &self.lens[self.taken..],
        };
        (!waiting.lens.is_empty()).then_some(waiting)
    }

    /// Removes the first `count` datagrams.
    pub(super) fn remove(&mut self, count: usize) {
        let removed = &self.lens[self.taken..][..count];
        self.taken_bytes += removed.iter().sum::<usize>();
        self.taken += count;
        // The rest moves to the start only when it is the smaller part, so that each byte is moved
        // once on average.
        if self.taken_bytes >= self.bytes.len() - self.taken_bytes {
            self.bytes.drain(..self.taken_bytes);
            self.lens.drain(..self.taken);
            (self.taken, self.taken_bytes) = (0, 0);
        }
    }
}

impl<'a> Datagrams<'a> {
    /// The first datagram.
    pub(crate) fn first(self) -> &'a [u8] {
        &self.bytes[..self.lens[0]]
    }

    /// The first `count` datagrams.
    #[cfg(any(test, target_os = "linux"))]
    pub(crate) fn start(self, count: usize) -> Self {
        let lens = &self.lens[..count];
        let bytes = &self.bytes[..lens.iter().sum()];
        Self { bytes, lens }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(batch: &Batch) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let Some(mut waiting) = batch.waiting() else {
            return all;
        };
        while !waiting.lens.is_empty() {
            all.push(waiting.first().to_vec());
            waiting.bytes = &waiting.bytes[waiting.lens[0]..];
            waiting.lens = &waiting.lens[1..];
        }
        all
    }

    #[test]
    fn what_is_removed_leaves_the_rest_in_order() {
        let mut batch = Batch::default();
        let mut expect: Vec<Vec<u8>> = Vec::new();
        for round in 0..200u8 {
            let added = vec![round; usize::from(round % 7)];
            batch.add(|bytes| {
                bytes.extend_from_slice(&added);
                true
            });
            expect.push(added);
            batch.add(|bytes| {
                bytes.extend_from_slice(b"not whole");
                false
            });
            if round % 5 == 4 {
                batch.remove(4);
                expect.drain(..4);
            }
            assert_eq!(all(&batch), expect);
            assert_eq!(batch.len(), expect.len());
            assert_eq!(batch.bytes(), expect.concat().len());
        }
        batch.remove(batch.len());
        assert!(batch.is_empty() && batch.bytes.is_empty() && batch.lens.is_empty());
    }
}
