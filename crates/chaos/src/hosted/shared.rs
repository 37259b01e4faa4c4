//! What the campaign and its programs have agreed on: names, files, sizes and numbers.

use super::journal::{FlowKind, Life};
use super::plan::PROGRAMS;
use rackweave_rack::RackConfig;
use rackweave_rack::config::Role;
use rackweave_rack::services::PageOptions;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name and the keys of the index. Half of them have values at first.
pub const INDEX: &str = "index";
pub const KEYS: u64 = 48;

/// Most bytes of a value.
pub const VALUE_MAX: u32 = 64;

/// Bytes of an item.
pub const ITEM_BYTES: u32 = 64;

/// Buffer frames of a node.
const FRAMES: u32 = 16;

/// Kinds of sequencers: in the switch, in a node's memory, in a server.
pub const SEQUENCERS: usize = 3;

/// The options of pages, at all programs.
pub fn page_options() -> PageOptions {
    PageOptions {
        frames: FRAMES,
        time_limit: Duration::from_secs(5),
        ..PageOptions::default()
    }
}

/// The files with the pages that the programs share, and with the flow that they are to use now.
pub const PAGES_FILE: &str = "pages";
pub const FLOW_FILE: &str = "flow";

/// What was published in a file.
///
/// # Errors
/// If nothing was, yet.
pub fn published<T: DeserializeOwned>(folder: &Path, name: &str) -> io::Result<T> {
    Ok(serde_json::from_slice(&std::fs::read(folder.join(name))?)?)
}

/// Writes a file for other processes, in one piece.
pub fn publish(folder: &Path, name: &str, what: &impl Serialize) {
    let (file, new) = (folder.join(name), folder.join(format!("{name}.new")));
    let bytes = serde_json::to_vec(what).expect("it has no odd keys");
    let written = std::fs::write(&new, bytes).and_then(|()| std::fs::rename(&new, &file));
    written.expect("the folder can be written");
}

/// The name of a sequencer of a kind. A later generation replaces one whose node has died.
pub fn sequencer_name(kind: usize, generation: u32) -> String {
    format!("sequencer-{kind}-{generation}")
}

/// Its number in journals.
pub fn sequencer_number(kind: usize, generation: u32) -> u32 {
    generation * SEQUENCERS as u32 + kind as u32
}

/// The flow that programs are to use.
#[derive(Serialize, Deserialize, Clone, Copy, Debug)]
pub struct FlowInUse {
    pub number: u32,
    pub kind: FlowKind,
    /// Whether it is the last one.
    pub is_last: bool,
}

/// Its name.
pub fn flow_name(number: u32) -> String {
    format!("flow-{number}")
}

/// The journal of a process.
pub fn journal_of(folder: &Path, life: Life) -> PathBuf {
    folder.join(format!("life-{life}.journal"))
}

/// The file by which a process reports that it has done its last piece of work.
pub fn done_file(folder: &Path, life: Life) -> PathBuf {
    folder.join(format!("life-{life}.done"))
}

/// The place of a program; the first one is the campaign's.
pub fn place_of(config: &RackConfig, program: u16) -> Option<&str> {
    let guests = config.nodes_of(Role::Guest);
    let place = guests.get(usize::from(program) + 1)?;
    Some(&config.node[usize::from(place.0)].name)
}

/// The numbers of all programs.
pub fn peers() -> impl Iterator<Item = u16> {
    0..PROGRAMS
}
