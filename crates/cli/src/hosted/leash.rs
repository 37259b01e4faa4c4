//! A child ends with its parent: its standard input is a pipe that closes when the parent ends,
//! however it ends.

use crate::interrupt::Interrupt;
use std::io::Read;
use std::time::Duration;

/// How long a process may take to end in good order once the pipe is closed.
const GRACE: Duration = Duration::from_secs(3);

/// Stops this process when standard input closes, and ends it forcibly if it does not stop.
pub fn hold(interrupt: &Interrupt) {
    let interrupt = interrupt.clone();
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut ignored = [0; 64];
        while matches!(input.read(&mut ignored), Ok(read) if read > 0) {}
        interrupt.set();
        std::thread::sleep(GRACE);
        std::process::exit(1);
    });
}
