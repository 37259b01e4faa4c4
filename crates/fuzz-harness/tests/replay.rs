//! Every input of the checked-in corpora, and mutations of them.
//!
//! The corpora are in `fuzz/corpus/TARGET`. A failing mutation prints its seed, and writes its
//! input to a file that `cargo xtask fuzz` accepts. `RACKWEAVE_FUZZ_SEED=N` runs that one alone,
//! `RACKWEAVE_FUZZ_WRITE=1` writes the initial inputs into the corpora.

use rackweave_base::Rng;
use rackweave_fuzz_harness::{TARGETS, Target};
use std::path::{Path, PathBuf};
use std::{env, fs, panic};

/// Mutated inputs per target.
const MUTATIONS: u64 = 4_000;
const INPUT_MAX: usize = 4096;

fn corpus_of(target: &Target) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target.name)
}

/// The inputs of a corpus by file name, in its order.
fn corpus(target: &Target) -> Vec<(String, Vec<u8>)> {
    let folder = corpus_of(target);
    let entries = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|entry| entry.expect("a folder that can be read").path());
    let mut inputs: Vec<_> = entries
        .map(|path| {
            let name = path.file_name().expect("a file").to_string_lossy();
            (
                name.into_owned(),
                fs::read(&path).expect("a file that can be read"),
            )
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    inputs
}

/// Runs one input; names it if it fails.
fn run(target: &Target, what: &str, input: &[u8]) {
    if let Err(cause) = panic::catch_unwind(|| (target.run)(input)) {
        let file = env::temp_dir().join(format!("rackweave-{}-failed", target.name));
        fs::write(&file, input).expect("the folder of temporary files can be written to");
        eprintln!(
            "target {}, {what}: input written to {}",
            target.name,
            file.display()
        );
        panic::resume_unwind(cause);
    }
}

fn mutate(rng: &mut Rng, inputs: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut input = rng.pick(inputs).1.clone();
    for _ in 0..rng.between(1, 6) {
        let at = rng.below(input.len() as u64 + 1) as usize;
        match rng.below(6) {
            0 if at < input.len() => input[at] ^= 1 << rng.below(8),
            1 if at < input.len() => input[at] = rng.next_u32() as u8,
            2 => input.insert(at, rng.next_u32() as u8),
            3 if at < input.len() => drop(input.remove(at)),
            4 => input.truncate(at),
            _ => {
                let other = &rng.pick(inputs).1;
                let from = rng.below(other.len() as u64 + 1) as usize;
                let len = rng.below(64) as usize;
                let part = other[from..].iter().take(len).copied();
                input.splice(at..at, part);
            }
        }
    }
    input.truncate(INPUT_MAX);
    input
}

fn check(name: &str) {
    let target = TARGETS
        .into_iter()
        .find(|target| target.name == name)
        .expect("a target of that name");
    if env::var_os("RACKWEAVE_FUZZ_WRITE").is_some() {
        fs::create_dir_all(corpus_of(&target)).expect("a folder that can be made");
        for (name, input) in (target.seeds)() {
            fs::write(corpus_of(&target).join(name), input).expect("a file that can be written");
        }
    }
    let inputs = corpus(&target);
    for (name, input) in &inputs {
        run(&target, name, input);
    }
    let only = env::var("RACKWEAVE_FUZZ_SEED").ok();
    let seeds = match only.map(|seed| seed.parse().expect("RACKWEAVE_FUZZ_SEED is a number")) {
        Some(seed) => seed..seed + 1,
        None => 0..MUTATIONS,
    };
    for seed in seeds {
        let input = mutate(&mut Rng::new(seed), &inputs);
        run(&target, &format!("RACKWEAVE_FUZZ_SEED={seed}"), &input);
    }
}

#[test]
fn parse() {
    check("parse");
}

#[test]
fn nic() {
    check("nic");
}

#[test]
fn nic_ops() {
    check("nic_ops");
}

#[test]
fn switch() {
    check("switch");
}

#[test]
fn programs() {
    check("programs");
}

#[test]
fn handshake() {
    check("handshake");
}

#[test]
fn tree_node() {
    check("tree_node");
}

#[test]
fn rpc() {
    check("rpc");
}

#[test]
fn superblock() {
    check("superblock");
}

#[test]
fn config() {
    check("config");
}

#[test]
fn nvme() {
    check("nvme");
}

#[test]
fn control() {
    check("control");
}

#[test]
fn shared_memory() {
    check("shared_memory");
}

#[test]
fn index() {
    check("index");
}

#[test]
fn messaging() {
    check("messaging");
}

#[test]
fn ask() {
    check("ask");
}

#[test]
fn connections() {
    check("connections");
}

/// The corpora contain their initial inputs, so that they can be recreated from nothing.
#[test]
fn the_starting_inputs_are_in_the_corpora() {
    for target in TARGETS {
        let inputs = corpus(&target);
        for seed in (target.seeds)() {
            assert!(
                inputs.contains(&seed),
                "{}/{} is missing or differs; RACKWEAVE_FUZZ_WRITE=1 writes it",
                target.name,
                seed.0
            );
        }
    }
}
