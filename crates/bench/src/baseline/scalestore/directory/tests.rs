//! The owner, asked by hand.

use super::*;

const PAGE: u64 = 3;

fn asker(node: u16) -> Asker {
    Asker {
        node,
        channel: u32::from(node),
        tag: 7,
    }
}

fn fetch(node: u16, id: u64, exclusive: bool) -> (Asker, Message) {
    let message = Message::Fetch {
        page: PAGE,
        id,
        kept: 0,
        frame: 10 + u32::from(node),
        exclusive,
        from_home: false,
    };
    (asker(node), message)
}

fn keeping(node: u16, id: u64, kept_id: u64) -> (Asker, Message) {
    let (asker, mut message) = fetch(node, id, true);
    if let Message::Fetch { kept, .. } = &mut message {
        *kept = kept_id;
    }
    (asker, message)
}

fn ask(directory: &mut Directory, (asker, message): (Asker, Message)) -> Vec<Task> {
    directory.handle_request(asker, message).unwrap();
    tasks(directory)
}

fn tasks(directory: &mut Directory) -> Vec<Task> {
    core::iter::from_fn(|| directory.poll_task()).collect()
}

fn load(directory: &mut Directory, node: u16, id: u64, exclusive: bool) {
    let tasks = ask(directory, fetch(node, id, exclusive));
    assert!(
        matches!(tasks[..], [Task::Load { page: PAGE, .. }]),
        "{tasks:?}"
    );
    directory.handle_loaded(PAGE).unwrap();
}

fn order(node: u16, id: u64, downgrade: bool, push: Option<u16>) -> Task {
    let push = push.map(|node| Place {
        node,
        frame: 10 + u32::from(node),
    });
    let message = Message::Revoke {
        page: PAGE,
        id,
        downgrade,
        push,
    };
    Task::Order { node, message }
}

fn granted(node: u16, version: u64, dirty: bool) -> Task {
    let message = Message::Granted {
        version,
        dirty,
        from_home: false,
    };
    let to = asker(node);
    Task::Answer { to, message }
}

/// The nodes that hold the page and whether exclusively.
fn holders(directory: &Directory) -> (Vec<u16>, bool) {
    let entry = &directory.entries[PAGE as usize];
    let nodes = entry.holders.iter().map(|holder| holder.place.node);
    (nodes.collect(), entry.exclusive)
}

#[test]
fn a_page_is_loaded_once_and_then_read_from_who_has_it() {
    let mut directory = Directory::new(4);
    assert_eq!(ask(&mut directory, fetch(0, 1, false)).len(), 1);
    // The second asker waits for the first one's page instead of reading the drive again.
    assert_eq!(ask(&mut directory, fetch(1, 1, false)), []);
    directory.handle_loaded(PAGE).unwrap();
    let message = Message::Redirect {
        version: 0,
        place: Place { node: 0, frame: 10 },
        id: 1,
    };
    let to = asker(1);
    assert_eq!(tasks(&mut directory), [Task::Answer { to, message }]);
    assert_eq!(holders(&directory), (vec![0, 1], false));
    assert!(directory.is_idle());
}

#[test]
fn an_exclusive_request_invalidates_all_sharers_first() {
    let mut directory = Directory::new(4);
    load(&mut directory, 0, 1, false);
    ask(&mut directory, fetch(1, 2, false));
    ask(&mut directory, fetch(2, 3, false));
    let orders = ask(&mut directory, keeping(2, 4, 3));
    assert_eq!(orders, [order(0, 1, false, None), order(1, 2, false, None)]);
    directory.handle_complied(0, PAGE, true, false).unwrap();
    assert_eq!(tasks(&mut directory), [], "one sharer is left");
    directory.handle_complied(1, PAGE, false, false).unwrap();
    assert_eq!(tasks(&mut directory), [granted(2, 1, false)]);
    assert_eq!(holders(&directory), (vec![2], true));
}

#[test]
fn what_was_changed_moves_from_holder_to_holder() {
    let mut directory = Directory::new(4);
    load(&mut directory, 0, 1, true);
    let orders = ask(&mut directory, fetch(1, 1, true));
    assert_eq!(orders, [order(0, 1, false, Some(1))]);
    directory.handle_complied(0, PAGE, true, true).unwrap();
    assert_eq!(tasks(&mut directory), [granted(1, 2, true)]);
    // A reader leaves a shared copy with the one who has changed it, who stays the keeper.
    let orders = ask(&mut directory, fetch(2, 1, false));
    assert_eq!(orders, [order(1, 1, true, Some(2))]);
    directory.handle_complied(1, PAGE, true, true).unwrap();
    assert_eq!(tasks(&mut directory), [granted(2, 2, false)]);
    assert_eq!(holders(&directory), (vec![1, 2], false));
    // What is stored is old: even who has failed at the keeper is not given it.
    let (asker, mut again) = fetch(0, 2, false);
    if let Message::Fetch { from_home, .. } = &mut again {
        *from_home = true;
    }
    let sent = ask(&mut directory, (asker, again));
    let redirected = |task: &Task| match task {
        Task::Answer {
            message: Message::Redirect { place, .. },
            ..
        } => place.node == 1,
        _ => false,
    };
    assert!(sent.len() == 1 && redirected(&sent[0]), "{sent:?}");
}

#[test]
fn a_clean_page_that_its_only_holder_has_dropped_is_loaded() {
    let mut directory = Directory::new(4);
    load(&mut directory, 0, 1, true);
    let orders = ask(&mut directory, fetch(1, 1, true));
    assert_eq!(orders.len(), 1);
    directory.handle_complied(0, PAGE, false, false).unwrap();
    let sent = tasks(&mut directory);
    assert!(matches!(sent[..], [Task::Load { .. }]), "{sent:?}");
}

#[test]
fn a_late_drop_does_not_take_what_was_given_since() {
    let mut directory = Directory::new(4);
    load(&mut directory, 0, 1, false);
    // The drop of 1 is on its way when the page is fetched again.
    load(&mut directory, 0, 2, false);
    ask(&mut directory, (asker(0), Message::Drop(vec![(PAGE, 1)])));
    assert_eq!(holders(&directory), (vec![0], false));
    ask(&mut directory, (asker(0), Message::Drop(vec![(PAGE, 2)])));
    assert_eq!(holders(&directory), (vec![], false));
}

#[test]
fn a_write_back_ends_the_holding_unless_it_was_revoked_before() {
    let mut directory = Directory::new(4);
    let write_back = |node, id| {
        let (page, frame) = (PAGE, 10);
        (asker(node), Message::WriteBack { page, id, frame })
    };
    load(&mut directory, 0, 1, true);
    let sent = ask(&mut directory, write_back(0, 1));
    assert!(matches!(sent[..], [Task::Store { page: PAGE, .. }]));
    assert_eq!(ask(&mut directory, fetch(1, 1, true)), [], "it has to wait");
    directory.handle_stored(PAGE).unwrap();
    let done = |node, written| Task::Answer {
        to: asker(node),
        message: Message::Done { written },
    };
    let sent = tasks(&mut directory);
    assert_eq!(sent[0], done(0, true));
    assert!(matches!(sent[1..], [Task::Load { .. }]), "{sent:?}");
    directory.handle_loaded(PAGE).unwrap();
    // Now the other way round: the revocation comes first.
    ask(&mut directory, fetch(0, 2, true));
    assert_eq!(ask(&mut directory, write_back(1, 1)), []);
    directory.handle_complied(1, PAGE, true, true).unwrap();
    let sent = tasks(&mut directory);
    assert_eq!(sent, [granted(0, 3, true), done(1, false)]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let mut directory = Directory::new(4);
    let drop = Message::Drop(vec![(4, 1)]);
    assert_eq!(
        directory.handle_request(asker(0), drop),
        Err(Breach::NoPage(4))
    );
    assert_eq!(directory.handle_loaded(0), Err(Breach::NotBegun(0)));
    assert_eq!(directory.handle_stored(0), Err(Breach::NotBegun(0)));
    let complied = directory.handle_complied(0, 0, true, true);
    assert_eq!(complied, Err(Breach::NotBegun(0)));
    let done = Message::Done { written: true };
    assert_eq!(
        directory.handle_request(asker(0), done),
        Err(Breach::NoRequest)
    );
}
