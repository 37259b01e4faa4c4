//! A catalogue of several pages.

use super::*;

#[test]
fn a_catalogue_is_read_as_it_was_written() {
    let layout = HeapLayout::new(4096, HEADER_LEN as u32, 1000).unwrap();
    let heap = Heap::new(layout, 2000, 1001);
    assert_eq!(heap.catalogue_pages(), 3);
    for at in [0, 499, 500, 1000] {
        heap.enter(at, PageId::new(STORE, 2000 + at).unwrap());
    }
    let again = Heap::new(layout, 2000, 1001);
    let mut bytes = vec![0xff; 4096 - HEADER_LEN];
    let mut taken = 0;
    for number in 0..3 {
        heap.emit(number, true, &mut bytes);
        let head = CatalogueHead::parse(&bytes).unwrap();
        let (loaded, pages_max) = (2000, 1001);
        let expected = CatalogueHead {
            number,
            record_size: 1000,
            loaded,
            pages_max,
        };
        assert_eq!(head, expected);
        taken += again.take(number, &bytes);
    }
    assert_eq!(taken, 4);
    let (page, _) = heap.entry_place(500);
    assert_eq!(page, catalogue_page(4096, 1));
    assert_eq!(page.index(), 3, "behind superblock, map and another");
    assert_eq!(again.page(499), PageId::new(STORE, 2499));
    assert_eq!(again.page(1000), PageId::new(STORE, 3000));
    assert_eq!(again.page(1), None);
    heap.emit(0, false, &mut bytes);
    assert_eq!(
        CatalogueHead::parse(&bytes).map(|head| head.loaded),
        Some(0)
    );
    assert_eq!(CatalogueHead::parse(&[0; 4000]), None);
}
