//! Tables on storage nodes.

use super::command::{long_run, run_json};
use super::{END_LIMIT, check, children, divided, signal, stderr, stdout, wait_until_gone};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

#[test]
fn all_queries_over_storage_nodes_equal_one_process() {
    // Chunks so small that each storage node has several of a table.
    let storage = "--local 2 --storage 2 --chunk-rows 5000";
    let report = run_json(&format!(
        "--query all --check {storage} {}",
        divided("rackweave")
    ));
    let nodes = serde_json::json!(["storage0", "storage1"]);
    assert_eq!(report["storage_nodes"], nodes);
    let queries = report["queries"].as_array().unwrap();
    assert_eq!(queries.len(), 22);
    for query in queries {
        assert_eq!(query["check"]["single"], "equal", "{query}");
        let fetched = query["runs"][0]["fetched_bytes"].as_u64();
        assert!(fetched.is_some_and(|bytes| bytes > 0), "{query}");
    }
}

/// A decimal has 16 bytes, a key 8; what isn't read isn't fetched.
#[test]
fn queries_fetch_the_columns_that_they_read() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("columns.sql");
    let statements = "select sum(l_quantity) from lineitem; select sum(l_orderkey) from lineitem; \
                      select sum(l_orderkey), sum(l_quantity) from lineitem; \
                      select count(*) from lineitem";
    fs::write(&file, statements).unwrap();
    let options = "--local 2 --storage 2 --link udp";
    let report = run_json(&format!(
        "--query {} {options} {}",
        file.display(),
        divided("rackweave")
    ));
    let queries = report["queries"].as_array().unwrap();
    let fetched = queries
        .iter()
        .map(|query| query["runs"][0]["fetched_bytes"].as_u64().unwrap_or(0));
    let fetched: Vec<u64> = fetched.collect();
    let rows = 60_175;
    // Each column of a chunk ends at a multiple of 64 bytes.
    let near = |bytes: u64, expect: u64| (expect..expect + 4 * 64).contains(&bytes);
    assert!(near(fetched[0], 16 * rows), "{fetched:?}");
    assert!(near(fetched[1], 8 * rows), "{fetched:?}");
    assert_eq!(fetched[2], fetched[0] + fetched[1]);
    assert_eq!(fetched[3], 0);
}

#[test]
fn the_death_of_a_storage_node_is_reported() {
    let (mut run, processes) = long_run("rackweave", 2);
    // Between two queries it is started again before it is missed.
    let begun = Instant::now();
    while run.try_wait().unwrap().is_none() {
        assert!(begun.elapsed() < END_LIMIT, "no query met a dead process");
        let is_storage1 = |pid: &u32| {
            let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split('\0').any(|argument| argument == "storage1")
        };
        if let Some(pid) = children(run.id()).into_iter().find(is_storage1) {
            signal(pid, "KILL");
        }
        std::thread::sleep(Duration::from_millis(1500));
    }
    let output = run.wait_with_output().unwrap();
    let text = stdout(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let named = text.contains("the storage node storage1") && text.contains("ended with signal: 9");
    assert!(named, "{text}");
    wait_until_gone(&processes);
}

#[test]
fn storage_nodes_need_rackweave() {
    let arguments = format!("run --query 1 --storage 2 {}", divided("flight"));
    let text = stderr(&check(&arguments, 2));
    assert!(text.contains("use --transport rackweave"), "{text}");
}
