//! Sizes of data and buffers, and the choice of the best buffers.

use super::node_pair::NodePair;
use super::shape::{Bytes, Shape};
use crate::harness::prelude::*;

/// Bytes of a MiB, the paper's unit.
pub const MIB: f64 = 1_048_576.0;

/// The sizes of a sweep.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Bytes of the data, ascending.
    pub data: Vec<u64>,
    /// Bytes of a buffer, ascending: of the whole single buffer, or of each of several.
    pub buffers: Vec<u64>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Curve {
    pub shape: Shape,
    /// Bytes of data, and MiB per second until all of it was in its final place.
    pub points: Vec<(f64, f64)>,
    /// The same until the last WRITE had ended.
    pub written: Vec<(f64, f64)>,
}

impl Sizes {
    /// The sizes of a scale. The paper has data up to 4 GiB and buffers up to 512 MiB.
    pub fn of(scale: Scale) -> Self {
        let powers = |range: core::ops::RangeInclusive<u32>, step: usize| -> Vec<u64> {
            range.step_by(step).map(|power| 1 << power).collect()
        };
        match scale {
            Scale::Quick => {
                let mut data = powers(3..=15, 4);
                data.extend(powers(16..=23, 1));
                data.extend([1 << 24, 1 << 26]);
                Self {
                    data,
                    buffers: powers(11..=25, 2),
                }
            }
            // The moved bytes double with each size of data; at 128 MiB all curves are level.
            Scale::Full => Self {
                data: powers(3..=27, 1),
                buffers: powers(10..=26, 1),
            },
            Scale::Paper => Self {
                data: powers(3..=30, 1),
                buffers: powers(10..=26, 1),
            },
        }
    }

    /// The part of the paper's sweep that this covers.
    pub fn note(&self) -> String {
        let ends = |sizes: &[u64]| match (sizes.first(), sizes.last()) {
            (Some(&first), Some(&last)) => format!("{} to {}", Bytes(first), Bytes(last)),
            _ => "none".into(),
        };
        format!(
            "Scaled for this machine, on which every byte is really moved: data of {} in {} sizes \
             (paper: 8 B to 4 GiB), buffers of {} in {} sizes (paper: 1 KiB to 512 MiB). Nothing \
             is extrapolated.",
            ends(&self.data),
            self.data.len(),
            ends(&self.buffers),
            self.buffers.len()
        )
    }
}

impl Curve {
    /// The area under the curve over a logarithmic axis, as in the figures.
    pub fn area(&self) -> f64 {
        let slice = |pair: &[(f64, f64)]| (pair[1].0 / pair[0].0).log2() * (pair[0].1 + pair[1].1);
        self.points.windows(2).map(slice).sum::<f64>() / 2.0
    }

    /// The best point: bytes of data, and MiB per second.
    pub fn peak(&self) -> (f64, f64) {
        let points = self.points.iter().copied();
        points
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((f64::NAN, f64::NAN))
    }

    /// MiB per second with this many bytes of data, if measured.
    pub fn at(&self, bytes: u64) -> Option<f64> {
        let found = self.points.iter().find(|point| point.0 == bytes as f64);
        found.map(|point| point.1)
    }

    /// Relative change of the bandwidth with the last doubling, or other step, of the data.
    pub fn last_change(&self) -> f64 {
        match self.points.as_slice() {
            [.., before, last] => last.1 / before.1 - 1.0,
            _ => f64::NAN,
        }
    }
}

/// The `count` curves with the largest areas, best first.
pub fn best(mut curves: Vec<&Curve>, count: usize) -> Vec<&Curve> {
    curves.sort_by(|a, b| b.area().total_cmp(&a.area()));
    curves.truncate(count);
    curves
}

pub fn measure(run: &mut Run<'_>, shapes: &[Shape], data: &[u64]) -> Result<Vec<Curve>> {
    // Progress is measured in bytes, plus a constant for each measurement.
    let weight = |bytes: u64| (bytes + (1 << 20)) as f64;
    let total = shapes.len() as f64 * data.iter().map(|&bytes| weight(bytes)).sum::<f64>();
    let mut done = 0.0;
    let mut curves = Vec::new();
    for &shape in shapes {
        let mut pair = NodePair::new(shape, run.seed)?;
        let (mut points, mut written) = (Vec::new(), Vec::new());
        for &bytes in data {
            let part = &mut run.share(done / total, (done + weight(bytes)) / total);
            let took = pair.measure(part, bytes);
            let what = || format!("{shape:?}, data of {}", Bytes(bytes));
            let [all, writing] = took.map_err(|error| error.with(what()))?;
            let rate = |seconds: f64| (bytes as f64, bytes as f64 / MIB / seconds);
            points.push(rate(all));
            written.push(rate(writing));
            done += weight(bytes);
        }
        curves.push(Curve {
            shape,
            points,
            written,
        });
    }
    Ok(curves)
}

#[cfg(test)]
mod tests;
