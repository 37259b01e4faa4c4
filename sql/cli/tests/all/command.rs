//! Queries over both transports, and the ends of processes.

use super::{
    END_LIMIT, TRANSPORTS, check, children, command, data, divided, signal, stderr, stdout,
    wait_until_gone,
};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

pub(crate) fn run_json(arguments: &str) -> Value {
    serde_json::from_str(&stdout(&check(
        &format!("run --format json {arguments}"),
        0,
    )))
    .unwrap()
}

#[test]
fn all_queries_over_flight_equal_one_process() {
    all_queries_equal_one_process("flight");
}

#[test]
fn all_queries_over_rackweave_equal_one_process() {
    all_queries_equal_one_process("rackweave");
    all_queries_equal_one_process("rackweave --link udp");
}

fn all_queries_equal_one_process(transport: &str) {
    let report = run_json(&format!(
        "--query all --check --local 2 {}",
        divided(transport)
    ));
    assert_eq!(
        (&report["workers"], &report["scale_factor"]),
        (&2.into(), &0.01.into())
    );
    let queries = report["queries"].as_array().unwrap();
    assert_eq!(queries.len(), 22);
    for query in queries {
        assert_eq!(query["check"]["single"], "equal", "{query}");
        let run = &query["runs"][0];
        assert!(
            run["exchange_bytes"]
                .as_u64()
                .is_some_and(|bytes| bytes > 0),
            "{query}"
        );
        assert!(
            run["seconds"].as_f64().is_some_and(|seconds| seconds > 0.0),
            "{query}"
        );
    }
    let cpu: f64 = queries
        .iter()
        .map(|query| query["runs"][0]["cpu_seconds"].as_f64().unwrap())
        .sum();
    assert!(cpu > 0.0);
}

#[test]
fn shuffled_joins_equal_one_process() {
    let options = "--query 5,9,21 --check --local 3 --no-broadcast --compression none";
    for transport in TRANSPORTS {
        let report = run_json(&format!(
            "{options} --batch-size 1000 {}",
            divided(transport)
        ));
        for query in report["queries"].as_array().unwrap() {
            assert_eq!(query["check"]["single"], "equal", "{transport}: {query}");
        }
    }
}

#[test]
fn explain_shows_stages_and_compare_finds_equal_plans() {
    let plan = stdout(&check(
        &format!("explain --query 3 --local 2 {}", divided("flight")),
        0,
    ));
    assert!(plan.contains("q03") && plan.contains("Stage 1"), "{plan}");
    let data = data();
    let arguments = format!(
        "compare --transports rackweave,flight --query 1,6 --repeat 2 --warm-up 0 --data {data} \
         --bytes-per-partition 1 --partitions 2 --format json"
    );
    let report: Value = serde_json::from_str(&stdout(&check(&arguments, 0))).unwrap();
    let queries = report["queries"].as_array().unwrap();
    assert_eq!(queries.len(), 2);
    for query in queries {
        assert_eq!(query["plans_equal"], true);
        for runs in query["runs"].as_array().unwrap() {
            assert_eq!(runs.as_array().unwrap().len(), 2);
        }
    }
    let text = stdout(&check(&arguments.replace(" --format json", ""), 0));
    assert!(
        text.contains("rackweave/flight") && text.contains("total"),
        "{text}"
    );
}

#[test]
fn a_file_prints_its_rows() {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("count.sql");
    fs::write(
        &file,
        "select count(*) as n from lineitem; select 'a;b' as text",
    )
    .unwrap();
    let arguments = format!("run --query {} {}", file.display(), divided("single"));
    let text = stdout(&check(&arguments, 0));
    assert!(text.contains("60175") && text.contains("a;b"), "{text}");
    assert!(text.contains("count.sql:2"), "{text}");
}

#[test]
fn errors_have_an_exit_status_and_say_what_to_do() {
    let data = data();
    let failing = Path::new(env!("CARGO_TARGET_TMPDIR")).join("failing.sql");
    fs::write(&failing, "select no_such_column from lineitem").unwrap();
    let failing = failing.display();
    let check = |arguments: &str, status: i32, expect: &str| {
        let text = stderr(&check(arguments, status));
        assert!(text.contains(expect), "{arguments}: {text}");
    };
    check("run --query 1 --data /no/such/directory", 2, "tpch gen");
    check(
        &format!("run --query 99 --transport single --data {data}"),
        2,
        "numbers from 1 to 22",
    );
    check(
        &format!("run --query {failing} --transport single --data {data}"),
        1,
        "failing.sql",
    );
    check("run --query 1 --transport pigeon", 2, "possible values");
    check(
        "worker --transport flight --listen 192.0.2.1:1",
        2,
        "cannot listen on 192.0.2.1:1",
    );
    let unreachable = "--transport flight --workers http://127.0.0.1:1";
    check(
        &format!("run --query 1 {unreachable} --data {data}"),
        2,
        "rackweave-sql worker",
    );
}

#[test]
fn workers_that_run_already_are_used() {
    let mut worker = command("worker --transport flight --threads 2")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    BufReader::new(worker.stdout.take().unwrap())
        .read_line(&mut url)
        .unwrap();
    let options = format!(
        "--query 1 --check --workers {} {}",
        url.trim(),
        divided("flight")
    );
    let report = run_json(&options);
    assert_eq!(report["workers"], 1);
    signal(worker.id(), "TERM");
    assert!(worker.wait().unwrap().success());
}

#[test]
fn the_shell_reads_statements_of_several_lines() {
    let mut shell = command(&format!("shell --local 2 {}", divided("flight")))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let text = "select count(*) as n\nfrom orders;\nselect broken;\nselect 'last' as word";
    shell
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let output = shell.wait_with_output().unwrap();
    let text = stdout(&output);
    assert!(text.contains("15000") && text.contains("last"), "{text}");
    assert!(stderr(&output).contains("broken"), "{}", stderr(&output));
    assert_eq!(output.status.code(), Some(1));
}

/// A command that runs for long, and its processes.
pub(crate) fn long_run(transport: &str, storage: usize) -> (std::process::Child, Vec<u32>) {
    let arguments = format!(
        "run --query 1 --repeat 1000000 --local 2 --storage {storage} {}",
        divided(transport)
    );
    let command = command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + END_LIMIT;
    let processes = storage + if transport == "flight" { 2 } else { 3 };
    let mut workers = Vec::new();
    while workers.len() < processes {
        assert!(Instant::now() < deadline, "the workers did not start");
        std::thread::sleep(Duration::from_millis(10));
        workers = children(command.id());
    }
    // The queries begin after the last worker is ready.
    std::thread::sleep(Duration::from_millis(700));
    (command, workers)
}

/// One of the processes, by an argument.
fn with_argument(processes: &[u32], argument: &str) -> u32 {
    let has = |pid: &&u32| {
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split('\0').any(|found| found == argument)
    };
    *processes.iter().find(has).expect("it runs")
}

#[test]
fn interrupting_a_run_ends_its_workers() {
    for transport in TRANSPORTS {
        let (run, workers) = long_run(transport, 0);
        signal(run.id(), "INT");
        let output = run.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{transport}");
        let text = stderr(&output);
        assert!(text.contains("interrupted"), "{transport}: {text}");
        wait_until_gone(&workers);
    }
}

#[test]
fn killing_a_run_ends_its_workers() {
    for transport in TRANSPORTS {
        let (mut run, workers) = long_run(transport, 0);
        signal(run.id(), "KILL");
        assert_eq!(run.wait().unwrap().code(), None);
        wait_until_gone(&workers);
    }
}

#[test]
fn the_death_of_a_worker_is_reported() {
    for transport in TRANSPORTS {
        let (run, workers) = long_run(transport, 0);
        let worker = with_argument(&workers, "worker");
        let killed = Instant::now();
        signal(worker, "KILL");
        let output = run.wait_with_output().unwrap();
        let text = stdout(&output);
        assert_eq!(output.status.code(), Some(1), "{transport}: {text}");
        assert!(killed.elapsed() < END_LIMIT, "{transport}");
        let named = text.contains("worker") && text.contains("ended with signal: 9");
        assert!(named, "{transport}: {text}");
        wait_until_gone(&workers);
    }
}

/// Processes of a rack are started again, so the next query is answered.
#[test]
fn the_shell_goes_on_after_the_death_of_processes() {
    let arguments = format!("shell --local 2 --storage 1 {}", divided("rackweave"));
    let mut shell = command(&arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let mut lines = BufReader::new(shell.stdout.take().unwrap()).lines();
    // The second statement is answered in any case, and ends the answer to the first.
    let query = "select count(*) from lineitem, orders where l_orderkey = o_orderkey;";
    let mut ask = || {
        writeln!(stdin, "{query}\nselect 'that was' as all;").unwrap();
        let is_last = |line: &String| line.contains("that was");
        let answer = lines.by_ref().map_while(Result::ok);
        let answer: Vec<_> = answer.take_while(|line| !is_last(line)).collect();
        answer.join("\n").contains("60175")
    };
    assert!(ask());
    for argument in ["switch", "worker", "storage"] {
        signal(with_argument(&children(shell.id()), argument), "KILL");
        // A query that meets a connection to the process that died fails, and finds it broken.
        let killed = Instant::now();
        while !ask() {
            assert!(
                killed.elapsed() < END_LIMIT,
                "after the death of a {argument}"
            );
        }
    }
    drop(stdin);
    wait_until_gone(&children(shell.id()));
    shell.wait().unwrap();
}
