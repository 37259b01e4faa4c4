//! The arena: references that outlive their blocks, ranges, limits, words.

use super::*;

#[test]
fn a_reference_outlives_its_block_harmlessly() {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(100).unwrap();
    block.write(10, b"hello");
    let reference = block.reference(10, 5).unwrap();
    let mut bytes = [0; 5];
    assert!(memory.read(reference, &mut bytes));
    assert_eq!(&bytes, b"hello");
    drop(block);
    assert!(!memory.read(reference, &mut bytes));
    // The bytes are reused, zeroed, and the old reference stays invalid.
    let again = memory.allocate(100).unwrap();
    assert_eq!(memory.bytes_held(), 4096);
    assert!(!memory.write(reference, b"world"));
    again.read(10, &mut bytes);
    assert_eq!(bytes, [0; 5]);
}

#[test]
fn a_block_that_goes_while_it_is_read_was_not_read() {
    let memory = Memory::new(1 << 16);
    let block = memory.allocate(64).unwrap();
    let reference = block.reference(0, 64).unwrap();
    assert!(memory.with_source(reference, |_| {}));
    let mut next = None;
    let read = memory.with_source(reference, |_| {
        drop(block);
        next = Some(memory.allocate(64).unwrap());
    });
    assert!(!read, "what was read is of the block that came after");
    let reference = next.as_ref().unwrap().reference(0, 64).unwrap();
    assert!(memory.with_source(reference, |_| {}));
}

#[test]
fn ranges_are_checked() {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(16).unwrap();
    assert!(block.reference(8, 8).is_some());
    assert!(block.reference(9, 8).is_none());
    assert!(block.reference(u64::MAX, 8).is_none());
    assert!(
        memory
            .update_word(block.reference(4, 8).unwrap(), Some)
            .is_none(),
        "unaligned"
    );
}

#[test]
fn the_limit_is_kept() {
    let memory = Memory::new(8192);
    let _one = memory.allocate(4097).unwrap();
    assert_eq!(
        memory.allocate(1).unwrap_err(),
        MemoryError::LimitReached {
            asked: 1,
            left: 0,
            limit: 8192
        }
    );
    assert_eq!(memory.allocate(0).unwrap_err(), MemoryError::Empty);
}

#[test]
fn words_are_updated_in_place() {
    let memory = Memory::new(1 << 20);
    let block = memory.allocate(64).unwrap();
    let word = block.reference(8, 8).unwrap();
    assert_eq!(memory.update_word(word, |old| Some(old + 5)), Some(0));
    assert_eq!(
        memory.update_word(word, |_| None),
        Some(5),
        "a refused update changes nothing"
    );
    assert_eq!(block.word(8).load(Ordering::Relaxed), 5);
}
