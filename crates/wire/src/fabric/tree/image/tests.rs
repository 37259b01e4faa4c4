//! Images that are torn, of another tree, or not of a tree.

use super::*;

const TREE: u64 = 9;
const POINTER: NodePointer = NodePointer { index: 4, epoch: 7 };

fn layout() -> Layout {
    Layout::new(512).expect("a size that there is")
}

/// A leaf of keys up to 1000 with these entries, and the entries after them.
fn leaf(entries: &[(u64, u64)], behind: &[(u64, u64)]) -> Vec<u64> {
    let layout = layout();
    let mut words = vec![0; layout.words()];
    let meta = Meta {
        epoch: POINTER.epoch,
        level: 0,
        count: entries.len() as u16,
    };
    words[META_WORD] = meta.to_word();
    words[LAST_WORD] = 1000;
    words[TREE_WORD] = identity(TREE, POINTER.index);
    let who = words[TREE_WORD];
    let sum = check_of_header(POINTER.index, meta.to_word(), 0, 1000, 0, who);
    words[CHECK_WORD] = entries.iter().fold(sum, |sum, &(key, value)| {
        sum.wrapping_add(check_of_entry(key, value, false))
    });
    for (index, &(key, value)) in entries.iter().chain(behind).enumerate() {
        words[layout.entry(index)] = key;
        words[layout.entry(index) + 1] = value;
    }
    words
}

fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn verify_any(words: &[u64], tree_nodes: u32) -> Result<NodePointer, Unusable> {
    let bytes = bytes_of(words);
    let any = Image::verify_any(layout(), &bytes, TREE, tree_nodes);
    any.map(|(_, pointer)| pointer)
}

fn verify(words: &[u64]) -> Result<usize, Unusable> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    Image::verify(layout(), &bytes, TREE, POINTER).map(|image| image.count())
}

#[test]
fn a_mix_of_two_moments_is_torn_even_if_the_sum_is_right() {
    let old = leaf(&[(1, 10), (2, 20), (4, 40)], &[(3, 30)]);
    let new = leaf(&[(1, 10), (2, 20), (3, 30), (4, 40)], &[]);
    assert_eq!((verify(&old), verify(&new)), (Ok(3), Ok(4)));
    // The new header with the old entries: all four of them, two swapped.
    let entries = layout().entry(0);
    let mixed = [&new[..entries], &old[entries..]].concat();
    assert_eq!(verify(&mixed), Err(Unusable::Torn));
    // And with any other number of old words at either end: torn, or all relevant words of one
    // state.
    let content = |words: &[u64]| {
        let end = layout().entry(usize::from(Meta::from_word(words[META_WORD]).count));
        words[CHECK_WORD..end].to_vec()
    };
    for cut in CHECK_WORD..layout().entry(4) {
        for (one, other) in [(&old, &new), (&new, &old)] {
            let mixed = [&one[..cut], &other[cut..]].concat();
            let is_whole = [one, other]
                .iter()
                .any(|all| content(all) == content(&mixed));
            let torn = Err(Unusable::Torn);
            assert!(verify(&mixed) == torn || is_whole, "cut at word {cut}");
        }
    }
}

#[test]
fn what_belongs_elsewhere_is_told() {
    let good = leaf(&[(1, 10)], &[]);
    let bytes: Vec<u8> = good.iter().flat_map(|word| word.to_le_bytes()).collect();
    let with = |tree, pointer| Image::verify(layout(), &bytes, tree, pointer).map(|_| ());
    let stale = NodePointer {
        epoch: 9,
        ..POINTER
    };
    let (expected, found) = (9, 7);
    let error = Err(Unusable::Stale { found, expected });
    assert_eq!(with(TREE, stale), error);
    let (expected, found) = (8, identity(TREE, POINTER.index));
    let error = Err(Unusable::Foreign { found, expected });
    assert_eq!(with(8, POINTER), error);
    let elsewhere = NodePointer {
        index: 5,
        ..POINTER
    };
    assert_eq!(with(TREE, elsewhere), Err(Unusable::Torn));
    assert_eq!(verify(&leaf(&[(1001, 1)], &[])), Err(Unusable::Malformed));
}

#[test]
fn an_image_tells_which_tree_node_it_is() {
    let good = leaf(&[(1, 10), (5, 50)], &[]);
    assert_eq!(verify_any(&good, 5), Ok(POINTER));
    let who = identity(TREE, POINTER.index);
    let foreign = |found| {
        let expected = TREE;
        Err(Unusable::Foreign { found, expected })
    };
    // A tree without such a slot, the superblock's slot, another tree.
    assert_eq!(verify_any(&good, 4), foreign(who));
    for found in [identity(TREE, 0), identity(TREE ^ 1 << 40, POINTER.index)] {
        let mut other = good.clone();
        other[TREE_WORD] = found;
        assert_eq!(verify_any(&other, 1000), foreign(found));
    }
    // A location other than where it was written: the check covers the number, too.
    let mut moved = good.clone();
    moved[TREE_WORD] = identity(TREE, 3);
    assert_eq!(verify_any(&moved, 5), Err(Unusable::Torn));
    // A free tree node, whatever else is in it.
    let mut freed = good.clone();
    let epoch = POINTER.epoch + 1;
    let meta = Meta::from_word(good[META_WORD]);
    freed[META_WORD] = Meta { epoch, ..meta }.to_word();
    let (found, expected) = (8, 9);
    let stale = Err(Unusable::Stale { found, expected });
    assert_eq!(verify_any(&freed, 5), stale);
    // Nothing was ever there.
    assert!(verify_any(&vec![0; layout().words()], 1000).is_err());
    let outside = leaf(&[(1001, 1)], &[]);
    assert_eq!(verify_any(&outside, 5), Err(Unusable::Malformed));
}

#[test]
fn an_image_of_any_tree_node_that_mixes_two_moments_is_torn() {
    let old = leaf(&[(1, 10), (2, 20), (4, 40)], &[(3, 30)]);
    let new = leaf(&[(1, 11), (3, 30), (4, 40), (5, 50)], &[]);
    // The words that matter for its contents.
    let content = |words: &[u64]| {
        let end = layout().entry(usize::from(Meta::from_word(words[META_WORD]).count));
        words[CHECK_WORD..end].to_vec()
    };
    for cut in CHECK_WORD..layout().entry(4) {
        for (one, other) in [(&old, &new), (&new, &old)] {
            let mixed = [&one[..cut], &other[cut..]].concat();
            let is_whole = [one, other]
                .iter()
                .any(|all| content(all) == content(&mixed));
            let expect = match is_whole {
                true => Ok(POINTER),
                false => Err(Unusable::Torn),
            };
            assert_eq!(verify_any(&mixed, 5), expect, "cut at word {cut}");
        }
    }
    // A bit of any word that matters.
    for at in CHECK_WORD..layout().entry(4) {
        for bit in 0..64 {
            let mut words = new.clone();
            words[at] ^= 1 << bit;
            // The bitmap is not read beyond the last entry's bit.
            let counts = at != FIRST_BITMAP_WORD || bit < 4;
            assert_eq!(
                verify_any(&words, 5).is_err(),
                counts,
                "word {at}, bit {bit}"
            );
        }
    }
}
