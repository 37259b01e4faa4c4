//! The folder for sockets and locks of running processes.
//!
//! Anything in it may be left over from a process that was killed: a lock ends with its process,
//! and a socket that no process listens on is replaced.

use super::HostedError;
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// The folder.
#[derive(Clone, Debug)]
pub(super) struct Runtime(PathBuf);

/// Held by the one switch process of its name of a folder. The system releases it when the process
/// ends, however it ends.
#[derive(Debug)]
pub(super) struct SwitchLock {
    _file: File,
}

fn unusable(path: &Path, error: io::Error) -> HostedError {
    HostedError::Directory {
        path: path.to_owned(),
        problem: error.to_string(),
        remedy: "set hosted.directory to a folder that this user can write to",
    }
}

impl Runtime {
    /// Creates the folder if needed, for this user alone.
    pub fn open(path: &Path) -> Result<Self, HostedError> {
        let failed = |error| unusable(path, error);
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(path)
            .map_err(failed)?;
        let metadata = path.metadata().map_err(failed)?;
        if metadata.uid() != rustix::process::getuid().as_raw() {
            return Err(HostedError::Directory {
                path: path.to_owned(),
                problem: "it belongs to another user".into(),
                remedy: "set hosted.directory to a folder of your own",
            });
        }
        if metadata.mode() & 0o077 != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(0o700)).map_err(failed)?;
        }
        Ok(Self(path.to_owned()))
    }

    /// The path of a file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The error if another switch runs with this folder.
    pub fn taken(&self) -> HostedError {
        HostedError::SwitchRuns {
            directory: self.0.clone(),
        }
    }

    /// Makes this process the folder's switch of this name.
    pub fn lock_switch(&self, name: &str) -> Result<SwitchLock, HostedError> {
        let path = self.path(&format!("{name}.lock"));
        let failed = |error| unusable(&path, error);
        let file = File::create(&path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(SwitchLock { _file: file }),
            Err(TryLockError::WouldBlock) => Err(self.taken()),
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// The socket at which nodes fetch their ends of shared-memory links from the switch whose
    /// sockets have this name.
    pub fn handover(&self, socket: &str) -> PathBuf {
        self.path(&format!("{socket}.sock"))
    }

    /// Listens at the socket of this name, at which nodes fetch their ends of shared-memory links.
    /// The lock shows that no other switch does, so an existing socket is left over.
    pub fn listen(&self, _lock: &SwitchLock, socket: &str) -> Result<UnixListener, HostedError> {
        let path = self.handover(socket);
        let _ = std::fs::remove_file(&path);
        let listen = || {
            let listener = UnixListener::bind(&path)?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        listen().map_err(|error: io::Error| HostedError::Directory {
            path: path.clone(),
            problem: error.to_string(),
            remedy: "set hosted.directory to a folder with a short name on a local disk",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_switch_per_folder_and_nothing_left_over_hinders() {
        let folder = std::env::temp_dir().join(format!("rackweave-runtime-{}", std::process::id()));
        let runtime = Runtime::open(&folder).unwrap();
        let lock = runtime.lock_switch("switch").unwrap();
        let error = runtime.lock_switch("switch").unwrap_err().to_string();
        assert!(error.contains("another switch"), "{error}");
        drop(runtime.listen(&lock, "switch").unwrap());
        // The socket file still exists, as after a kill.
        assert!(runtime.handover("switch").exists());
        drop(lock);
        let lock = runtime.lock_switch("switch").unwrap();
        runtime.listen(&lock, "switch").unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        Runtime::open(&folder).unwrap();
        assert_eq!(folder.metadata().unwrap().mode() & 0o777, 0o700);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
