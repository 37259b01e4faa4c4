//! The key-value engine of `examples/kv.rs` is killed with SIGKILL at random moments and never
//! loses a committed change.
//!
//! The victim is this test's own program, which runs only [`victim`]: it opens the engine, compares
//! all values with what the transactions so far must have left, and continues with random ones at
//! both nodes. It prints each committed transaction on its standard output. Transaction `n` of a
//! seed is always the same and writes `n`, so the values identify the last one.
//!
//! A kill seldom cuts a page write in two, so the test also does that itself, between two victims.

use crate::examples::kv::{KEYS, Kv};
use rackweave::pages::PAGE_HEADER_LEN;
use rackweave_base::Rng;
use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const FOLDER: &str = "RACKWEAVE_KV_FOLDER";
const SEED: &str = "RACKWEAVE_KV_SEED";
const KILLS: &str = "RACKWEAVE_KV_KILLS";
const KILLS_DEFAULT: u64 = 40;

/// Keys in use, spread over all pages: few enough that transactions conflict.
const KEYS_USED: u64 = 500;
/// Average number of transactions between checkpoints.
const CHECKPOINT_EVERY: u64 = 100;
/// Maximum time from recovery to the kill.
const LIFE_MAX: Duration = Duration::from_millis(150);
/// Time limit for recovery.
const PATIENCE: Duration = Duration::from_secs(60);
const SIGKILL: i32 = 9;
const PAGE_BYTES: usize = 4096;

/// Transaction `number`: its node and the values that it sets.
fn transaction(seed: u64, number: u64) -> (usize, BTreeMap<u64, u64>) {
    let mut rng = Rng::new(seed).fork(&number.to_string());
    let node = rng.below(2) as usize;
    let keys = 0..rng.between(1, 5);
    let key = |_| rng.below(KEYS_USED) * (KEYS / KEYS_USED);
    (node, keys.map(key).map(|key| (key, number)).collect())
}

/// Checks that the values are those after some transaction, and returns its number.
fn verify(kv: &mut Kv, seed: u64) -> u64 {
    let mut found = BTreeMap::new();
    for key in (0..KEYS_USED).map(|at| at * (KEYS / KEYS_USED)) {
        let value = kv
            .get(key as usize % 2, key)
            .expect("a page that can be read");
        found.extend((value > 0).then_some((key, value)));
    }
    let last = found.values().copied().max().unwrap_or(0);
    let mut expected = BTreeMap::new();
    for number in 1..=last {
        expected.extend(transaction(seed, number).1);
    }
    assert!(
        found == expected,
        "not as after transaction {last}: {found:?}"
    );
    last
}

/// Not a test: the process that is killed.
#[test]
#[ignore = "started by the test below"]
fn victim() {
    let (Some(folder), Ok(seed)) = (env::var_os(FOLDER), env::var(SEED)) else {
        return;
    };
    let seed = seed.parse().expect("a number");
    let mut kv = open(Path::new(&folder));
    let mut last = verify(&mut kv, seed);
    println!("\nrecovered {last}");
    let mut rng = Rng::new(seed).fork("checkpoints").fork(&last.to_string());
    loop {
        last += 1;
        let (node, puts) = transaction(seed, last);
        kv.commit(node, &puts).expect("a transaction");
        println!("committed {last}");
        let (key, _) = puts
            .first_key_value()
            .expect("a transaction changes something");
        let seen = kv.get(1 - node, *key).expect("a page that can be read");
        assert_eq!(seen, last, "what the other node sees");
        if rng.below(CHECKPOINT_EVERY) == 0 {
            kv.checkpoint().expect("a checkpoint");
        }
    }
}

/// The operating system may still be finishing writes of a killed process; until then the file is
/// in use.
fn open(folder: &Path) -> Kv {
    let began = Instant::now();
    loop {
        match Kv::open(folder) {
            Ok(kv) => return kv,
            Err(error) if began.elapsed() < PATIENCE && error.to_string().contains("in use") => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

/// Overwrites half of a page that the engine may have been writing home, one that its log has in
/// full. Returns false if there is none.
fn tear_a_page(folder: &Path, rng: &mut Rng) -> bool {
    let log = std::fs::read(folder.join("log")).expect("the log");
    let word = |at: usize| {
        let word = log.get(at..at + 8)?.try_into().ok()?;
        Some(u64::from_le_bytes(word) as usize)
    };
    let (mut pages, mut at) = (Vec::new(), 0);
    // Record: length, checksum, changes. Change: LSN, page, offset, length, data.
    while let Some(end) = word(at)
        .map(|len| at + 16 + len)
        .filter(|end| *end <= log.len())
    {
        at += 16;
        while at < end {
            let (page, len) = (
                word(at + 8).expect("a page"),
                word(at + 24).expect("its bytes"),
            );
            at += 32 + len;
            pages.extend((len == PAGE_BYTES - PAGE_HEADER_LEN).then_some(page));
        }
    }
    if pages.is_empty() {
        return false;
    }
    let half = PAGE_BYTES / 2 * rng.below(2) as usize;
    let at = *rng.pick(&pages) * PAGE_BYTES + half;
    let path = folder.join("pages");
    let file = std::fs::File::options().write(true).open(path);
    let file = file.expect("the store");
    let written = file.write_all_at(&[0xa5; PAGE_BYTES / 2], at as u64);
    // The engine bypasses the page cache and must not meet a write that is still cached.
    let done = written.and_then(|()| file.sync_all());
    done.expect("half a page");
    true
}

/// A process that is killed on drop, and its output.
struct Victim {
    process: Child,
    said: Receiver<(bool, u64)>,
}

impl Victim {
    fn start(folder: &Path, seed: u64) -> Self {
        let mut process = Command::new(env::current_exe().expect("this program"))
            .args(["--exact", "kv_kill::victim", "--ignored", "--nocapture"])
            .env(FOLDER, folder)
            .env(SEED, seed.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let (say, said) = channel();
        let output = BufReader::new(process.stdout.take().expect("its standard output"));
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let number = |what| line.strip_prefix(what).and_then(|rest| rest.parse().ok());
                let recovered = number("recovered ").map(|number| (true, number));
                let said = recovered.or(number("committed ").map(|number| (false, number)));
                let _ended = said.map(|said| say.send(said));
            }
        });
        Self { process, said }
    }

    /// The transaction recovered, once recovery is complete.
    fn recovered(&mut self) -> Option<u64> {
        let (is_recovered, number) = self.said.recv_timeout(PATIENCE).ok()?;
        assert!(is_recovered, "a transaction before it has recovered");
        Some(number)
    }

    /// Kills it. Returns the transaction recovered, if not reported before, and the last committed
    /// transaction.
    fn kill(mut self) -> (Option<u64>, Option<u64>) {
        let _unless_it_ended = self.process.kill();
        let status = self.process.wait().expect("its end");
        assert_eq!(
            status.signal(),
            Some(SIGKILL),
            "it ended by itself: {status}"
        );
        let (mut recovered, mut committed) = (None, None);
        for (is_recovered, number) in self.said.iter() {
            *(if is_recovered {
                &mut recovered
            } else {
                &mut committed
            }) = Some(number);
        }
        (recovered, committed)
    }
}

impl Drop for Victim {
    fn drop(&mut self) {
        let _ended = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let name = format!("rackweave-kv-kill-{}", std::process::id());
        let folder = env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn number(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(text.parse().expect("a number in the environment"))
}

#[test]
fn what_was_committed_outlives_every_kill() {
    let seed = number(SEED).unwrap_or_else(|| RandomState::new().hash_one(0) % 1_000_000);
    let kills = number(KILLS).unwrap_or(KILLS_DEFAULT);
    println!("{SEED}={seed} {KILLS}={kills} cargo test -p rackweave --test all kv_kill");
    let folder = Folder::new();
    let mut rng = Rng::new(seed).fork("kills");
    let mut victim = Victim::start(&folder.0, seed);
    assert_eq!(victim.recovered(), Some(0), "a new engine is empty");
    let (mut committed, mut early, mut torn) = (0, 0, 0);
    let mut began = Duration::from_millis(100);
    for kill in 0..kills {
        // One kill in four comes at any moment from the start, most likely during recovery.
        let is_early = kill > 0 && rng.chance(0.25);
        let mut recovered = None;
        if is_early {
            std::thread::sleep(part_of(began, &mut rng));
        } else {
            if kill > 0 {
                let at = Instant::now();
                recovered = Some(victim.recovered().expect("it did not recover"));
                began = at.elapsed();
            }
            std::thread::sleep(part_of(LIFE_MAX, &mut rng));
        }
        let (heard, last) = victim.kill();
        if let Some(found) = recovered.or(heard) {
            let next = committed + 1;
            assert!(
                found >= committed,
                "kill {kill}: {committed} was committed, {found} is there"
            );
            assert!(
                found <= next,
                "kill {kill}: {found} is there, nobody has begun it"
            );
            committed = found;
        } else {
            early += 1;
        }
        committed = last.unwrap_or(committed);
        torn += u64::from(rng.chance(0.3) && tear_a_page(&folder.0, &mut rng));
        victim = Victim::start(&folder.0, seed);
    }
    let found = victim.recovered().expect("it did not recover");
    assert!(
        found == committed || found == committed + 1,
        "{committed} committed, {found} there"
    );
    drop(victim);
    println!(
        "{kills} kills, {early} of them in recovery, and {torn} torn pages; {committed} \
         transactions, none missing"
    );
}

fn part_of(span: Duration, rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.below(span.as_micros() as u64 + 1))
}
