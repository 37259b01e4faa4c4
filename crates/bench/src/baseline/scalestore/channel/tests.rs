//! Messages as words.

use super::*;

#[test]
fn messages_travel_and_what_is_none_is_refused() {
    let fetch = Fetch {
        page: u64::MAX,
        id: 2,
        frame: 5,
        from_storage: true,
    };
    let holder = Holder {
        node: 3,
        frame: 77,
        id: 1 << 40,
    };
    for message in [
        Message::Fetch(fetch),
        Message::Drop((0..DROPS_MAX as u64).map(|at| (at, at << 33)).collect()),
        Message::Drop(Vec::new()),
        Message::Loaded { from_storage: true },
        Message::Copy(fetch),
        Message::Gone,
        Message::Redirect(holder),
        Message::Dropped,
    ] {
        let mut words = message.words(0x1234);
        assert!(words.len() <= WORDS_MAX);
        assert_eq!(Message::read(&words), Some((0x1234, message)));
        assert_eq!(Message::read(&words[..words.len() - 1]), None);
        words[0] |= 1 << 40;
        assert_eq!(Message::read(&words), None);
    }
    assert_eq!(Message::read(&[]), None);
}

#[test]
fn words_lie_as_the_head_of_the_module_says() {
    let (node, frame, id) = (3, 4, 5);
    let redirect = Message::Redirect(Holder { node, frame, id });
    assert_eq!(redirect.words(6), [4 << 32 | 6, 3, 4, 5, 0]);
    let drop = Message::Drop(vec![(7, 8)]);
    assert_eq!(drop.words(9), [2 << 32 | 9, 7, 8]);
}
