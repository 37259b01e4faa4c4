//! Ctrl-C, SIGTERM or SIGHUP: the first stops the command in good order, the second stops it at
//! once. A command with files to read again uses SIGHUP for that instead.

use crate::outcome::CliError;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants the command to stop. Clones share the flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<Flags>);

#[derive(Debug, Default)]
struct Flags {
    stop: AtomicBool,
    /// SIGHUP requests reading files again instead of stopping.
    reads_again: AtomicBool,
    read_again: AtomicBool,
}

impl Interrupt {
    /// Listens for signals from now on.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn install() -> Result<Self, CliError> {
        let failed = |error| CliError::run(format!("cannot listen for Ctrl-C: {error}"));
        let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
        let interrupt = Self::default();
        let flags = interrupt.0.clone();
        let listen = move || {
            for signal in signals.forever() {
                if signal == SIGHUP && flags.reads_again.load(Ordering::Relaxed) {
                    flags.read_again.store(true, Ordering::Relaxed);
                } else if flags.stop.swap(true, Ordering::Relaxed) {
                    std::process::exit(130);
                }
            }
        };
        let thread = std::thread::Builder::new().name("signals".into());
        thread.spawn(listen).map_err(failed)?;
        Ok(interrupt)
    }

    /// From now on SIGHUP requests that files are read again.
    pub fn read_again_at_hangup(&self) {
        self.0.reads_again.store(true, Ordering::Relaxed);
    }

    /// Whether files should be read again. Resets the request.
    pub fn take_read_again(&self) -> bool {
        self.0.read_again.swap(false, Ordering::Relaxed)
    }

    /// Whether the user wants the command to stop.
    pub fn is_set(&self) -> bool {
        self.0.stop.load(Ordering::Relaxed)
    }

    /// The flag itself, for code that is independent of commands.
    pub fn flag(&self) -> &AtomicBool {
        &self.0.stop
    }

    /// Asks the command to stop, as the user would.
    pub fn set(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}
