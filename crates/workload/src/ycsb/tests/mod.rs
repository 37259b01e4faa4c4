//! Tests of YCSB, and the statistical test that several of them use.
//!
//! Draws come from fixed seeds, so tests are deterministic. Bounds are those of a chi-square test
//! at four standard deviations: one correct sampler in 30 000 would be rejected.

mod distributions;
mod generators;
mod growth;
mod options;
mod records;
mod times;
mod versions;

use std::fmt;

/// Four standard deviations of a normal distribution.
const DEVIATIONS: f64 = 4.0;

/// The chi-square statistic of `counts` against `masses`, and its upper bound. Neighbouring cells
/// are joined until five draws are expected in each.
fn chi_square(counts: &[u64], masses: &[f64]) -> (f64, f64) {
    assert_eq!(counts.len(), masses.len());
    let draws = counts.iter().sum::<u64>() as f64;
    let whole = masses.iter().sum::<f64>();
    let mut cells: Vec<(f64, f64)> = vec![(0.0, 0.0)];
    for (&count, mass) in counts.iter().zip(masses) {
        if cells.last().is_some_and(|cell| cell.1 >= 5.0) {
            cells.push((0.0, 0.0));
        }
        let cell = cells.last_mut().expect("there is one from the start");
        cell.0 += count as f64;
        cell.1 += draws * mass / whole;
    }
    if let [.., before, last] = &mut cells[..]
        && last.1 < 5.0
    {
        *before = (before.0 + last.0, before.1 + last.1);
        cells.pop();
    }
    let term = |(count, expected): &(f64, f64)| (count - expected).powi(2) / expected;
    let freedom = (cells.len() - 1) as f64;
    if freedom == 0.0 {
        return (0.0, 0.0);
    }
    // Wilson and Hilferty 1931: the cube root of chi-square over its degrees is nearly normal.
    let spread = 2.0 / (9.0 * freedom);
    let bound = freedom * (1.0 - spread + DEVIATIONS * spread.sqrt()).powi(3);
    (cells.iter().map(term).sum(), bound)
}

#[track_caller]
fn check_masses(counts: &[u64], masses: &[f64], what: impl fmt::Display) {
    let (statistic, bound) = chi_square(counts, masses);
    assert!(
        statistic <= bound,
        "{what}: chi-square {statistic:.1} > {bound:.1}"
    );
}

/// The masses of a Zipfian distribution, by its definition.
fn zipf_masses(ranks: u64, theta: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=ranks).map(|k| (k as f64).powf(-theta)).collect();
    let harmonic: f64 = weights.iter().rev().sum();
    weights.iter().map(|weight| weight / harmonic).collect()
}

#[test]
fn the_test_refuses_what_is_slightly_wrong() {
    let masses = [0.25; 4];
    check_masses(&[2_500, 2_550, 2_480, 2_470], &masses, "even");
    let (statistic, bound) = chi_square(&[2_700, 2_300, 2_600, 2_400], &masses);
    assert!(statistic > bound);
    // Cells with an expectation of zero are joined with their neighbours.
    assert_eq!(chi_square(&[10, 0, 0], &[1.0, 0.0, 0.0]), (0.0, 0.0));
}
