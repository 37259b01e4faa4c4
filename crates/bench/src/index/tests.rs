//! Small runs of every access and workload, and rejected options.

use super::*;
use crate::ycsb::{Kind, Load, Nodes, Phase, Progress, Result, YcsbError};
use rackweave_rack::RackConfig;
use rackweave_rack::config::Role;
use rackweave_workload::ycsb::{Stamp, Workload, YcsbOptions, write_record};

const OPERATIONS: u64 = 1200;
const RECORDS: u64 = 1500;

fn job(access: Access, workload: Workload, change: impl FnOnce(&mut IndexOptions)) -> Job {
    let mut options = IndexOptions {
        load: Load {
            ycsb: YcsbOptions {
                workload,
                records: RECORDS,
                operations: OPERATIONS,
                record_size: 104,
                scan_length_max: 40,
                seed: 11,
                ..YcsbOptions::default()
            },
            ..Load::default()
        },
        access,
        node_size: 512,
        ..IndexOptions::default()
    };
    change(&mut options);
    let config = RackConfig {
        seed: options.load.ycsb.seed,
        node: Nodes::configs(2, &[Role::Dpu][..usize::from(options.endpoints > 1)]),
        ..RackConfig::default()
    };
    Job {
        nodes: Nodes::of(&config).expect("there are nodes"),
        config,
        options,
    }
}

const ACCESSES: [Access; 4] = [
    Access::Local,
    Access::Rpc,
    Access::OneSided,
    Access::InNetwork,
];

/// A run on its own embedded rack.
fn embedded_run(job: &Job, progress: Progress<'_>) -> Result<Outcome> {
    let rack = embedded::rack(job)?;
    embedded::run_on(&rack, job, progress)
}

/// Assertions that hold for every run.
#[track_caller]
fn check(job: &Job, outcome: &Outcome) {
    let Job { options, .. } = job;
    assert!(outcome.is_verified(), "{options:?}: {outcome:#?}");
    assert_eq!(outcome.operations, options.load.ycsb.operations);
    let count = |kind: Kind| -> u64 {
        let of_kind = outcome.latencies.iter().filter(|one| one.kind == kind);
        of_kind.map(|one| one.summary.count).sum()
    };
    assert_eq!(
        outcome.records_after,
        outcome.records + count(Kind::Insert),
        "{options:?}"
    );
    let changes = count(Kind::Update) + count(Kind::Insert) + count(Kind::ReadModifyWrite);
    let sum =
        |part: fn(&EndpointCounts) -> u64| outcome.table.endpoints.iter().map(part).sum::<u64>();
    let by_request = match options.access {
        Access::Local => 0,
        _ => changes,
    };
    assert_eq!(sum(|endpoint| endpoint.writes), by_request, "{options:?}");
    let lookups = count(Kind::Read) + count(Kind::ReadModifyWrite);
    match options.access {
        Access::Local => assert_eq!((outcome.table.client, outcome.table.reader), (None, None)),
        Access::Rpc => {
            assert_eq!(sum(|endpoint| endpoint.gets), lookups);
            assert_eq!(outcome.table.reader, None);
        }
        Access::OneSided => {
            let reader = outcome.table.reader.expect("there were readers");
            let fallbacks = outcome.table.client.map_or(0, |client| client.fallbacks);
            assert!(reader.lookups + fallbacks >= lookups, "{reader:?}");
            // The root and a leaf at least, and the record.
            if options.cache_bytes == 0 && lookups > 0 {
                assert!(outcome.table.reads_per_lookup() >= Some(3.0), "{reader:?}");
            }
            assert_eq!(outcome.table.network, None);
        }
        Access::InNetwork => {
            let reader = outcome.table.reader.expect("there were readers");
            assert_eq!((reader.network_astray, reader.network_refused), (0, 0));
            assert!(reader.network_queries >= lookups, "{reader:?}");
            let network = outcome.table.network.as_ref().expect("there is one");
            assert!(network.loads >= 1, "{network:?}");
            // The whole tree is in the switch: a leaf, mostly, and the record.
            if options.cache_bytes == 0 && changes == 0 && lookups > 0 {
                assert!(outcome.table.reads_per_lookup() <= Some(2.1), "{reader:?}");
            }
        }
    }
    for share in &outcome.time {
        let all = share.compute + share.communication + share.waiting;
        assert!((0.99..1.01).contains(&all), "{share:?}");
    }
}

#[test]
fn every_workload_and_access_is_verified_in_real_time() {
    for workload in Workload::ALL {
        for access in ACCESSES {
            let job = job(access, workload, |options| options.load.threads = 2);
            let outcome = embedded_run(&job, &mut |_, _| true).expect("it runs");
            check(&job, &outcome);
        }
    }
}

#[test]
fn every_workload_and_access_is_verified_in_virtual_time() {
    for workload in Workload::ALL {
        for access in ACCESSES {
            let job = job(access, workload, |options| options.load.threads = 2);
            let outcome = simulated::run(&job, &mut |_, _| true).expect("it runs");
            check(&job, &outcome);
        }
    }
}

#[test]
fn runs_of_every_access_go_over_the_same_tree() {
    let job = job(Access::InNetwork, Workload::A, |_| {});
    let rack = embedded::rack(&job).expect("it can be built");
    let loaded = Loaded::new(&rack, &job, &mut |_, _| true);
    let mut loaded = loaded.expect("it is loaded");
    // Each run finds the versions that the previous runs wrote.
    for access in ACCESSES {
        let outcome = loaded
            .operate(access, 1, &mut |_, _| true)
            .expect("it runs");
        assert!(outcome.is_verified(), "{access:?}: {outcome:#?}");
        assert_eq!(outcome.operations, OPERATIONS);
        assert_eq!(outcome.table.network.is_some(), access == Access::InNetwork);
    }
    let plain = self::job(Access::OneSided, Workload::C, |_| {});
    let rack = embedded::rack(&plain).expect("it can be built");
    let loaded = Loaded::new(&rack, &plain, &mut |_, _| true);
    let refused = loaded
        .expect("it is loaded")
        .operate(Access::InNetwork, 1, &mut |_, _| true);
    assert!(refused.is_err(), "{refused:?}");
}

#[test]
fn two_endpoints_share_the_records() {
    for access in [Access::Rpc, Access::OneSided] {
        for workload in Workload::ALL {
            let job = job(access, workload, |options| {
                options.endpoints = 2;
                options.server_threads = 2;
                options.cache_bytes = 16 << 10;
            });
            for outcome in [
                embedded_run(&job, &mut |_, _| true).expect("it runs"),
                simulated::run(&job, &mut |_, _| true).expect("it runs"),
            ] {
                check(&job, &outcome);
                let nodes = outcome
                    .table
                    .endpoints
                    .iter()
                    .map(|endpoint| &*endpoint.node);
                assert_eq!(nodes.collect::<Vec<_>>(), ["storage0", "dpu0"]);
            }
        }
    }
}

#[test]
fn a_cache_of_upper_tree_nodes_saves_reads() {
    let reads = |cache_bytes| {
        let job = job(Access::OneSided, Workload::C, |options| {
            options.cache_bytes = cache_bytes;
        });
        let outcome = simulated::run(&job, &mut |_, _| true).expect("it runs");
        check(&job, &outcome);
        outcome
            .table
            .reads_per_lookup()
            .expect("there were lookups")
    };
    let (without, with) = (reads(0), reads(1 << 20));
    assert!(with + 0.9 < without, "{without} without, {with} with");
    // A leaf and a record, and seldom more.
    assert!((2.0..2.5).contains(&with), "{with}");
}

#[test]
fn a_seed_gives_the_same_run_and_faults_do_no_harm() {
    let run = |seed| {
        let mut job = job(Access::OneSided, Workload::A, |options| {
            options.load.ycsb.seed = seed;
        });
        job.config.seed = seed;
        job.config.faults.loss = 0.003;
        job.config.faults.reorder = 0.003;
        let outcome = simulated::run(&job, &mut |_, _| true).expect("it runs");
        check(&job, &outcome);
        (
            outcome.simulation.map(|run| run.trace_hash),
            outcome.seconds,
        )
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5).0, run(6).0);
}

#[test]
fn an_open_loop_keeps_its_rate() {
    for access in ACCESSES {
        let job = job(access, Workload::B, |options| {
            options.load.rate = Some(50_000.0)
        });
        let outcome = simulated::run(&job, &mut |_, _| true).expect("it runs");
        check(&job, &outcome);
        // 1200 gaps of 20 us on average.
        let rate = outcome.throughput();
        assert!((44_000.0..57_000.0).contains(&rate), "{access:?}: {rate}");
    }
}

/// Applies `change` after the load.
fn planted(
    access: Access,
    workload: Workload,
    change: impl FnOnce(&rackweave_endpoint::btree::Tree, super::records::Keys),
) -> Outcome {
    let job = job(access, workload, |options| {
        options.load.ycsb.distribution = Some(rackweave_workload::ycsb::Distribution::Uniform);
    });
    let rack = embedded::rack(&job).expect("it can be built");
    let loaded = Loaded::new(&rack, &job, &mut |_, _| true);
    let mut loaded = loaded.expect("it is loaded");
    let endpoint = rackweave_endpoint::index::EndpointId(0);
    let tree = loaded
        .index
        .index()
        .shard(endpoint)
        .expect("it runs")
        .tree()
        .clone();
    change(&tree, loaded.records.keys);
    let operated = loaded.operate(access, 1, &mut |_, _| true);
    operated.expect("it runs")
}

fn bytes(record: u64, version: u64) -> Vec<u8> {
    let mut bytes = vec![0; 104];
    write_record(&mut bytes, record, version, Stamp::default()).expect("it has a size");
    bytes
}

#[test]
fn what_is_wrong_is_noticed() {
    let reasons = |outcome: &Outcome| {
        let all = outcome.first_errors.iter();
        all.map(|error| (error.key, error.reason.clone()))
            .collect::<Vec<_>>()
    };
    for access in ACCESSES {
        for workload in [Workload::C, Workload::E, Workload::F] {
            // Another record's value, in every tenth place.
            let outcome = planted(access, workload, |tree, keys| {
                for record in (0..RECORDS).step_by(10) {
                    let key = keys.key(record);
                    assert_eq!(tree.update(key, &bytes(record + 1, 0)), Ok(true));
                }
            });
            assert!(!outcome.is_verified());
            // At the end all records are checked, except those that were overwritten.
            assert!(outcome.errors >= RECORDS / 20, "{}", outcome.errors);
            for (record, reason) in reasons(&outcome) {
                assert_eq!(record % 10, 0, "{reason}");
                assert!(reason.contains("says that it is record"), "{reason}");
            }
            let outcome = planted(access, workload, |tree, keys| {
                assert_eq!(tree.remove(keys.key(700)), Ok(true));
            });
            assert!(!outcome.is_verified());
            assert!(reasons(&outcome).iter().all(|(record, _)| *record == 700));
        }
        // A version that was never written, and a single wrong byte.
        let outcome = planted(access, Workload::C, |tree, keys| {
            assert_eq!(tree.update(keys.key(20), &bytes(20, 1)), Ok(true));
            let mut torn = bytes(30, 0);
            torn[50] ^= 1;
            assert_eq!(tree.update(keys.key(30), &torn), Ok(true));
        });
        let all = reasons(&outcome);
        assert!(all.iter().any(|(record, _)| *record == 20), "{all:?}");
        assert!(
            all.iter().any(|(_, reason)| reason.contains("torn")),
            "{all:?}"
        );
    }
}

#[test]
fn a_key_between_records_is_noticed_by_scans() {
    let outcome = planted(Access::Rpc, Workload::E, |tree, keys| {
        assert_eq!(tree.insert(keys.key(800) + 1, &bytes(800, 0)), Ok(true));
    });
    assert!(outcome.errors > 0);
    let first = &outcome.first_errors[0].reason;
    assert!(first.contains("which no record has"), "{first}");
}

#[test]
fn a_user_who_wants_an_end_gets_one() {
    for access in ACCESSES {
        let job = job(access, Workload::A, |options| {
            options.load.ycsb.operations = 1 << 30;
        });
        let mut looks = 0;
        let outcome = embedded_run(&job, &mut |phase, _| {
            looks += u32::from(phase == Phase::Run);
            looks < 3
        })
        .expect("it runs");
        assert!(outcome.interrupted && outcome.is_verified(), "{outcome:?}");
        let refused = embedded_run(&job, &mut |_, _| false);
        assert!(matches!(refused, Err(YcsbError::Interrupted)));
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refusal = |change: fn(&mut IndexOptions)| {
        let job = job(Access::Rpc, Workload::C, change);
        let refused = embedded_run(&job, &mut |_, _| true);
        refused.expect_err("it makes no sense").to_string()
    };
    type Change = fn(&mut IndexOptions);
    let cases: [(Change, &str); 9] = [
        (|o| o.load.threads = 0, "threads is 0"),
        (|o| o.load.depth = 257, "depth is 257"),
        (|o| o.server_threads = 65, "server threads is 65"),
        (|o| o.endpoints = 3, "endpoints is 3"),
        (|o| o.node_size = 700, "not 512, 1024, 2048 or 4096"),
        (|o| o.node_size = 64, "too small"),
        (|o| o.load.ycsb.record_size = 65_408, "65400 at most"),
        (|o| o.load.rate = Some(0.0), "rate of 0"),
        (|o| o.load.ycsb.records = 1 << 40, "2^32 units"),
    ];
    for (change, expected) in cases {
        let reported = refusal(change);
        assert!(reported.contains(expected), "{reported}");
    }
    let mut local = job(Access::Local, Workload::C, |o| o.endpoints = 2);
    assert!(matches!(
        embedded_run(&local, &mut |_, _| true),
        Err(YcsbError::OutOfRange { .. })
    ));
    local.options.access = Access::Rpc;
    local.nodes.dpu = None;
    assert!(matches!(
        simulated::run(&local, &mut |_, _| true),
        Err(YcsbError::NoDpu)
    ));
}

#[test]
fn the_longest_and_the_shortest_records_go() {
    for access in ACCESSES {
        for record_size in [32, options::RECORD_BYTES_MAX] {
            let job = job(access, Workload::A, |options| {
                options.load.ycsb.records = 40;
                options.load.ycsb.operations = 100;
                options.load.ycsb.record_size = record_size;
            });
            let outcome = embedded_run(&job, &mut |_, _| true).expect("it runs");
            check(&job, &outcome);
        }
    }
}
