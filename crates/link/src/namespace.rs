//! For tests that need their own network interfaces: such a test runs itself again in a process in
//! a new network namespace, whose interfaces disappear when that process ends.

use std::fs;
use std::process::{Child, Command};

/// Set in the inner process.
const MARK: &str = "RACKWEAVE_TEST_NAMESPACE";

/// The command that checks for what a cable between two interfaces needs.
pub(crate) const NEEDS_VETH: &str = "ip link add name probe type veth";

/// Runs `body` in a new network namespace, in a separate process, after the commands of `set_up`.
/// `name` is the full name of the calling test. If the command `needs` cannot be run in such a
/// namespace, prints the reason and returns.
pub(crate) fn within(name: &str, needs: &str, set_up: &[&str], body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    // As root, otherwise as root of a user namespace.
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

/// Runs a shell script in a new namespace and returns its output.
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

/// A second network namespace within the first: in effect another machine. It is removed when this
/// is dropped.
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

    /// The process id by which commands refer to the namespace.
    fn id(&self) -> String {
        self.0.id().to_string()
    }

    /// Moves an interface of this namespace there.
    pub(crate) fn take(&self, interface: &str) {
        let arguments = ["link", "set", interface, "netns", &self.id()];
        let moved = output(Command::new("ip").args(arguments));
        moved.unwrap_or_else(|why| panic!("ip {}: {why}", arguments.join(" ")));
    }

    /// A command for the shell to run there.
    pub(crate) fn command(&self, script: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.id(), "-n", "bash", "-c", script]);
        command
    }

    /// Runs a command there and asserts that it succeeds.
    pub(crate) fn run(&self, script: &str) {
        output(&mut self.command(script)).unwrap_or_else(|why| panic!("{script}: {why}"));
    }
}

impl Drop for OtherMachine {
    fn drop(&mut self) {
        let _ended = self.0.kill().and_then(|()| self.0.wait());
    }
}
