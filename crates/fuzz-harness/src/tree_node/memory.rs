//! The memory of a valid tree, and the changes that an input makes to it.

use crate::input::Input;
use rackweave_base::{Block, Memory};
use rackweave_endpoint::btree::{Tree, TreeConfig};
use rackweave_wire::fabric::tree::{
    CHECK_WORD, Image, Layout, META_WORD, Meta, NodePointer, RECORD_HEADER_WORDS, ROOT, Superblock,
    TREE_WORD, Value, ValueRef, check_of_entry, check_of_header, check_of_record, identity,
};
use std::sync::LazyLock;

pub const NODE_BYTES: usize = 512;
pub const VALUE_MAX: u32 = 100;
/// Number of keys of the valid tree: every third number.
const KEYS: u64 = 120;
const STEP: u64 = 3;
pub const LAST: u64 = 1000;
/// The tree before any change: its bytes, and the description that a remote reader is given.
pub struct Sound {
    pub bytes: Vec<u8>,
    pub superblock: Superblock,
    pub root: NodePointer,
    pub layout: Layout,
}

pub static SOUND: LazyLock<Sound> = LazyLock::new(|| {
    let config = TreeConfig {
        low: 0,
        last: LAST,
        tree: 0x7ee,
        ..TreeConfig::for_keys(KEYS, NODE_BYTES as u32, VALUE_MAX).with_fan_out(4)
    };
    let config = TreeConfig {
        heap_bytes: 32 << 10,
        ..config
    };
    let block = allocate(config.bytes() as usize);
    let tree = Tree::create(block.clone(), &config).expect("the configuration is sound");
    for key in 0..KEYS {
        let value = value_of(key * STEP);
        tree.insert(key * STEP, &value.expect("a key of the tree"))
            .expect("it fits");
    }
    assert!(
        tree.levels() > 2,
        "there are inner tree nodes below the root"
    );
    let mut bytes = vec![0; config.bytes() as usize];
    block.read(0, &mut bytes);
    let layout = tree.layout();
    let epoch = Meta::from_word(word(&bytes, NODE_BYTES + META_WORD * 8)).epoch;
    Sound {
        bytes,
        superblock: *tree.superblock(),
        root: NodePointer { index: ROOT, epoch },
        layout,
    }
});

/// The value of a key in the valid tree: in its leaf or in the heap.
pub fn value_of(key: u64) -> Option<Vec<u8>> {
    let len = match key / STEP % 4 {
        0 => 0,
        1 | 2 => 8,
        _ => (key % u64::from(VALUE_MAX)) as usize,
    };
    let there = key.is_multiple_of(STEP) && key < KEYS * STEP;
    there.then(|| vec![key as u8; len])
}

pub fn allocate(len: usize) -> Block {
    let memory = Memory::new(len.next_multiple_of(4096) + (1 << 20));
    memory.allocate(len).expect("the memory is large enough")
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |word| u64::from_le_bytes(*word))
}

fn set_word(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// Makes one change. Bits 0 to 2 of its first byte: which; bit 7: the check of the tree node or
/// record is corrected.
pub fn change(input: &mut Input<'_>, bytes: &mut [u8]) -> Option<()> {
    let what = input.byte()?;
    let nodes = SOUND.superblock.tree_nodes as usize;
    let node = input.below(nodes.min(256))?;
    let at = node * NODE_BYTES;
    match what & 7 {
        // Overwrites a word.
        0 => {
            let to = at + input.below(NODE_BYTES / 8)? * 8;
            let new = u64::from(input.word()?) | u64::from(input.word()?) << 32;
            set_word(bytes, to, new);
        }
        // Overwrites a byte of it.
        1 => {
            let to = at + usize::from(input.half()?) % NODE_BYTES;
            bytes[to] = input.byte()?;
        }
        // Overwrites a cache line with that of another tree node.
        2 => {
            let line = input.below(NODE_BYTES / 64)? * 64;
            let from = input.below(nodes.min(256))? * NODE_BYTES + line;
            bytes.copy_within(from..from + 64, at + line);
        }
        // Makes a word point to a tree node.
        3 => {
            let to = at + input.below(NODE_BYTES / 8)? * 8;
            let (index, epoch) = (u32::from(input.byte()?), u32::from(input.byte()?));
            set_word(bytes, to, NodePointer { index, epoch }.to_word());
        }
        // Overwrites arbitrary bytes from there on.
        4 => {
            let len = usize::from(input.byte()?);
            let new = input.bytes(len);
            bytes[at..at + new.len()].copy_from_slice(new);
        }
        // Writes a record for a key.
        5 => return record(input, bytes, what),
        // Changes the header by a small number.
        6 => {
            let to = at + (input.below(5)? + META_WORD) * 8;
            let by = i64::from(input.byte()? as i8);
            set_word(bytes, to, word(bytes, to).wrapping_add_signed(by));
        }
        // Overwrites the name of the tree node.
        _ => set_word(bytes, at + TREE_WORD * 8, identity(0x7ee, node as u32)),
    }
    if what & 0x80 != 0 {
        seal(bytes, node);
    }
    Some(())
}

fn record(input: &mut Input<'_>, bytes: &mut [u8], what: u8) -> Option<()> {
    let heap = SOUND.superblock.heap_at() as usize;
    let unit = input.byte()?;
    let key = u64::from(input.half()?);
    let reference = ValueRef {
        unit: u32::from(unit),
        length: u32::from(input.byte()?),
        incarnation: u32::from(input.byte()?) | 1,
    };
    let at = heap + reference.offset() as usize;
    let place = bytes.get_mut(at..at + reference.bytes())?;
    let first = u64::from(reference.incarnation) | u64::from(reference.length) << 32;
    let words: Vec<u64> = (RECORD_HEADER_WORDS..reference.words())
        .map(|at| word(place, at * 8))
        .collect();
    set_word(place, 0, first);
    set_word(place, 8, key);
    if what & 0x80 != 0 {
        set_word(place, 16, check_of_record(first, key, words.into_iter()));
    }
    Some(())
}

/// Corrects the check of a tree node, or that of the superblock.
fn seal(bytes: &mut [u8], node: usize) {
    let of_node = &mut bytes[node * NODE_BYTES..][..NODE_BYTES];
    if node == 0 {
        let superblock = Superblock {
            node_size: word(of_node, 8) as u32,
            tree_nodes: (word(of_node, 8) >> 32) as u32,
            heap_bytes: word(of_node, 16),
            value_max: word(of_node, 24) as u32,
            tree: word(of_node, 32),
            fan_out: word(of_node, 40) as u16,
        };
        for (at, word) in superblock.encode().into_iter().enumerate() {
            set_word(of_node, at * 8, word);
        }
        return;
    }
    let header: [u64; 5] = core::array::from_fn(|at| word(of_node, (META_WORD + at) * 8));
    let [meta, low, last, next, who] = header;
    let mut sum = check_of_header(node as u32, meta, low, last, next, who);
    let image = Image::unverified(SOUND.layout, of_node);
    for (key, value) in image.entries() {
        sum = sum.wrapping_add(match value {
            Value::Inline(word) => check_of_entry(key, word, false),
            Value::Reference(reference) => check_of_entry(key, reference.to_word(), true),
        });
    }
    set_word(of_node, CHECK_WORD * 8, sum);
}
