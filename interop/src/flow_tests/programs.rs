//! What people measure RDMA with, between the two guests: the switch forwards what is for neither
//! it nor a flow, connections by the connection manager and unreliable datagrams among it.

use super::rack::Rack;
use crate::failure::{Failure, FailureContext, Outcome, expect_eq};
use crate::guest::{self, Guest};
use crate::guest_node::GuestNode;
use crate::suite::Suite;
use std::thread;
use std::time::{Duration, Instant};

/// Name, arguments of both ends, and further ones of the client before the server's address.
/// perftest connects by the connection manager (`-R`) and does not look at the processor's
/// frequency (`-F`).
const PROGRAMS: [(&str, &str, &str); 7] = [
    ("rping", "-V -C 50 -S 9001", "-c -a"),
    ("ib_send_bw", "-R -F -n 100 -s 65536 -m 4096", ""),
    ("ib_write_bw", "-R -F -n 100 -s 65536 -m 4096", ""),
    ("ib_read_bw", "-R -F -n 100 -s 65536 -m 4096", ""),
    ("ib_write_lat", "-R -F -n 200 -s 8", ""),
    ("ib_atomic_bw", "-R -F -n 200", ""),
    ("ib_send_lat", "-c UD -R -F -n 200 -s 1024", ""),
];

/// How long a client tries to reach its server, and how long it takes then.
const PATIENCE: Duration = Duration::from_secs(10);
const SECONDS: u32 = 30;

/// Runs all of them: the server in the first guest, the client in the second.
pub fn run(suite: &mut Suite, rack: &Rack, guests: &[Guest; 2]) {
    for (program, both, client) in PROGRAMS {
        suite.run(&format!("switch forwards {program} {both}"), || {
            one(rack, guests, program, both, client)
        });
    }
}

fn one(rack: &Rack, guests: &[Guest; 2], program: &str, both: &str, client: &str) -> Outcome {
    let mut nodes = [guests[0].node()?, guests[1].node()?];
    let address = guest::ip(guests[0].id);
    let side = match program {
        "rping" => format!("-s -a {address}"),
        _ => String::new(),
    };
    let before = rack.site.forwarded();
    let deadline = Instant::now() + PATIENCE;
    let (server, text) = loop {
        let server = start(&mut nodes[0], &format!("{program} {both} {side}"))?;
        thread::sleep(Duration::from_millis(200));
        let client = start(
            &mut nodes[1],
            &format!("{program} {both} {client} {address}"),
        )?;
        let (status, text) = end(&mut nodes[1], client)?;
        if status == 0 {
            break (server, text);
        }
        // perftest connects twice, and its client does not wait until its server listens anew. The
        // server then waits for the second connection of a client that has gone.
        nodes[0].ask(&format!("kill {server}"))?;
        if Instant::now() > deadline {
            let failure = format!("the client ended with {status}: {text}");
            return Err(Failure::Wrong(failure));
        }
    };
    // rping's server ends with an error when its client has left.
    let (status, output) = end(&mut nodes[0], server)?;
    if program != "rping" {
        expect_eq("the server's status", status, 0).at(output)?;
    }
    let forwarded = rack.site.forwarded() - before;
    print_results(&text, forwarded);
    Ok(())
}

fn start(node: &mut GuestNode, command: &str) -> Outcome<u64> {
    node.ask(format!("spawn {command}").trim_end())?
        .number("job")
}

fn end(node: &mut GuestNode, job: u64) -> Outcome<(u64, String)> {
    let ended = node.ask(&format!("wait {job} {SECONDS}"))?;
    Ok((ended.number("status")?, ended.words("output")?))
}

/// The table that perftest prints: its head and its row.
fn print_results(text: &str, forwarded: u64) {
    let table = text.lines().skip_while(|line| !line.contains("#bytes"));
    for line in table.take_while(|line| !line.starts_with('-')) {
        println!("      {}", line.trim().replace('\t', " "));
    }
    println!("      {forwarded} packets through the switch");
}
