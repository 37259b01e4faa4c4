//! The violations that a checker has found so far.

/// A count of all violations, and the first ones in full.
#[derive(Debug)]
pub(super) struct Found<V, const MAX: usize = 20> {
    first: Vec<V>,
    count: u64,
}

impl<V, const MAX: usize> Default for Found<V, MAX> {
    fn default() -> Self {
        Self {
            first: Vec::new(),
            count: 0,
        }
    }
}

impl<V, const MAX: usize> Found<V, MAX> {
    #[cold]
    pub fn push(&mut self, violation: V) {
        self.count += 1;
        if self.first.len() < MAX {
            self.first.push(violation);
        }
    }

    /// The first violations.
    pub fn first(&self) -> &[V] {
        &self.first
    }

    /// Number of violations, including those that are not kept.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The verdict: `summary` if there are no violations.
    pub fn judge<T>(self, summary: T) -> Result<T, Vec<V>> {
        match self.first.is_empty() {
            true => Ok(summary),
            false => Err(self.first),
        }
    }
}
