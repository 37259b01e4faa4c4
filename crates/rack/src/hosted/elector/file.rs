//! Election by a lock on a file, for switch processes on one machine.
//!
//! The system releases the lock when the leader's process ends, however it ends. So a leader leads
//! until then, also if it is stopped for long. The file holds the epoch of the last leader.

use super::{Elector, ElectorError, Part};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often a process that does not lead tries to lock the file.
const CAMPAIGN_EVERY: Duration = Duration::from_millis(20);

/// A lock and a state in a folder.
#[derive(Debug)]
pub struct FileElector {
    lock: PathBuf,
    state: PathBuf,
    /// The locked file, while this process leads.
    held: Mutex<Option<File>>,
}

/// FNV-1a: it protects against damage, not against attacks.
fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl FileElector {
    /// An elector with the files `leader.lock` and `controller.state` in a folder.
    pub fn new(folder: &Path) -> Self {
        Self {
            lock: folder.join("leader.lock"),
            state: folder.join("controller.state"),
            held: Mutex::new(None),
        }
    }

    fn failed(path: &Path, error: &io::Error) -> ElectorError {
        ElectorError::Failed(format!("{}: {error}", path.display()))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let aside = self.state.with_extension("new");
        let mut file = File::create(&aside)?;
        writeln!(file, "{:016x}", checksum(text))?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        std::fs::rename(aside, &self.state)
    }
}

/// The epoch in the lock's file, increased by one.
fn next_epoch(file: &mut File) -> io::Result<u64> {
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    let last: u64 = match text.trim() {
        // A new file.
        "" => 0,
        text => text.parse().map_err(io::Error::other)?,
    };
    let epoch = last + 1;
    file.rewind()?;
    writeln!(file, "{epoch}")?;
    file.sync_data()?;
    Ok(epoch)
}

impl Elector for FileElector {
    fn campaign_every(&self) -> Duration {
        CAMPAIGN_EVERY
    }

    fn campaign(&self) -> Result<Option<u64>, ElectorError> {
        let mut options = File::options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let failed = |error: io::Error| Self::failed(&self.lock, &error);
        let mut file = options.open(&self.lock).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        let epoch = next_epoch(&mut file).map_err(failed)?;
        *self.held.lock().expect("no holder panics") = Some(file);
        Ok(Some(epoch))
    }

    fn renew(&self) -> Result<Option<Instant>, ElectorError> {
        Ok(None)
    }

    fn load(&self) -> Result<BTreeMap<String, String>, ElectorError> {
        let text = match std::fs::read_to_string(&self.state) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
            Err(error) => return Err(Self::failed(&self.state, &error)),
        };
        let damaged = || ElectorError::Failed(format!("{} is damaged", self.state.display()));
        let (sum, text) = text.split_once('\n').ok_or_else(damaged)?;
        if sum != format!("{:016x}", checksum(text)) {
            return Err(damaged());
        }
        let part = |line: &str| Some(line.split_once(' ')?).map(|(a, b)| (a.into(), b.into()));
        text.lines()
            .map(|line| part(line).ok_or_else(damaged))
            .collect()
    }

    fn store(&self, parts: &[Part<'_>]) -> Result<(), ElectorError> {
        let mut text = String::new();
        for part in parts {
            writeln!(text, "{} {}", part.name, part.text).expect("a text grows");
        }
        self.replace(&text).map_err(|error| {
            // An outdated state would hand out numbers twice.
            let removed = std::fs::remove_file(&self.state);
            let left = removed.is_err_and(|error| error.kind() != io::ErrorKind::NotFound);
            assert!(
                !left,
                "an outdated state can neither be replaced nor removed: {error}"
            );
            Self::failed(&self.state, &error)
        })
    }

    fn resign(&self) {
        *self.held.lock().expect("no holder panics") = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leads_at_a_time_and_epochs_rise() {
        let folder = std::env::temp_dir().join(format!("rackweave-elector-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [first, second] = [(); 2].map(|()| FileElector::new(&folder));
        assert_eq!(first.campaign(), Ok(Some(1)));
        assert_eq!(second.campaign(), Ok(None));
        assert_eq!(first.load(), Ok(BTreeMap::new()));
        let part = |name, text| Part {
            name,
            text,
            is_stored: false,
        };
        first.store(&[part("a", "x y"), part("b", "")]).unwrap();
        first.resign();
        assert_eq!(second.campaign(), Ok(Some(2)));
        let both = [("a", "x y"), ("b", "")].map(|(name, text)| (name.into(), text.into()));
        assert_eq!(second.load(), Ok(BTreeMap::from(both)));
        drop(second);
        assert_eq!(first.campaign(), Ok(Some(3)));
        let mut text = std::fs::read_to_string(folder.join("controller.state")).unwrap();
        text.push_str("c d\n");
        std::fs::write(folder.join("controller.state"), text).unwrap();
        let error = first.load().unwrap_err().to_string();
        assert!(error.contains("damaged"), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
