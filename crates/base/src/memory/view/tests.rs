//! Views: bounds, parts, comparisons, writes.

use crate::Memory;

#[test]
fn what_one_view_writes_another_reads() {
    let block = Memory::new(1 << 16).allocate(200).unwrap();
    let mut write = block.bytes_mut(8, 100);
    write.fill(1);
    write.slice(40..).fill(2);
    write.write(97, b"end");
    for (number, mut chunk) in write.chunks_exact(10).enumerate().take(3) {
        chunk.write(0, &[number as u8 + 10; 2]);
    }
    let read = block.bytes(0, 200);
    assert_eq!(read.slice(..8), [0; 8]);
    assert_eq!(read.slice(8..12), [10, 10, 1, 1]);
    assert_eq!(read.slice(28..=30), [12, 12, 1]);
    assert_eq!(read.slice(47..49), [1, 2]);
    assert_eq!(read.array(104), *b"\x02end\0");
    assert_eq!(read.slice(8..).chunks_exact(100).len(), 1);
    assert_eq!(read.slice(46..54).u64_le(0), 0x0202_0202_0202_0101);
    let mut bytes = b"x".to_vec();
    read.slice(105..108).append_to(&mut bytes);
    assert_eq!(bytes, b"xend");
    assert_ne!(read.slice(..70).to_vec(), vec![0; 70]);
    assert!(read.slice(..70) != vec![0; 70][..] && read.slice(..70) == read.to_vec()[..70]);
}

#[test]
fn overlapping_views_are_copied_as_if_by_way_of_a_buffer() {
    let block = Memory::new(1 << 16).allocate(64).unwrap();
    block.write(0, b"0123456789");
    block.bytes_mut(3, 10).copy_from_shared(block.bytes(0, 10));
    assert_eq!(block.bytes(0, 13), *b"0120123456789");
}

#[test]
#[should_panic(expected = "bytes 5..9 of a view of 8 bytes")]
fn a_view_ends_where_it_ends() {
    let block = Memory::new(1 << 16).allocate(64).unwrap();
    block.bytes(0, 8).slice(5..9);
}

#[test]
#[should_panic(expected = "2 bytes at 7 of a view of 8 bytes")]
fn a_write_ends_where_the_view_ends() {
    let block = Memory::new(1 << 16).allocate(64).unwrap();
    block.bytes_mut(0, 8).write(7, &[1, 2]);
}
