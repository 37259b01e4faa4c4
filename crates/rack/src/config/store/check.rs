//! Rules for stores.

use super::super::check::{ConfigError, is_name, one_line, rule, within};
use super::super::nearest::hint;
use super::super::{RackConfig, Role};
use super::{Medium, StoreConfig};
use rackweave_wire::fabric::page::is_page_size;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

impl StoreConfig {
    fn check(&self, smallest: u32) -> Result<(), ConfigError> {
        let (bytes, page_size) = (self.bytes, self.page_size(smallest));
        let fits = is_page_size(page_size) && page_size >= smallest;
        let range = "a power of two from switch.page_size to 1048576 is needed: lower \
                     switch.page_size, which is the smallest page size of the rack";
        rule(fits, "store.page_size", page_size, range)?;
        let whole = bytes > 0 && bytes.is_multiple_of(page_size.into());
        let needed = "a multiple of its page size is needed, at least one page";
        rule(whole, "store.bytes", bytes, needed)?;
        let fits = i64::try_from(bytes).is_ok();
        let most = "at most 2^63 - 1 bytes are possible";
        rule(fits, "store.bytes", bytes, most)?;
        within("store.drives", self.drives, 1..=64, "1 to 64 are possible")?;
        if let (Medium::Memory, Some(said)) = (self.medium, self.double_write) {
            let only = "only the medium \"file\" has it; remove it, or say medium = \"file\"";
            rule(false, "store.double_write", said, only)?;
        }
        match (self.medium, &self.path) {
            (Medium::File, None) => Err(ConfigError::NoStorePath(self.name.clone())),
            (Medium::Memory, Some(path)) => rule(
                false,
                "store.path",
                path.display(),
                "only the medium \"file\" has one; remove it, or say medium = \"file\"",
            ),
            _ => Ok(()),
        }
    }
}

impl RackConfig {
    /// Bytes of the largest page of its stores.
    pub fn page_size_max(&self) -> u32 {
        let smallest = self.switch.page_size;
        let sizes = self.store.iter().map(|store| store.page_size(smallest));
        sizes.max().unwrap_or(smallest)
    }

    pub(in crate::config) fn check_stores(&self) -> Result<(), ConfigError> {
        let mut names = BTreeSet::new();
        let mut files = BTreeSet::new();
        for store in &self.store {
            if !names.insert(&store.name) {
                return Err(ConfigError::DuplicateStore(store.name.clone()));
            }
            let good = is_name(&store.name);
            let allowed = "letters, digits, - and _ are allowed";
            rule(good, "store.name", &store.name, allowed)?;
            self.check_store_node(&store.name, &store.node)?;
            store.check(self.switch.page_size)?;
            if let Some(path) = &store.path
                && !files.insert(plain(path))
            {
                return Err(ConfigError::SharedFile {
                    store: store.name.clone(),
                    path: one_line(&path.display().to_string()),
                });
            }
        }
        let (stores, sizes) = (self.store.len(), &self.switch);
        let fits = sizes.page_entries == 0 || stores <= usize::from(sizes.page_stores);
        let raise = "more [[store]] are there than the page directory has room for; raise it";
        rule(fits, "switch.page_stores", sizes.page_stores, raise)
    }

    fn check_store_node(&self, store: &str, name: &str) -> Result<(), ConfigError> {
        let (store, node) = (store.to_owned(), name.to_owned());
        let Some(found) = self.node.iter().find(|node| node.name == name) else {
            let known: Vec<_> = self.node.iter().map(|node| &*node.name).collect();
            let hint = hint(name, &known, "nodes");
            return Err(ConfigError::StoreNode { store, node, hint });
        };
        if found.role == Role::Storage {
            return Ok(());
        }
        let storage = self.node.iter().filter(|node| node.role == Role::Storage);
        let storage: Vec<_> = storage.map(|node| &*node.name).collect();
        let storage = match storage[..] {
            [] => "there is none yet".to_owned(),
            _ => storage.join(", "),
        };
        let role = found.role.name();
        Err(ConfigError::StoreRole {
            store,
            node,
            role,
            storage,
        })
    }
}

/// A path without `.`, so that two spellings of one file compare equal. Links are detected only
/// when files are opened.
fn plain(path: &Path) -> PathBuf {
    let parts = path.components().filter(|part| *part != Component::CurDir);
    parts.collect()
}
