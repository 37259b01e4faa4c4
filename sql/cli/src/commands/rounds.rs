//! Rounds of measurements, in which transports alternate.

use super::{QUERIES_TEMPLATE, progress};
use crate::error::CommandError;
use crate::execute::Measurement;
use crate::transport::Transport;

/// What is measured.
pub struct Rounds<'a> {
    /// In each round, in this order.
    pub transports: &'a [Transport],
    /// The number of rounds.
    pub repeat: usize,
    /// Times that a round executes all cases before it measures.
    pub warm_up: usize,
    /// The number of cases.
    pub cases: usize,
}

impl Rounds<'_> {
    /// Measures. In each round, `open` starts the workers of one transport after the other, and
    /// `measure` executes each case, which has a number. What `open` has made is dropped before the
    /// next transport's turn.
    ///
    /// Returns for each transport and case a measurement of each round.
    ///
    /// # Errors
    /// Those of `open` and `measure`, with the transport and the round.
    pub async fn run<C>(
        &self,
        mut open: impl AsyncFnMut(Transport) -> Result<C, CommandError>,
        mut measure: impl AsyncFnMut(&mut C, usize) -> Result<Measurement, CommandError>,
    ) -> Result<Vec<Vec<Vec<Measurement>>>, CommandError> {
        let passes = self.repeat * self.transports.len() * (self.warm_up + 1);
        let bar = progress((passes * self.cases) as u64, QUERIES_TEMPLATE);
        let mut sides = vec![vec![Vec::new(); self.cases]; self.transports.len()];
        for round in 1..=self.repeat {
            for (side, &transport) in sides.iter_mut().zip(self.transports) {
                let mut opened = open(transport).await?;
                let label = format!("{} round {round}", transport.name());
                bar.set_message(label.clone());
                for pass in 0..=self.warm_up {
                    for (case, measurements) in side.iter_mut().enumerate() {
                        let measured = measure(&mut opened, case).await;
                        let measured = measured
                            .map_err(|error| CommandError::Failed(format!("{label}: {error}")))?;
                        if pass == self.warm_up {
                            measurements.push(measured);
                        }
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        Ok(sides)
    }
}
