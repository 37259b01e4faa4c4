//! Ranks are drawn with the correct frequencies, and scattering loses none.

use super::super::{Scatter, Zipf, ZipfError};
use super::{check_masses, chi_square, zipf_masses};
use proptest::prelude::*;
use rackweave_base::Rng;

const THETAS: [f64; 9] = [0.0, 1e-9, 0.5, 0.99, 1.0, 1.0 + 1e-9, 1.1, 1.3, 1.5];

fn counts(zipf: &Zipf, seed: u64, draws: u64) -> Vec<u64> {
    let mut rng = Rng::new(seed);
    let mut counts = vec![0; zipf.ranks() as usize];
    for _ in 0..draws {
        counts[zipf.sample(&mut rng) as usize] += 1;
    }
    counts
}

#[test]
fn every_rank_has_its_mass() {
    for (seed, theta) in (1..).zip(THETAS) {
        for ranks in [1, 2, 3, 10, 1000] {
            let zipf = Zipf::new(ranks, theta).unwrap();
            let counts = counts(&zipf, seed, 100_000);
            let masses = zipf_masses(ranks, theta);
            check_masses(&counts, &masses, format!("theta {theta}, {ranks} ranks"));
        }
    }
}

#[test]
fn a_slightly_different_skew_is_told_apart() {
    for (theta, other) in [(0.99, 1.02), (1.0, 0.97), (1.3, 1.27), (0.0, 0.06)] {
        let counts = counts(&Zipf::new(1000, theta).unwrap(), 5, 100_000);
        let (statistic, bound) = chi_square(&counts, &zipf_masses(1000, other));
        assert!(statistic > bound, "{theta} passes for {other}");
    }
}

/// Ranks in groups that double in size, so that the tail is checked too. The masses of groups far
/// out are integrals by the midpoint rule, whose relative error is below 1e-7 there.
#[test]
fn many_ranks_have_their_masses_in_groups() {
    const ONE_BY_ONE: u64 = 1 << 12;
    for (seed, theta) in (20..).zip(THETAS) {
        for bits in [20, 40] {
            let antiderivative = |x: f64| match theta {
                1.0 => x.ln(),
                _ => x.powf(1.0 - theta) / (1.0 - theta),
            };
            // Group g has the ranks 2^g - 1 .. 2^(g+1) - 1, which are the terms 2^g .. 2^(g+1) of
            // the sum.
            let masses: Vec<f64> = (0..bits)
                .map(|group| match 1u64 << group {
                    first if first < ONE_BY_ONE => {
                        (first..2 * first).map(|k| (k as f64).powf(-theta)).sum()
                    }
                    first => {
                        let edge = |k: u64| antiderivative(k as f64 - 0.5);
                        edge(2 * first) - edge(first)
                    }
                })
                .collect();
            let zipf = Zipf::new((1 << bits) - 1, theta).unwrap();
            let mut rng = Rng::new(seed);
            let mut counts = vec![0; bits];
            for _ in 0..100_000 {
                counts[(zipf.sample(&mut rng) + 1).ilog2() as usize] += 1;
            }
            check_masses(&counts, &masses, format!("theta {theta}, 2^{bits} ranks"));
        }
    }
}

#[test]
fn frequencies_fall_with_the_rank() {
    for theta in [0.5, 0.99, 1.0, 1.3] {
        // Groups of ten ranks: their masses are many standard deviations apart.
        let counts = counts(&Zipf::new(100, theta).unwrap(), 3, 200_000);
        let groups: Vec<u64> = counts.chunks(10).map(|group| group.iter().sum()).collect();
        assert!(groups.is_sorted_by(|a, b| a > b), "{theta}: {groups:?}");
    }
}

#[test]
fn the_top_rank_has_one_over_the_harmonic_number() {
    let (ranks, draws) = (1_000_000, 400_000);
    let zipf = Zipf::new(ranks, 1.3).unwrap();
    let mut rng = Rng::new(11);
    let top = (0..draws).filter(|_| zipf.sample(&mut rng) == 0).count() as f64;
    let mass = zipf_masses(ranks, 1.3)[0];
    let deviation = (mass * (1.0 - mass) / f64::from(draws)).sqrt();
    let off = (top / f64::from(draws) - mass) / deviation;
    assert!(off.abs() < 4.0, "{off:.1} deviations from {mass}");
}

#[test]
fn no_skew_is_the_even_distribution() {
    let zipf = Zipf::new(50, 0.0).unwrap();
    check_masses(&counts(&zipf, 9, 100_000), &[0.02; 50], "uniform");
}

#[test]
fn more_ranks_are_as_if_they_had_always_been_there() {
    for theta in THETAS {
        let mut grown = Zipf::new(10, theta).unwrap();
        grown.resize(777);
        assert_eq!(grown, Zipf::new(777, theta).unwrap());
    }
    let mut none = Zipf::new(10, 1.0).unwrap();
    none.resize(0);
    assert_eq!(none.sample(&mut Rng::new(1)), 0);
}

#[test]
fn what_cannot_be_drawn_is_refused() {
    assert_eq!(Zipf::new(0, 1.0), Err(ZipfError::Ranks(0)));
    let many = Zipf::RANKS_MAX + 1;
    assert_eq!(Zipf::new(many, 1.0), Err(ZipfError::Ranks(many)));
    for theta in [-0.1, 1.51, f64::INFINITY] {
        assert_eq!(Zipf::new(10, theta), Err(ZipfError::Theta(theta)));
    }
    let error = Zipf::new(10, f64::NAN).unwrap_err().to_string();
    assert!(error.contains("use 0 (uniform) to 1.5"), "{error}");
}

proptest! {
    #[test]
    fn draws_stay_in_range(ranks in 1..=Zipf::RANKS_MAX, theta in 0.0..=1.5, seed: u64) {
        let zipf = Zipf::new(ranks, theta).unwrap();
        let mut rng = Rng::new(seed);
        for _ in 0..100 {
            prop_assert!(zipf.sample(&mut rng) < ranks);
        }
    }

    #[test]
    fn scattering_is_a_bijection(size in 1..3000_u64, seed: u64) {
        let scatter = Scatter::new(size, seed);
        let mut keys: Vec<u64> = (0..size).map(|rank| scatter.apply(rank)).collect();
        keys.sort_unstable();
        prop_assert!(keys.into_iter().eq(0..size));
        prop_assert_eq!(scatter.apply(size), size);
    }

    #[test]
    fn scattering_many_stays_in_range(size in 1..=u64::MAX >> 1, seed: u64, rank: u64) {
        let scatter = Scatter::new(size, seed);
        prop_assert!(scatter.apply(rank % size) < size);
    }
}

#[test]
fn scattered_ranks_are_spread_evenly() {
    // The hottest 64 ranks, and neighbours, are anywhere when taken over all seeds.
    let (size, cells) = (1 << 20, 32);
    let (mut places, mut gaps) = (vec![0; cells], vec![0; cells]);
    for seed in 0..500 {
        let scatter = Scatter::new(size, seed);
        for rank in 0..64 {
            let (here, next) = (scatter.apply(rank), scatter.apply(rank + 1));
            let cell = |key: u64| (key * cells as u64 / size) as usize;
            places[cell(here)] += 1;
            gaps[cell((next + size - here) % size)] += 1;
        }
    }
    check_masses(&places, &vec![1.0; cells], "places");
    check_masses(&gaps, &vec![1.0; cells], "gaps");
}
