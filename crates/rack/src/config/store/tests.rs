//! Stores are made, opened, locked, and refused with the cause.

use super::*;
use crate::config::RackConfig;
use rackweave_base::{Instant, Memory};
use rackweave_target::{Io, IoKind, RegionRange};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

const PAGE: u32 = 16_384;

/// A folder of this test, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rackweave-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn store(&self, file: &str, pages: u64) -> StoreConfig {
        let bytes = pages * u64::from(PAGE);
        StoreConfig::in_file("orders", "storage0", self.0.join(file), bytes)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn refused(store: &StoreConfig) -> StoreError {
    match store.open(PAGE) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

#[test]
fn a_file_is_made_opened_again_and_kept_for_one() {
    let folder = Folder::new("store-file");
    let store = folder.store("a.pages", 8);
    let first = store.open(PAGE).unwrap();
    assert_eq!(u64::from(first.block_size()) * first.blocks(), store.bytes);
    assert_eq!(store.pages(PAGE), 8);
    let error = refused(&store);
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    // Also through another name.
    let link = folder.0.join("b.pages");
    std::os::unix::fs::symlink(folder.0.join("a.pages"), &link).unwrap();
    let error = refused(&folder.store("b.pages", 8));
    assert!(matches!(error, StoreError::InUse { .. }), "{error}");
    drop(first);
    assert!(store.open(PAGE).is_ok(), "whoever had it let it go");
    let len = std::fs::metadata(folder.0.join("a.pages")).unwrap().len();
    assert_eq!(len, store.bytes + area::AREA_BYTES);
}

/// Runs one request over block 1 of a store.
fn run(backend: &mut dyn Backend, kind: IoKind, byte: u8) -> Vec<u8> {
    let memory = Memory::new(1 << 16).allocate(BLOCK as usize).unwrap();
    memory.write(0, &vec![byte; BLOCK as usize]);
    let mut io = Io {
        tag: 1,
        kind,
        block: 1,
        blocks: 1,
        buffer: Some(RegionRange {
            block: memory.clone(),
            offset: 0,
        }),
    };
    let mut done = Vec::new();
    while let Err(refused) = backend.submit(Instant::ZERO, io) {
        io = refused;
        backend.poll(Instant::ZERO, &mut done);
    }
    while done.is_empty() {
        backend.poll(Instant::ZERO, &mut done);
    }
    assert_eq!(done[0].result, Ok(()));
    let mut bytes = vec![0; BLOCK as usize];
    memory.read(0, &mut bytes);
    bytes
}

#[test]
fn the_area_of_double_writes_comes_and_goes() {
    let folder = Folder::new("store-area");
    let path = folder.0.join("a.pages");
    let len = || std::fs::metadata(&path).unwrap().len();
    let doubled = folder.store("a.pages", 8);
    let single = StoreConfig {
        double_write: Some(false),
        ..doubled.clone()
    };
    run(&mut *single.open(PAGE).unwrap(), IoKind::Write, 1);
    assert_eq!(len(), single.bytes);
    // It is extended, and its contents are preserved.
    let mut backend = doubled.open(PAGE).unwrap();
    assert_eq!(run(&mut *backend, IoKind::Read, 0), [1; BLOCK as usize]);
    run(&mut *backend, IoKind::Write, 2);
    assert_eq!(backend.blocks(), 8 * u64::from(PAGE / BLOCK));
    drop(backend);
    assert_eq!(len(), doubled.bytes + area::AREA_BYTES);
    // A write that a power failure interrupted is completed before the area is removed.
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[9; 512], u64::from(BLOCK)).unwrap();
    let mut backend = single.open(PAGE).unwrap();
    assert_eq!(len(), single.bytes);
    assert_eq!(run(&mut *backend, IoKind::Read, 0), [2; BLOCK as usize]);
    run(&mut *backend, IoKind::Write, 3);
    drop(backend);
    // The area's old contents do not come back.
    let mut backend = doubled.open(PAGE).unwrap();
    assert_eq!(run(&mut *backend, IoKind::Read, 0), [3; BLOCK as usize]);
}

#[test]
fn a_file_of_another_size_is_left_alone() {
    let folder = Folder::new("store-size");
    let path = folder.0.join("a.pages");
    for found in [0, u64::from(PAGE), 9 * u64::from(PAGE)] {
        std::fs::File::create(&path)
            .unwrap()
            .set_len(found)
            .unwrap();
        let error = refused(&folder.store("a.pages", 8));
        match &error {
            StoreError::Size {
                found: len,
                expected,
                ..
            } => {
                assert_eq!((*len, *expected), (found, 8 * u64::from(PAGE)));
            }
            other => panic!("{other}"),
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), found);
        assert!(error.to_string().contains("store \"orders\""), "{error}");
    }
}

#[test]
fn what_cannot_be_a_store_is_told() {
    let folder = Folder::new("store-bad");
    // More than the capacity of any file system today.
    let error = refused(&folder.store("huge", 1 << 46));
    assert!(matches!(error, StoreError::NoRoom { .. }), "{error}");
    assert!(!folder.0.join("huge").exists(), "nothing is left behind");
    let error = refused(&folder.store("no/such/folder", 8));
    assert!(matches!(error, StoreError::File { .. }), "{error}");
    std::fs::create_dir(folder.0.join("folder")).unwrap();
    let error = refused(&folder.store("folder", 8));
    assert!(matches!(error, StoreError::File { .. }), "{error}");
    let error = refused(&StoreConfig {
        path: None,
        ..folder.store("x", 8)
    });
    assert!(matches!(error, StoreError::NoPath(_)), "{error}");
    let crooked = StoreConfig::in_memory("m", "storage0", u64::from(PAGE) + 1);
    let error = refused(&crooked);
    assert!(matches!(error, StoreError::Pages { .. }), "{error}");
    let memory = StoreConfig::in_memory("m", "storage0", u64::from(PAGE));
    assert!(memory.open(5000).is_err(), "no such page size");
}

#[test]
fn what_this_user_may_not_read_is_told() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new("store-denied");
    let store = folder.store("a.pages", 8);
    drop(store.open(PAGE).unwrap());
    let path = folder.0.join("a.pages");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    match store.open(PAGE) {
        Err(error) => assert!(matches!(error, StoreError::Denied { .. }), "{error}"),
        // The superuser has all permissions.
        Ok(_) => assert!(rustix::process::geteuid().is_root()),
    }
}

#[test]
fn memory_and_modelled_drives_have_the_same_blocks() {
    let store = StoreConfig::in_memory("m", "storage0", 8 * u64::from(PAGE));
    let real = store.open(PAGE).unwrap();
    let modelled = store.open_simulated(PAGE, &mut Rng::new(1)).unwrap();
    assert_eq!(real.blocks(), modelled.blocks());
    assert_eq!(real.block_size(), modelled.block_size());
}

#[test]
fn paths_are_meant_from_the_file_and_survive_the_text() {
    let folder = Folder::new("store-paths");
    let text = "[[store]]\nname = 's'\nnode = 'storage0'\nmedium = 'file'\npath = 's.pages'\n\
                bytes = 65536\n";
    let path = folder.0.join("rack.toml");
    std::fs::write(&path, text).unwrap();
    let config = RackConfig::read(&path).unwrap();
    let expected = folder.0.join("s.pages");
    assert_eq!(config.store[0].path.as_deref(), Some(&*expected));
    assert_eq!(
        RackConfig::parse(&config.to_toml(), "again").unwrap(),
        config
    );
    assert_eq!(
        config.node_named("storage0"),
        Some(rackweave_base::NodeId(0))
    );
    assert_eq!(config.node_named("storage9"), None);
    // The path is local to each process; the existence of the store is not.
    let other = RackConfig::parse(&text.replace("s.pages", "t.pages"), "t").unwrap();
    assert_eq!(config.agreement(), other.agreement());
    assert_ne!(config.agreement(), RackConfig::default().agreement());
    let text = RackConfig::default().to_toml();
    assert!(!text.contains("[[store]]"), "left out");
}
