//! The test `pages`: the cost and the throughput of the page directory, each result beside a
//! yardstick of the same run.
//!
//! - a *hit*: a shared fix of a page in the node's own pool, with a latch check at the switch, or
//!   by a lease;
//! - pages from another node's memory, compared with memcpy, and by the switch's directory compared
//!   with the one in a server's memory;
//! - pages from a file by the switch, compared with the same file by the same kernel queue;
//! - pages written to the file by that queue, once or with double writes.
//!
//! A running rack has its own directory, page size and stores: see [`joined`].

mod joined;
mod measure;
mod rig;

use super::test_run::TestRun;
use crate::measure::ratio;
use crate::outcome::CliError;
use measure::Hits;
use rackweave_target::IoKind;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Bytes of the file that pages are read from.
const FILE_BYTES: u64 = 1 << 30;

/// Page sizes: the smallest, where the directory's own cost counts most, and the paper's.
const SIZES: [u32; 2] = [4 << 10, 64 << 10];

/// A file that is removed when this is dropped.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.0);
    }
}

impl Scratch {
    /// A file of random bytes, so that no file system stores it as a hole.
    fn new(bytes: u64) -> Result<Self, CliError> {
        use std::io::Write as _;
        let name = format!("rackweave-perf-pages-{}", std::process::id());
        let scratch = Self(std::env::temp_dir().join(name));
        let failed = |error| CliError::run(format!("{}: {error}", scratch.0.display()));
        let mut file = std::fs::File::create_new(&scratch.0).map_err(failed)?;
        let mut rng = rackweave_base::Rng::new(1);
        let mut chunk = vec![0; 1 << 20];
        for _ in 0..bytes >> 20 {
            for word in chunk.chunks_exact_mut(8) {
                word.copy_from_slice(&rng.next_u64().to_le_bytes());
            }
            file.write_all(&chunk).map_err(failed)?;
        }
        file.sync_all().map_err(failed)?;
        Ok(scratch)
    }
}

/// Runs the test.
///
/// # Errors
/// If the rack cannot be built or the temporary folder has no space for a file of 1 GiB.
pub fn measure(test: &mut TestRun<'_>) -> Result<Value, CliError> {
    let (args, globals) = (test.args, test.globals);
    let config = test.config.clone();
    let bench = measure::Bench {
        config: &config,
        globals,
        depth: args.tx_depth.unwrap_or(16).clamp(1, 128),
        span: test.part(8.0, 8),
    };
    if test.is_hosted() {
        return joined::measure(test, &bench);
    }
    test.steps = 9;
    let phase = |what: &str| globals.live.phase(what);
    phase("pages that are here already");
    let hits = bench.hits_alone(SIZES[1])?;
    test.step(true);
    let mut memory = Vec::new();
    for page_bytes in SIZES {
        let mut measure = |indexed| -> Result<f64, CliError> {
            let by = if indexed { "switch" } else { "server" };
            phase(&format!(
                "pages of {page_bytes} bytes from memory, by the {by}"
            ));
            let rate = bench.rate_from_memory(page_bytes, indexed)?;
            test.step(rate.all_from_there);
            Ok(rate.pages_per_s)
        };
        let (switch, server) = (measure(true)?, measure(false)?);
        memory.push(of_memory(page_bytes, switch, Some(server)));
    }
    let scratch = Scratch::new(FILE_BYTES)?;
    test.step(true);
    let page_bytes = SIZES[1];
    let file = measure::File {
        path: &scratch.0,
        doubles: args.double_write,
    };
    let read = bench.by_queue(page_bytes, file.open()?, IoKind::Read)?;
    test.step(true);
    phase("pages from storage, by the switch");
    let by_switch = bench.rate_from_storage(page_bytes, file)?;
    test.step(by_switch.all_from_there);
    phase("pages written to the file");
    let written = bench.by_queue(page_bytes, file.open()?, IoKind::Write)?;
    test.step(true);
    Ok(json!({
        "depth": bench.depth,
        "hit": of_hits(&hits[0]),
        "leased_hit": of_hits(&hits[1]),
        "memory": memory,
        "storage": {
            "page_bytes": page_bytes,
            "pages_per_s": by_switch.pages_per_s,
            "file_pages_per_s": read,
            "to_file": ratio(by_switch.pages_per_s, read),
            "double_write": args.double_write,
            "file_pages_written_per_s": written,
        },
    }))
}

fn of_hits(hits: &Hits) -> Value {
    json!({
        "samples": hits.histogram.len(),
        "p50_ns": hits.histogram.value_at_quantile(0.5),
        "p99_ns": hits.histogram.value_at_quantile(0.99),
        "fixes": hits.fixes,
        "by_lease": hits.leased,
    })
}

/// Pages per second from another node's memory, by the switch and by a server, beside memcpy.
fn of_memory(page_bytes: u32, switch: f64, server: Option<f64>) -> Value {
    let bytes = switch * f64::from(page_bytes);
    let memcpy = crate::measure::memcpy_bandwidth(64 << 20, page_bytes as usize);
    json!({
        "page_bytes": page_bytes,
        "switch_pages_per_s": switch,
        "switch_gigabytes_per_s": bytes / 1e9,
        "server_pages_per_s": server,
        "switch_to_server": server.map(|server| ratio(switch, server)),
        "memcpy_gigabytes_per_s": memcpy / 1e9,
        "switch_to_memcpy": ratio(bytes, memcpy),
    })
}
