//! Code shared by several tests of the command.

use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Starts `command`, presses Ctrl-C after `pause`, and waits for its end.
pub fn interrupted(command: &mut Command, pause: Duration) -> Output {
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    std::thread::sleep(pause);
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(kill.expect("there is a kill").success());
    child.wait_with_output().expect("it ends")
}
