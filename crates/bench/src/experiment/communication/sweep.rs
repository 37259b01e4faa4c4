//! What is measured: the protocol, the number of threads, the number and size of buffers, and the
//! size of the data; and the choice of the best buffers.

use super::node_pair::NodePair;
use crate::baseline::single_buffer::HEADER_BYTES;
use crate::harness::prelude::*;
use core::fmt;
use rackweave_wire::fabric::message::PIECE_HEADER_LEN;

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
            _ => Self {
                data: powers(3..=if scale == Scale::Full { 27 } else { 30 }, 1),
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

/// How data is transferred from one node to the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Written to receive buffers in turn, which are never read: the throughput test.
    Raw,
    /// Through the single buffer, consumed.
    Single,
    /// With the multi-buffer protocol, consumed.
    Multi,
}

/// A measurement without the size of the data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    pub way: Way,
    /// Threads of the sender, and as many of the receiver if the data is consumed.
    pub threads: u8,
    /// Receive buffers of all threads together.
    pub buffers: u8,
    /// Bytes of each buffer; for the single buffer, of a half.
    pub bytes: u64,
}

impl Shape {
    /// Parts of a thread's send buffer, one for each package in flight. With one thread the send
    /// buffer is as large as all receive buffers (section 3.1), with several it has a part for each
    /// (sections 4.1.1 and 4.2.1).
    pub fn parts(&self) -> u64 {
        match self.threads {
            1 => u64::from(self.buffers),
            _ => 1,
        }
    }

    /// Bytes of all receive buffers.
    pub fn receive_bytes(&self) -> u64 {
        u64::from(self.buffers) * self.bytes
    }

    /// Bytes of a package's header.
    pub fn header(&self) -> u64 {
        match self.way {
            Way::Raw | Way::Single => HEADER_BYTES as u64,
            Way::Multi => PIECE_HEADER_LEN as u64,
        }
    }

    /// Bytes of data in one package.
    pub fn payload(&self) -> u64 {
        self.bytes - self.header()
    }

    /// The part of `data` bytes that a thread sends: packages are distributed over threads as
    /// evenly as possible. Data that fits one package is the first thread's.
    pub fn share(&self, thread: u8, data: u64) -> Range<u64> {
        let packages = data.div_ceil(self.payload()).max(1);
        let cut = |thread: u8| {
            let packages = (packages * u64::from(thread)).div_ceil(u64::from(self.threads));
            (packages * self.payload()).min(data)
        };
        cut(thread)..cut(thread + 1)
    }
}

/// A number of bytes, displayed as in figures.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            bytes if bytes >= 1 << 30 && bytes.is_multiple_of(1 << 30) => (bytes >> 30, "GiB"),
            bytes if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => (bytes >> 20, "MiB"),
            bytes if bytes >= 1 << 10 && bytes.is_multiple_of(1 << 10) => (bytes >> 10, "KiB"),
            bytes => (bytes, "B"),
        };
        write!(f, "{value} {unit}")
    }
}

#[cfg(test)]
mod tests;
