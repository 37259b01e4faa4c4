//! The paper's claims beside our results.

use super::figures::Row;
use super::shape::Bytes;
use super::sweep::{self, Curve, best};
use crate::figure::{Figure, claim};

/// The basis of a figure's claims: its row, its curves, and the single-thread curves that several
/// threads are compared with.
pub struct Seen<'a> {
    /// The row that was measured.
    pub row: &'a Row,
    /// The resulting curves.
    pub curves: &'a [Curve],
    /// Curves of one thread, by the size of its buffers.
    pub beside: &'a [Curve],
}

impl Seen<'_> {
    /// The best point of the paper's layout: bytes of data, MiB per second, and the curve.
    fn peak(&self) -> (f64, f64, Option<&Curve>) {
        peak(&self.row.papers(self.curves))
    }

    /// The best bandwidth of the three drawn curves with this much data.
    fn best_at(&self, data: u64) -> f64 {
        let drawn = self.row.best_of_paper(self.curves);
        most(drawn.iter().filter_map(|curve| curve.at(data)))
    }

    /// The best bandwidth of one thread with this much data, over its three best sizes.
    fn beside_at(&self, data: u64) -> f64 {
        let drawn = best(self.beside.iter().collect(), 3);
        most(drawn.iter().filter_map(|curve| curve.at(data)))
    }

    /// How much the bandwidth still changes at the end of the sweep.
    pub fn steadiness(&self) -> String {
        let drawn = match self.row.is_single {
            true => best(self.curves.iter().collect(), 3),
            false => self.row.best_of_paper(self.curves),
        };
        let change = most(drawn.iter().map(|curve| curve.last_change().abs()));
        let last = drawn.first().and_then(|curve| curve.points.last());
        let last = last.map_or(0, |point| point.0 as u64);
        format!(
            "The last step, to {} of data, changes the three best curves by at most {:.1} %; more \
             data was not sent.",
            Bytes(last),
            100.0 * change
        )
    }

    /// The best sizes, and the best layouts.
    fn chosen(&self) -> String {
        let names = |curves: Vec<&Curve>| {
            let names = curves.into_iter().map(|curve| self.row.name(&curve.shape));
            names.collect::<Vec<_>>().join(", ")
        };
        let papers = names(self.row.best_of_paper(self.curves));
        let all = names(best(self.curves.iter().collect(), 3));
        format!(
            "By the area under the curve over the logarithm of the data, the best of the paper's \
             number are {papers}; of all that were tried, {all}."
        )
    }
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NAN, f64::max)
}

fn peak<'a>(curves: &[&'a Curve]) -> (f64, f64, Option<&'a Curve>) {
    let best = curves
        .iter()
        .max_by(|a, b| a.peak().1.total_cmp(&b.peak().1));
    best.map_or((f64::NAN, f64::NAN, None), |curve| {
        let (data, bandwidth) = curve.peak();
        (data, bandwidth, Some(curve))
    })
}

const RATE: &str = "MiB/s";

/// The bytes of a curve's whole buffer, in KiB.
fn buffer_kib(curve: Option<&Curve>, halves: u64) -> f64 {
    curve.map_or(f64::NAN, |curve| {
        (halves * curve.shape.bytes) as f64 / 1024.0
    })
}

pub fn claims_4a(figure: &mut Figure, seen: &Seen<'_>) {
    let (data, rate, curve) = seen.peak();
    figure.claims([
        claim("the best with any single buffer").values([5615.4, rate], RATE),
        claim("the buffer with which it is reached").values([2048.0, buffer_kib(curve, 2)], "KiB"),
    ]);
    let small = seen
        .curves
        .iter()
        .filter(|curve| 2 * curve.shape.bytes < 64 << 10);
    let small = most(small.map(|curve| curve.peak().1));
    let note = format!(
        "The best is reached with data of {}. No buffer below 64 KiB comes beyond {small:.0} MiB/s \
         (paper: they \"perform poorly\"). A package is copied, then written, then the next is \
         copied: that the two never overlap is what halves the bandwidth, there and here.",
        Bytes(data as u64)
    );
    figure.note(note);
}

pub fn claims_4b(figure: &mut Figure, seen: &Seen<'_>) {
    // The fraction by which a curve falls with its last doubling before the data is half the
    // buffer.
    let falls = |of: fn(&Curve) -> &[(f64, f64)]| -> Vec<(u64, f64)> {
        let fall = |curve: &Curve| {
            let at = |data: u64| of(curve).iter().find(|point| point.0 == data as f64);
            let (half, before) = (curve.shape.bytes, curve.shape.bytes / 2);
            Some((2 * half, 1.0 - at(half)?.1 / at(before)?.1))
        };
        seen.curves.iter().filter_map(fall).collect()
    };
    let consumed = falls(|curve| &curve.points);
    let written = falls(|curve| &curve.written);
    let falling = |falls: &[(u64, f64)]| falls.iter().filter(|fall| fall.1 > 0.0).count();
    let share = |falls: &[(u64, f64)]| falling(falls) as f64 / falls.len() as f64;
    figure.claims([
        claim("curves that fall at half the buffer, time until all is written")
            .values([1.0, share(&written)], ""),
        claim("curves that fall at half the buffer, time until all is consumed")
            .values([1.0, share(&consumed)], ""),
    ]);
    let listed = |falls: &[(u64, f64)]| {
        let parts = falls.iter().map(|&(buffer, fall)| {
            let (what, by) = (if fall > 0.0 { "-" } else { "+" }, 100.0 * fall.abs());
            format!("{} {what}{by:.0} %", Bytes(buffer))
        });
        parts.collect::<Vec<_>>().join(", ")
    };
    let (_, rate, curve) = seen.peak();
    let note = format!(
        "From the last power of two below half the buffer to half of it the bandwidth until all is \
         written changes by: {}. Until all is consumed: {}. At half the buffer a second package is \
         needed, as there is a header, and it is sent when the first has been copied out and \
         cleared and notice has come. Who stops the clock with the last WRITE sees a cliff there, \
         since only from there on the consumption of a package is within the time; who stops it \
         when all is consumed sees one step less in the rise. The paper's cliff looks like the \
         first; it does not tell which end it takes. The best until all is consumed is {rate:.0} \
         MiB/s with a buffer of {}; the paper gives no number.",
        listed(&written),
        listed(&consumed),
        Bytes(buffer_kib(curve, 2) as u64 * 1024),
    );
    figure.note(note);
}

pub fn claims_5a(figure: &mut Figure, seen: &Seen<'_>) {
    let (data, rate, _) = seen.peak();
    figure.claims([
        claim("one thread and 1 receive buffer: the best").values([5250.0, rate], RATE),
        claim("the data with which it is reached").values([512.0, data / 1024.0], "KiB"),
        claim("with data of 512 KiB").values([5250.0, seen.best_at(512 << 10)], RATE),
    ]);
    let (_, of_all, curve) = peak(&seen.curves.iter().collect::<Vec<_>>());
    let with = curve.map_or_else(String::new, |curve| seen.row.name(&curve.shape));
    let plateau = "With 1 receive buffer the curves rise to a plateau and stay there; in the paper \
        they fall again behind 512 KiB, for which it names headers and latency. Both are in the \
        model and cost less than that. What is not in the model is that data which is sent ten \
        times over, as the paper does, is in a cache as long as it is small.";
    let note = format!(
        "With more than one receive buffer the best is {of_all:.0} MiB/s ({with}): a thread that \
         waits for the end of its own WRITE only when it needs that part of the send buffer again \
         copies while the NIC sends. In the paper more receive buffers bring a single thread \
         nothing."
    );
    figure.notes.extend([seen.chosen(), plateau.into(), note]);
}

pub fn claims_5b(figure: &mut Figure, seen: &Seen<'_>) {
    let (_, rate, _) = seen.peak();
    let data = seen.curves.first().map_or(&[][..], |curve| &curve.points);
    let data = data.iter().map(|point| point.0 as u64);
    // The point from which threads are permanently better.
    let worse = data
        .clone()
        .filter(|&at| seen.best_at(at) <= seen.beside_at(at));
    let worse = worse.max().unwrap_or(0);
    let better = data
        .filter(|&at| at > worse)
        .min()
        .map_or(f64::NAN, |at| at as f64);
    figure.claims([
        claim("3 threads and 3 receive buffers: the best").values([7100.0, rate], RATE),
        claim("with data of 512 KiB").values([3000.0, seen.best_at(512 << 10)], RATE),
        claim("the least data with which threads are better than one")
            .values([64.0, better / sweep::MIB], "MiB"),
    ]);
    let note = format!(
        "One thread with 1 receive buffer has {:.0} MiB/s with data of 512 KiB. Starting the \
         threads costs 18 us each, and data that fits one package is one thread's: that is why \
         small data is slower. The threads fill the wire here; what keeps the paper's at 7100 \
         MiB/s it does not tell, and the model knows nothing but the wire that they share.",
        seen.beside_at(512 << 10)
    );
    figure.notes.extend([seen.chosen(), note]);
}

pub fn claims_6a(figure: &mut Figure, seen: &Seen<'_>) {
    let (data, rate, _) = seen.peak();
    let drawn = seen.row.best_of_paper(seen.curves);
    let good = |curve: &&&Curve| (256 << 10..=1 << 20).contains(&curve.shape.bytes);
    let good = drawn.iter().filter(good).count();
    let written = drawn.iter().flat_map(|curve| &curve.written);
    let written = written.filter(|point| point.0 == sweep::MIB);
    let until = most(written.map(|point| point.1));
    figure.claims([
        claim("one thread and 2 receive buffers: the best").values([5100.0, rate], RATE),
        claim("with data of 1 MiB").values([5100.0, seen.best_at(1 << 20)], RATE),
        claim("the data with which the best is reached").values([1024.0, data / 1024.0], "KiB"),
        claim("with data of 1 MiB, time until all is written").values([5100.0, until], RATE),
        claim("of the three best sizes, those of 256 KiB to 1 MiB").values([3.0, good as f64], ""),
    ]);
    let note = "The sender copies, the wire carries and the receiver copies and clears at the same \
                time, each another package, so that more data comes ever nearer to the slowest of \
                the three; in the paper more data than 1 MiB brings less. Two buffers of 512 KiB \
                and more have nothing to overlap with little data: that is why smaller ones have \
                the larger areas here.";
    figure.notes.extend([seen.chosen(), note.into()]);
}

pub fn claims_6b(figure: &mut Figure, seen: &Seen<'_>) {
    let (_, rate, _) = seen.peak();
    let (_, one, _) = peak(&seen.beside.iter().collect::<Vec<_>>());
    figure.claims([
        claim("3 threads and 6 receive buffers: the best").values([5900.0, rate], RATE),
        claim("gain over one thread and 2 receive buffers").values([1.14, rate / one], ""),
    ]);
    let note = format!(
        "One thread has {one:.0} MiB/s at best. Every word has one writer here, so that no thread \
         polls under a lock that the NIC waits for, and every channel has a queue pair of its own: \
         threads gain until the wire is full. The paper names the management of threads as what \
         keeps it from that."
    );
    figure.notes.extend([seen.chosen(), note]);
}
