//! The owner; the tests send the requests.

use super::*;

impl Directory {
    /// What each node holds, as page, frame and id, when no request is in flight.
    pub fn held(&self, node: u16) -> Vec<(u64, u32, u64)> {
        let is_idle = |entry: &Entry| !entry.is_loading && entry.waiting.is_empty();
        assert!(self.answers.is_empty() && self.loads.is_empty());
        assert!(self.entries.iter().all(is_idle));
        let pages = (0..).zip(&self.entries);
        let all = pages.flat_map(|(page, entry)| entry.holders.iter().map(move |of| (page, of)));
        let own = all.filter(|(_, holder)| holder.node == node);
        own.map(|(page, holder)| (page, holder.frame, holder.id))
            .collect()
    }
}

const PAGE: u64 = 3;

fn asker(node: u16) -> Asker {
    Asker {
        node,
        channel: u32::from(node),
        tag: 7,
    }
}

fn ask(directory: &mut Directory, node: u16, id: u64, from_storage: bool) {
    let fetch = Fetch {
        page: PAGE,
        id,
        frame: 10 + u32::from(node),
        from_storage,
    };
    let asked = directory.handle_request(asker(node), Message::Fetch(fetch));
    assert_eq!(asked, Ok(()));
}

/// Checks that the load for a node is the only pending one, and that there is no answer.
fn load(directory: &mut Directory, node: u16) {
    let load = Load {
        page: PAGE,
        to: asker(node),
        frame: 10 + u32::from(node),
    };
    assert_eq!(directory.loads.drain(..).collect::<Vec<_>>(), [load]);
    assert_eq!(directory.answers, []);
}

fn redirect(to: u16, node: u16, id: u64) -> (Asker, Message) {
    let frame = 10 + u32::from(node);
    (asker(to), Message::Redirect(Holder { node, frame, id }))
}

fn answers(directory: &mut Directory) -> Vec<(Asker, Message)> {
    directory.answers.drain(..).collect()
}

#[test]
fn a_page_is_loaded_once_and_then_read_from_who_has_it() {
    let mut directory = Directory::new(4);
    ask(&mut directory, 0, 1, false);
    load(&mut directory, 0);
    // The second requester waits for the first one's page instead of reading the drive again.
    ask(&mut directory, 1, 1, false);
    assert!(directory.loads.is_empty() && directory.answers.is_empty());
    directory.handle_loaded(PAGE).unwrap();
    assert_eq!(answers(&mut directory), [redirect(1, 0, 1)]);
    assert_eq!(directory.held(0), [(PAGE, 10, 1)]);
    assert_eq!(directory.held(1), [(PAGE, 11, 1)]);
}

#[test]
fn who_was_redirected_in_vain_gets_the_page_from_storage() {
    let mut directory = Directory::new(4);
    ask(&mut directory, 0, 1, false);
    load(&mut directory, 0);
    directory.handle_loaded(PAGE).unwrap();
    ask(&mut directory, 1, 1, false);
    assert_eq!(answers(&mut directory), [redirect(1, 0, 1)]);
    ask(&mut directory, 1, 2, true);
    load(&mut directory, 1);
    directory.handle_loaded(PAGE).unwrap();
    assert_eq!(directory.held(1), [(PAGE, 11, 2)]);
}

#[test]
fn a_late_drop_does_not_take_what_was_given_since() {
    let mut directory = Directory::new(4);
    for id in [1, 2] {
        // The drop of the first is in flight when the page is fetched again.
        ask(&mut directory, 0, id, false);
        load(&mut directory, 0);
        directory.handle_loaded(PAGE).unwrap();
    }
    for (id, left) in [(1, vec![(PAGE, 10, 2)]), (2, vec![])] {
        let drop = Message::Drop(vec![(PAGE, id)]);
        directory.handle_request(asker(0), drop).unwrap();
        assert_eq!(answers(&mut directory), [(asker(0), Message::Dropped)]);
        assert_eq!(directory.held(0), left);
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut directory = Directory::new(4);
    for (message, says) in [
        (Message::Drop(vec![(4, 1)]), "page 4 does not exist"),
        (Message::Loaded { from_storage: true }, "no request"),
    ] {
        let error = directory.handle_request(asker(0), message).unwrap_err();
        assert!(error.contains(says), "{error}");
    }
    let error = directory.handle_loaded(0).unwrap_err();
    assert!(error.contains("had not begun"), "{error}");
}
