//! Workers get the operations of their workload, on keys of its distribution.

use super::super::{Distribution, Generator, Mix, Operation, Workload, YcsbOptions};
use super::{check_masses, zipf_masses};
use std::collections::HashMap;

const RECORDS: u64 = 500;
const DRAWS: u64 = 100_000;

fn options(workload: Workload, distribution: Distribution, theta: f64) -> YcsbOptions {
    YcsbOptions {
        workload,
        records: RECORDS,
        distribution: Some(distribution),
        theta,
        seed: 42,
        ..YcsbOptions::default()
    }
}

fn generator(options: &YcsbOptions) -> Generator {
    Generator::new(options, 0).expect("valid options")
}

/// How often each key below `inserted` is drawn.
fn key_counts(options: &YcsbOptions, inserted: u64) -> Vec<u64> {
    let mut generator = generator(options);
    let mut counts = vec![0; inserted as usize];
    for _ in 0..DRAWS {
        let key = generator.next(inserted).key().expect("workload C reads");
        counts[key as usize] += 1;
    }
    counts
}

#[test]
fn mixes_are_those_of_the_paper() {
    for workload in Workload::ALL {
        let Mix {
            read,
            update,
            insert,
            scan,
            read_modify_write,
        } = workload.mix();
        let shares = [read, update, insert, scan, read_modify_write];
        assert_eq!(shares.iter().sum::<u8>(), 100);
        let mut counts = [0; 5];
        let mut generator = generator(&options(workload, Distribution::Scrambled, 0.99));
        for _ in 0..DRAWS {
            let at = match generator.next(RECORDS) {
                Operation::Read { .. } => 0,
                Operation::Update { .. } => 1,
                Operation::Insert => 2,
                Operation::Scan { .. } => 3,
                Operation::ReadModifyWrite { .. } => 4,
            };
            counts[at] += 1;
        }
        for (share, count) in shares.into_iter().zip(counts) {
            assert_eq!(share == 0, count == 0, "{workload}: {counts:?}");
        }
        check_masses(&counts, &shares.map(f64::from), workload);
    }
    let mix = Workload::A.mix();
    assert_eq!((mix.read, mix.update), (50, 50));
    assert_eq!(Workload::B.mix().read, 95);
    assert_eq!(Workload::C.mix().read, 100);
    assert_eq!(Workload::D.mix().insert, 5);
    assert_eq!(Workload::E.mix().scan, 95);
    assert_eq!(Workload::F.mix().read_modify_write, 50);
}

#[test]
fn zipfian_keys_are_ranks_and_the_newest_comes_first_in_latest() {
    for theta in [0.99, 1.3] {
        let zipfian = options(Workload::C, Distribution::Zipfian, theta);
        let mut masses = zipf_masses(RECORDS, theta);
        check_masses(&key_counts(&zipfian, RECORDS), &masses, "zipfian");
        let latest = options(Workload::C, Distribution::Latest, theta);
        let mut counts = key_counts(&latest, RECORDS + 100);
        counts.reverse();
        masses = zipf_masses(RECORDS + 100, theta);
        check_masses(&counts, &masses, "latest");
    }
    let uniform = options(Workload::C, Distribution::Uniform, 1.3);
    let counts = key_counts(&uniform, RECORDS + 100);
    check_masses(&counts, &[1.0; RECORDS as usize + 100], "uniform");
}

#[test]
fn scrambling_keeps_every_mass() {
    let scrambled = options(Workload::C, Distribution::Scrambled, 1.1);
    let mut counts = key_counts(&scrambled, RECORDS);
    let hottest = counts.iter().max().expect("there are keys");
    assert_ne!(counts[0], *hottest, "the hottest record is elsewhere");
    // The same draws unscrambled: the multiset of counts must be exactly equal.
    let zipfian = options(Workload::C, Distribution::Zipfian, 1.1);
    let mut unscrambled = key_counts(&zipfian, RECORDS);
    counts.sort_unstable();
    unscrambled.sort_unstable();
    assert_eq!(counts, unscrambled);
}

#[test]
fn hot_records_stay_hot_while_others_are_inserted() {
    let scrambled = options(Workload::C, Distribution::Scrambled, 1.3);
    let hottest = |inserted| {
        let counts = key_counts(&scrambled, inserted);
        let mut keys: Vec<usize> = (0..counts.len()).collect();
        keys.sort_by_key(|&key| std::cmp::Reverse(counts[key]));
        keys.truncate(3);
        keys
    };
    assert_eq!(hottest(RECORDS), hottest(RECORDS * 2));
    // The new ones are the coldest ranks, each with its mass.
    let counts = key_counts(&scrambled, RECORDS * 2);
    let masses = zipf_masses(RECORDS * 2, 1.3);
    let (old, new) = masses.split_at(RECORDS as usize);
    let mut judged = vec![counts[..RECORDS as usize].iter().sum()];
    judged.extend_from_slice(&counts[RECORDS as usize..]);
    let mut expected = vec![old.iter().sum()];
    expected.extend_from_slice(new);
    check_masses(&judged, &expected, "new records");
}

#[test]
fn latest_follows_what_was_acknowledged() {
    let mut generator = generator(&options(Workload::D, Distribution::Latest, 0.99));
    let mut newest_read = 0;
    for inserted in RECORDS..RECORDS + 10_000 {
        if let Some(key) = generator.next(inserted).key() {
            assert!(key < inserted, "record {key} of {inserted}");
            newest_read += u64::from(key == inserted - 1);
        }
    }
    // One read in H(n, 0.99) = 7 to 10 is of the newest.
    assert!((700..1700).contains(&newest_read), "{newest_read}");
}

#[test]
fn scans_are_of_all_lengths_alike() {
    let mut options = options(Workload::E, Distribution::Uniform, 0.0);
    options.scan_length_max = 40;
    let mut generator = generator(&options);
    let mut counts = vec![0; 40];
    for _ in 0..DRAWS {
        if let Operation::Scan { length, .. } = generator.next(RECORDS) {
            counts[length as usize - 1] += 1;
        }
    }
    check_masses(&counts, &[1.0; 40], "lengths");
}

#[test]
fn a_seed_and_a_worker_are_one_sequence() {
    let draw = |options: &YcsbOptions, worker| {
        let mut generator = Generator::new(options, worker).expect("valid options");
        let operations = (0..200).map(|at| generator.next(RECORDS + at / 10));
        operations.collect::<Vec<_>>()
    };
    let mut options = options(Workload::E, Distribution::Scrambled, 0.99);
    let first = draw(&options, 0);
    assert_eq!(first, draw(&options, 0));
    assert_ne!(first, draw(&options, 1));
    options.seed += 1;
    assert_ne!(first, draw(&options, 0));
}

#[test]
fn all_workers_have_the_same_hot_record() {
    let options = options(Workload::C, Distribution::Scrambled, 1.3);
    let hottest = |worker| {
        let mut generator = Generator::new(&options, worker).expect("valid options");
        let mut counts = HashMap::new();
        for _ in 0..2000 {
            *counts.entry(generator.next(RECORDS).key()).or_insert(0) += 1;
        }
        counts.into_iter().max_by_key(|&(_, count)| count)
    };
    let keys: Vec<_> = (0..4).filter_map(hottest).map(|(key, _)| key).collect();
    assert_eq!(keys, [keys[0]; 4]);
}
