//! A process in which a thread panics ends, so that its supervisor restarts it.

use super::*;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

/// Set in the environment of the process that is to panic.
const CHILD: &str = "RACKWEAVE_TEST_PANICS";

/// A job that panics while it holds the node's machine.
struct Clumsy;

impl Jobs for Clumsy {
    fn run(&self, _: &str, _: Value, job: &Job) -> Result<Value, String> {
        job.with_nic(|_| panic!("as the test has it"));
        Ok(Value::Null)
    }
}

#[test]
fn a_process_that_panics_ends() {
    if std::env::var_os(CHILD).is_some() {
        return panic_in_a_node();
    }
    let name = "hosted::tests::panics::a_process_that_panics_ends";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([name, "--exact"])
        .env(CHILD, "1")
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Time::from_secs(30);
    let ended = loop {
        match child.try_wait().unwrap() {
            None if Instant::now() < deadline => std::thread::sleep(Time::from_millis(10)),
            ended => break ended,
        }
    };
    let _ = child.kill();
    // A process that survives the panic of a thread runs until it is killed.
    let signal = ended.map(|status| status.signal());
    assert_eq!(signal, Some(Some(rustix::process::Signal::ABORT.as_raw())));
}

fn panic_in_a_node() {
    let rack = Rack::new("panics", LinkKind::Udp);
    while_running(run_switch(&rack), || {
        let node = NodeProcess::new(NodeOptions {
            config: rack.config.clone(),
            name: "a".into(),
            controllers: Vec::new(),
            serves_stores: false,
            waits_for_name: true,
            jobs: Arc::new(Clumsy),
        });
        let node = node.unwrap();
        while_running(
            move |stop| node.run(stop, &|_| {}).unwrap(),
            || {
                let mut client = HostedRack::connect(&rack.config).unwrap();
                eventually("the node joins", || {
                    client.status().unwrap().nodes[0].joined
                });
                client.start_job(NodeId(0), "any", Value::Null).unwrap();
                std::thread::sleep(Time::from_secs(60));
            },
        );
    });
}
