//! What a checker has found wrong so far.

/// All that is wrong, counted, and the first violations in full.
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

    /// How many there are, also beyond those that are kept.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The judgement: the summary of a history in which nothing is wrong.
    pub fn judge<T>(self, summary: T) -> Result<T, Vec<V>> {
        match self.first.is_empty() {
            true => Ok(summary),
            false => Err(self.first),
        }
    }
}
