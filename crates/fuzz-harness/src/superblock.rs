//! Parses page 0 of a page store, and the header of any page, from arbitrary bytes.

use crate::fixture::Seeds;
use rackweave_base::checksum::checksum;
use rackweave_endpoint::page_store::{StoreLayout, Superblock, Unfit};
use rackweave_wire::fabric::page::{HEADER_LEN, PageHeader, PageId, is_page_size};

/// Bytes of a superblock that its checksum covers, according to the format.
const LEN: usize = 64;
/// Offset of the reserved words, which must be zero and which no reader uses.
const RESERVED: usize = 48;

/// Bit 0 of the first byte: the checksum is corrected. The next eight bytes are the number of a
/// page. The rest is the content of page 0 after its header.
///
/// # Panics
/// If the parser or the layout is wrong.
pub fn superblock(data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    let Some((number, rest)) = rest.split_first_chunk() else {
        return;
    };
    let number = u64::from_le_bytes(*number);
    page_header(rest);
    let mut bytes = rest.to_vec();
    if choice & 1 != 0
        && let Some((head, behind)) = bytes.split_at_mut_checked(LEN)
        && let Some(sum) = behind.first_chunk_mut()
    {
        *sum = checksum(0, head).to_le_bytes();
    }
    match Superblock::parse(&bytes) {
        Ok(found) => accepted(&found, &bytes, number),
        Err(Unfit::Blank) => assert!(bytes.iter().all(|byte| *byte == 0)),
        Err(Unfit::Magic(word)) => assert!(bytes.starts_with(&word.to_le_bytes())),
        Err(Unfit::Format(version)) => assert_eq!(bytes[8..12], version.to_le_bytes()),
        Err(Unfit::Damaged) => {}
    }
}

fn page_header(bytes: &[u8]) {
    let header = PageHeader::parse(bytes);
    assert_eq!(header.is_some(), bytes.len() >= HEADER_LEN);
    if let Some(header) = header {
        assert_eq!(header.emit()[..], bytes[..HEADER_LEN]);
        if let Some(page) = PageId::from_tag(header.page) {
            assert_eq!(page.tag(), header.page);
            assert_eq!(PageId::new(page.store(), page.index()), Some(page));
        }
    }
}

/// An accepted superblock is unchanged when it is written again, and no flipped bit is accepted.
fn accepted(found: &Superblock, bytes: &[u8], number: u64) {
    let mut again = vec![0xff; bytes.len()];
    found.emit(&mut again);
    assert_eq!(Superblock::parse(&again).as_ref(), Ok(found));
    assert_eq!(again[..RESERVED], bytes[..RESERVED]);
    if bytes[RESERVED..LEN].iter().all(|byte| *byte == 0) {
        assert_eq!(again[..LEN + 8], bytes[..LEN + 8]);
    }
    assert!(again[LEN + 8..].iter().all(|byte| *byte == 0));
    for bit in 0..(LEN + 8) * 8 {
        again[bit / 8] ^= 1 << (bit % 8);
        assert!(Superblock::parse(&again).is_err(), "bit {bit}");
        again[bit / 8] ^= 1 << (bit % 8);
    }
    // A store whose page size differs from the pool's is not opened.
    if is_page_size(found.page_size) {
        pages(&found.layout(number as u8), number >> 8);
    }
}

/// Every page is the superblock, a map, or one that exactly one map describes.
fn pages(layout: &StoreLayout, number: u64) {
    if let Some((group, at)) = layout.find(number) {
        assert!(number < layout.capacity && group < layout.groups());
        assert!(at < layout.pages_of(group));
        assert_eq!(layout.index(group, at), number);
        if let Some(page) = PageId::new(layout.store, number) {
            assert_eq!(layout.page(number), page);
            assert_ne!(layout.map(group), page);
        }
    }
    let per_map = StoreLayout::pages_per_map(layout.page_size);
    // Callers of `nth` count pages of the store, so a number beyond its capacity is not valid.
    if number < layout.capacity.min(1 << 40)
        && let Some(page) = layout.nth(number)
    {
        let place = (number / per_map, number % per_map);
        assert_eq!(layout.find(page.index()), Some(place));
        let up_to = StoreLayout::capacity_for(layout.page_size, number + 1);
        assert_eq!(up_to, page.index() + 1);
    }
}

/// The initial inputs of the corpus: closed and open stores, blank pages, and invalid ones.
pub fn seeds() -> Seeds {
    let store = |format: u32, page_size: u32, capacity: u64, state: u64| {
        let words = [
            u64::from_le_bytes(*b"RWpages\n"),
            u64::from(format) | u64::from(page_size) << 32,
            capacity,
            7,
            3,
            state,
            0,
            0,
        ];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
        bytes.extend(checksum(0, &bytes).to_le_bytes());
        bytes
    };
    let with = |choice: u8, number: u64, bytes: &[u8]| {
        [&[choice], &number.to_le_bytes()[..], bytes].concat()
    };
    let mut seeds = Vec::new();
    for (name, state) in [("closed", 0), ("opening", 1), ("open", 2), ("neither", 3)] {
        let bytes = store(2, 65536, 1000, state);
        seeds.push((name.to_owned(), with(0, 999 << 8, &bytes)));
    }
    let small = store(2, 4096, 1 << 20, 0);
    seeds.push(("small-pages".to_owned(), with(1, 16_077 << 8, &small)));
    let endless = store(2, 4096, u64::MAX, 0);
    seeds.push(("endless".to_owned(), with(1, u64::MAX, &endless)));
    let old = store(1, 65536, 1000, 0);
    seeds.push(("old-format".to_owned(), with(0, 1, &old)));
    seeds.push(("blank".to_owned(), with(0, 1, &[0; 80])));
    seeds.push(("short".to_owned(), with(1, 1, &small[..60])));
    let mut stray = small;
    stray[50] = 1;
    stray.extend([1; 8]);
    seeds.push(("stray-bytes".to_owned(), with(1, 1, &stray)));
    seeds
}
