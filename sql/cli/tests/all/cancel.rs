//! Ctrl-C: what the processes hold before it and after it.

use super::{END_LIMIT, children, command, divided, signal, wait_until_gone};
use std::io::{BufRead, BufReader, Write as _};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Both sides of the join are shuffled, however small they are. It takes long, so that batches
/// wait; and it has rows to return, as the engine's join of many rows without a result does not
/// let its thread go.
const STATEMENTS: [&str; 3] = [
    "set datafusion.optimizer.hash_join_single_partition_threshold = 0",
    "set datafusion.optimizer.hash_join_single_partition_threshold_rows = 0",
    "select count(*) from lineitem a, lineitem b \
     where a.l_partkey = b.l_partkey and a.l_comment < b.l_comment",
];

/// Two workers, and batches of which several wait.
fn options() -> String {
    let divided = divided("rackweave");
    format!(
        "--local 2 --no-broadcast --batch-size 20 --worker-threads 4 --compression none {divided}"
    )
}

/// The numbers of streams, bytes and tasks before the cancel and after it, as the command printed
/// them: `Before: 14 streams, 1.5 MiB waiting, 8 tasks, ... After: 0 streams, 0 B waiting, ...`.
fn counters(line: &str) -> [Option<[f64; 3]>; 2] {
    let (before, after) = line.split_once("After: ").expect("it has both");
    let before = before.rsplit("Before: ").next().unwrap();
    [before, after].map(|text| {
        let numbers = text.split(", ").take(3);
        let numbers = numbers.map(|part| part.split(' ').next()?.parse().ok());
        numbers.collect::<Option<Vec<f64>>>()?.try_into().ok()
    })
}

/// Whether a query that ran for long enough was cancelled. Panics if something of it is left.
fn is_freed(line: &str) -> bool {
    let [before, after] = counters(line);
    assert_eq!(after, Some([0.0; 3]), "{line}");
    // A busy machine may not have answered in time.
    before.is_some_and(|before| before.iter().all(|&held| held > 0.0))
}

#[test]
fn nothing_is_left_of_a_query_of_the_shell() {
    let mut shell = command(&format!("shell {}", options()))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    writeln!(stdin, "select 'ready' as word;").unwrap();
    let is_ready = |line: std::io::Result<String>| line.is_ok_and(|line| line.contains("ready"));
    assert!(lines.any(is_ready), "the shell has its workers");
    let mut errors = BufReader::new(shell.stderr.take().unwrap()).lines();
    let mut wait = Duration::from_secs(1);
    // Twice: the session goes on.
    let mut freed = 0;
    while freed < 2 {
        assert!(wait < END_LIMIT, "no query ran for long enough");
        writeln!(stdin, "{};", STATEMENTS.join(";\n")).unwrap();
        std::thread::sleep(wait);
        signal(shell.id(), "INT");
        let line = errors.by_ref().map_while(Result::ok);
        let line = line.inspect(|line| eprintln!("{line}"));
        let line = line.take(10).find(|line| line.starts_with("cancelled. "));
        if is_freed(&line.expect("the counters are printed")) {
            freed += 1;
        } else {
            wait *= 2;
        }
    }
    let processes = children(shell.id());
    drop(stdin);
    shell.wait().unwrap();
    wait_until_gone(&processes);
}

#[test]
fn nothing_is_left_of_a_query_of_run() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("long.sql");
    std::fs::write(&file, STATEMENTS.join(";\n")).unwrap();
    let arguments = format!("run --query {} {}", file.display(), options());
    let mut wait = Duration::from_secs(1);
    loop {
        assert!(wait < END_LIMIT, "no query ran for long enough");
        let run = command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + END_LIMIT;
        while children(run.id()).len() < 3 {
            assert!(Instant::now() < deadline, "the workers did not start");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(wait);
        signal(run.id(), "INT");
        let output = run.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(130), "{text}");
        let line = text.lines().find(|line| line.starts_with("cancelled. "));
        // Before it has begun, there is nothing to cancel.
        if line.is_some_and(is_freed) {
            return;
        }
        wait *= 2;
    }
}
