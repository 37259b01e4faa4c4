//! Ctrl-C, SIGTERM or SIGHUP: the first asks the command to stop in an orderly way, the second
//! stops it at once.

use crate::outcome::CliError;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the user wants the command to stop. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for Ctrl-C from now on.
    ///
    /// # Errors
    /// If the system does not allow it.
    pub fn install() -> Result<Self, CliError> {
        let interrupt = Self::default();
        let flag = interrupt.0.clone();
        ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(130);
            }
        })
        .map_err(|error| CliError::run(format!("cannot listen for Ctrl-C: {error}")))?;
        Ok(interrupt)
    }

    /// Whether the user wants the command to stop.
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The same, for those who know no commands.
    pub fn flag(&self) -> &AtomicBool {
        &self.0
    }

    /// Asks the command to stop, as the user would.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
