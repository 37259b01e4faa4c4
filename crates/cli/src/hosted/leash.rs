//! A child ends with the one who started it: its standard input is a pipe that closes when that
//! process ends, however it ends.

use crate::interrupt::Interrupt;
use std::io::Read;
use std::time::Duration;

/// How long a process may take to end in good order once nobody holds the pipe any more.
const GRACE: Duration = Duration::from_secs(3);

/// Asks this process to stop when standard input closes, and ends it if it does not.
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
