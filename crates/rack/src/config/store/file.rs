//! Stores in files and block devices.

use super::{BLOCK, StoreConfig, StoreError};
use rackweave_base::Instant;
use rackweave_target::{Backend, DoubleWrite, FileBackend, FileError, FileOptions, Io, IoDone};
use rustix::fs::{FlockOperation, OFlags};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

impl StoreConfig {
    pub(super) fn open_file(&self, path: &Path) -> Result<Box<dyn Backend>, StoreError> {
        let blocks = self.file_bytes() / u64::from(BLOCK);
        let options = FileOptions::default();
        if !path.exists() {
            self.check_room(path)?;
            match FileBackend::create(path, BLOCK, blocks, &options) {
                // Another process was faster: its file is checked like any other.
                Ok(_) | Err(FileError::Exists(_)) => {}
                Err(error) => return Err(self.refused(path, error)),
            }
        }
        let lock = self.lock(path)?;
        let file = FileBackend::open(path, BLOCK, Some(blocks), &options);
        let file = file.map_err(|error| self.refused(path, error))?;
        let backend: Box<dyn Backend> = match self.doubles().value {
            true => Box::new(DoubleWrite::new(file).expect("the file has more than the area")),
            false => Box::new(file),
        };
        Ok(Box::new(Held {
            backend,
            _lock: lock,
        }))
    }

    /// Whether the file system has space for the full size of the file. Space is not allocated
    /// before it is written, and others may use it up meanwhile: this detects a mistyped size.
    fn check_room(&self, path: &Path) -> Result<(), StoreError> {
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        // A problem with the folder is reported when the file is created.
        let Ok(file_system) = rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) else {
            return Ok(());
        };
        let free = file_system.f_bavail.saturating_mul(file_system.f_frsize);
        let bytes = self.file_bytes();
        if free >= bytes {
            return Ok(());
        }
        Err(StoreError::NoRoom {
            store: self.name.clone(),
            path: path.to_owned(),
            bytes,
            free,
        })
    }

    /// Opens an existing file for this rack alone, and checks its size.
    fn lock(&self, path: &Path) -> Result<File, StoreError> {
        let examine = |action| move |source| self.refused_to(action, path, source);
        let is_device = std::fs::metadata(path).is_ok_and(|it| it.file_type().is_block_device());
        // For a block device this means: fail if it is mounted (open(2)).
        let flags = if is_device {
            OFlags::EXCL
        } else {
            OFlags::empty()
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let mut file = options
            .custom_flags(flags.bits() as i32)
            .open(path)
            .map_err(examine("open"))?;
        let in_use = || StoreError::InUse {
            store: self.name.clone(),
            path: path.to_owned(),
        };
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(in_use()),
            Err(error) => return Err(examine("lock")(error.into())),
        }
        // A block device's status has no length, so its end is found by seeking.
        let found = file
            .seek(io::SeekFrom::End(0))
            .map_err(examine("measure"))?;
        let found = self.fit_area(path, &file, (found, is_device))?;
        let expected = self.file_bytes();
        if found == expected || (is_device && found > expected) {
            return Ok(file);
        }
        Err(StoreError::Size {
            store: self.name.clone(),
            path: path.to_owned(),
            expected: self.bytes,
            found,
        })
    }

    pub(super) fn refused(&self, path: &Path, error: FileError) -> StoreError {
        let (store, path) = (self.name.clone(), path.to_owned());
        let FileError::System { source, .. } = &error else {
            return StoreError::File { store, error };
        };
        match source.kind() {
            io::ErrorKind::PermissionDenied => StoreError::Denied { store, path },
            io::ErrorKind::ResourceBusy => StoreError::InUse { store, path },
            _ => StoreError::File { store, error },
        }
    }
}

/// A file that is locked against being opened as a store elsewhere.
struct Held {
    backend: Box<dyn Backend>,
    /// Releases the lock when dropped.
    _lock: File,
}

impl Backend for Held {
    fn block_size(&self) -> u32 {
        self.backend.block_size()
    }

    fn blocks(&self) -> u64 {
        self.backend.blocks()
    }

    fn atomic_blocks(&self) -> u32 {
        self.backend.atomic_blocks()
    }

    fn submit(&mut self, now: Instant, io: Io) -> Result<(), Io> {
        self.backend.submit(now, io)
    }

    fn poll(&mut self, now: Instant, done: &mut Vec<IoDone>) {
        self.backend.poll(now, done);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.backend.poll_timeout()
    }
}
