//! For tests that need network interfaces of their own: a test that runs itself again, in a
//! process within a fresh network namespace, which takes its interfaces with it when it ends.

use std::fs;
use std::process::{Child, Command};

/// Set in the inner process.
const MARK: &str = "RACKWEAVE_TEST_NAMESPACE";

/// What a cable between two interfaces needs of the system.
pub(crate) const NEEDS_VETH: &str = "ip link add name probe type veth";

/// Runs `body` in a fresh network namespace, in a process of its own, after the commands of
/// `set_up`. `name` is the full name of the calling test. Says why and returns where the command
/// `needs` cannot be run in one.
pub(crate) fn within(name: &str, needs: &str, set_up: &[&str], body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    // As root, and else as root of a user namespace.
    let ways = [&["-n"][..], &["-U", "-r", "-n"]];
    let Some(way) = ways.iter().find(|way| run(way, needs).is_ok()) else {
        let why = run(ways[1], needs).unwrap_err();
        eprintln!("skipped: no network namespace with `{needs}`: {why}");
        return;
    };
    let program = std::env::current_exe().expect("a test knows its file");
    let program = program.display();
    let inner = format!("{MARK}=1 exec {program} --exact {name} --nocapture");
    let script = [set_up, &[&inner]].concat();
    let output = run(way, &script.join(" && "));
    let output = output.unwrap_or_else(|why| panic!("within a network namespace: {why}"));
    assert!(output.contains("1 passed"), "{name} is no test: {output}");
}

/// Runs a shell script in a fresh namespace; gives what it printed.
fn run(way: &[&str], script: &str) -> Result<String, String> {
    output(Command::new("unshare").args(way).args(["sh", "-c", script]))
}

fn output(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr) + &text(&output.stdout))
    }
}

/// A second network namespace within the first: another machine, as it were. It goes when this is
/// dropped.
pub(crate) struct OtherMachine(Child);

impl OtherMachine {
    pub(crate) fn new() -> Self {
        let child = Command::new("unshare").args(["-n", "sleep", "600"]).spawn();
        let other = Self(child.expect("unshare has worked before"));
        let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).unwrap();
        while namespace(&other.id()) == namespace("self") {
            std::thread::yield_now();
        }
        other
    }

    /// The process by which commands name the namespace.
    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Moves an interface of ours there.
    pub(crate) fn take(&self, interface: &str) {
        let arguments = ["link", "set", interface, "netns", &self.id()];
        let moved = output(Command::new("ip").args(arguments));
        moved.unwrap_or_else(|why| panic!("ip {}: {why}", arguments.join(" ")));
    }

    /// A command to be run there by the shell.
    pub(crate) fn command(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.id(), "-n", "bash", "-c", script]);
        command
    }

    /// Runs a command there and demands that it succeeds.
    pub(crate) fn run(&self, script: &str) {
        output(&mut self.command(script)).unwrap_or_else(|why| panic!("{script}: {why}"));
    }
}

impl Drop for OtherMachine {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}
