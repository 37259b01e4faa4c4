//! Requested columns arrive.

use super::super::*;
use super::setup::{Setup, numbers, texts, wide};
use crate::messaging::tests::rig::STORAGE;
use rackweave_verbs::{Access, Verbs};

#[test]
fn a_column_comes_as_it_is_served() {
    let mut setup = Setup::new();
    let (keys, names) = (numbers(5, 3000), texts(1, 2000));
    setup.serve("keys", &keys);
    setup.serve("names", &names);
    for column in [&keys, &names] {
        let name = if column == &keys { "keys" } else { "names" };
        let Ok(Reply::Column(found)) = setup.ask(name) else {
            panic!("no column");
        };
        assert_eq!(&found, column);
        assert_eq!(found.version(), column.version());
        assert_eq!(found.content(), column.version());
        assert_eq!(found.bytes().as_ptr() as usize % 64, 0);
    }
    assert_eq!(names.buffer(Buffer::Offsets).len(), 4 * 2001);
    let bytes = keys.shape().bytes() + names.shape().bytes();
    let expect = [("requests", 2), ("columns", 2), ("bytes", bytes)];
    assert_eq!(setup.client_counters(), expect);
    let registrations = ("registrations", 2);
    assert_eq!(
        setup.server_counters(),
        [&expect[..], &[registrations]].concat()
    );
    setup.destroy();
}

#[test]
fn a_column_without_rows_has_a_header() {
    let mut setup = Setup::new();
    setup.serve("none", &numbers(0, 0));
    setup.serve("no texts", &texts(0, 0));
    assert_eq!(setup.ask("none"), Ok(Reply::Column(numbers(0, 0))));
    assert_eq!(setup.ask("no texts"), Ok(Reply::Column(texts(0, 0))));
    setup.destroy();
}

#[test]
fn many_requests_are_under_way_and_no_more_than_the_window() {
    let mut setup = Setup::new();
    for at in 0..5 {
        setup.serve(&format!("c{at}"), &numbers(at, 700));
    }
    let mut tickets = Vec::new();
    let window = ColumnClientConfig::default().window;
    for at in 0..window {
        tickets.push(setup.client.ask(&format!("c{}", at % 6), None).unwrap());
    }
    let full = Err(AskError::WindowFull { window });
    assert_eq!(setup.client.ask("c0", None), full);
    setup.until(|setup| setup.answers.len() == usize::from(window));
    for (at, (answer, ticket)) in setup.answers.iter().zip(tickets).enumerate() {
        assert_eq!(answer.ticket, ticket);
        match &answer.result {
            Ok(Reply::Column(column)) => assert_eq!(column, &numbers(at as i64 % 6, 700)),
            Err(RequestError::Refused { code, .. }) if at % 6 == 5 => {
                assert_eq!(*code, RefusalCode::UNKNOWN_COLUMN);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(setup.client.ask("c0", None).is_ok());
    // Each column was registered once.
    assert_eq!(setup.server.counters().registrations, 5);
    setup.until(|setup| setup.answers.len() > usize::from(window));
    setup.destroy();
}

#[test]
fn requests_wait_where_there_is_room() {
    let server = ColumnServerConfig {
        queue_max: 2,
        lent_max: 1,
    };
    let client = ColumnClientConfig {
        window: 500,
        ..ColumnClientConfig::default()
    };
    let mut setup = Setup::of(&wide(), 1, client, server);
    for name in ["a", "b", "c"] {
        setup.serve(name, &numbers(1, 2000));
    }
    for at in 0..500 {
        let name = ["a", "b", "c"][at % 3];
        setup.client.ask(name, None).unwrap();
    }
    let mut waiting = 0;
    setup.until(|setup| {
        waiting = waiting.max(setup.server.waiting());
        setup.answers.len() == 500
    });
    // Those in the queue and the current one.
    assert_eq!(waiting, 3);
    assert_eq!(setup.server.counters().columns, 500);
    // All but one of the columns that have arrived are deregistered.
    setup.rest();
    let mut left = 0;
    for column in setup.catalogue.columns() {
        let name = column.name().to_owned();
        drop(column);
        left += u32::from(!setup.catalogue.remove(&name).unwrap().is_done());
    }
    assert_eq!(left, 1);
    setup.rest();
    setup.destroy();
}

#[test]
fn a_version_that_is_known_does_not_come_again() {
    let mut setup = Setup::new();
    let (old, new) = (numbers(1, 1000), numbers(2, 1000));
    setup.serve("c", &old);
    let version = old.version();
    let ticket = setup.client.ask("c", Some(version)).unwrap();
    assert_eq!(setup.answer(ticket), Ok(Reply::Unchanged { version }));
    let memory = setup.rig.network.memory.clone();
    let removal = setup
        .catalogue
        .replace(&memory, "c", &new)
        .unwrap()
        .unwrap();
    assert!(removal.is_done());
    let ticket = setup.client.ask("c", Some(version)).unwrap();
    assert_eq!(setup.answer(ticket), Ok(Reply::Column(new)));
    drop(removal);
    setup.destroy();
}

#[test]
fn the_list_says_what_there_is() {
    let mut setup = Setup::new();
    let ticket = setup.client.ask_list().unwrap();
    assert_eq!(setup.answer(ticket), Ok(Reply::List(Vec::new())));
    let mut expect = Vec::new();
    for at in 0..16 {
        let name = format!("{at:02} {}", "x".repeat(240));
        let data = texts(at, at * 10);
        setup.serve(&name, &data);
        expect.push(ListedColumn {
            name,
            version: data.version(),
            shape: *data.shape(),
        });
    }
    // It is longer than a receive buffer.
    let ticket = setup.client.ask_list().unwrap();
    assert_eq!(setup.answer(ticket), Ok(Reply::List(expect)));
    setup.destroy();
}

#[test]
fn a_column_is_shown_where_it_lies() {
    let client = ColumnClientConfig {
        verify: true,
        // Does not apply to columns that are only shown.
        column_max: 0,
        ..ColumnClientConfig::default()
    };
    let mut setup = Setup::of(&wide(), 1, client, ColumnServerConfig::default());
    let data = texts(7, 5000);
    setup.serve("t", &data);
    let ticket = setup.client.ask_in_place("t").unwrap();
    let mut seen: [Vec<u8>; 3] = Default::default();
    let (mut end, mut pieces) = (0, 0);
    let mut reader = |piece: &ColumnPiece<'_>| {
        assert_eq!(piece.ticket, ticket);
        assert_eq!((piece.header.shape, piece.offset), (*data.shape(), end));
        end += piece.bytes.len() as u64;
        pieces += 1;
        for (buffer, seen) in Buffer::ALL.into_iter().zip(&mut seen) {
            if let Some((at, bytes)) = piece.part_of(buffer) {
                assert_eq!(at, seen.len() as u64);
                seen.extend_from_slice(bytes);
            }
        }
    };
    setup.until_with(&mut reader, |setup| !setup.answers.is_empty());
    let Ok(Reply::Shown(header)) = setup.answers.remove(0).result else {
        panic!("not shown");
    };
    assert_eq!(header.version, data.version());
    assert_eq!(
        Buffer::ALL.map(|buffer| data.buffer(buffer)),
        seen.each_ref().map(|s| &s[..])
    );
    assert_eq!(end, data.shape().bytes());
    assert!(pieces > 5, "{pieces}");
    setup.destroy();
}

#[test]
fn what_is_too_long_or_too_large_is_refused_and_nothing_else() {
    let client = ColumnClientConfig {
        column_max: 8192,
        ..ColumnClientConfig::default()
    };
    let mut setup = Setup::of(&wide(), 1, client, ColumnServerConfig::default());
    setup.serve("long", &numbers(0, 1 << 17));
    setup.serve("large", &numbers(0, 1025));
    setup.serve("right", &numbers(0, 1024));
    let Err(RequestError::Refused { code, text }) = setup.ask("long") else {
        panic!("not refused");
    };
    assert_eq!(code, RefusalCode::TOO_LONG);
    assert!(text.contains("1048640 bytes; at most 1048576"), "{text}");
    let (bytes, max) = (8256, 8192);
    assert_eq!(
        setup.ask("large"),
        Err(RequestError::TooLarge { bytes, max })
    );
    assert_eq!(setup.ask("right"), Ok(Reply::Column(numbers(0, 1024))));
    let counters = [
        ("requests", 3),
        ("columns", 1),
        ("bytes", 8192),
        ("refused", 1),
        ("dropped", 1),
    ];
    assert_eq!(setup.client_counters(), counters);
    setup.destroy();
}

#[test]
fn a_nic_that_takes_no_more_regions_is_a_refusal() {
    let mut setup = Setup::new();
    setup.serve("c", &numbers(0, 10));
    let (nic, memory) = (
        &mut setup.rig.network.nics[STORAGE],
        &setup.rig.network.memory,
    );
    let pd = nic.create_pd();
    let mut regions = Vec::new();
    while let Ok(region) = nic.register(pd, memory.allocate(64).unwrap(), Access::empty()) {
        regions.push(region);
    }
    let Err(RequestError::Refused { code, .. }) = setup.ask("c") else {
        panic!("not refused");
    };
    assert_eq!(code, RefusalCode::NO_MEMORY);
    for region in regions {
        setup.rig.network.nics[STORAGE].deregister(&region);
    }
    assert_eq!(setup.ask("c"), Ok(Reply::Column(numbers(0, 10))));
    setup.destroy();
}

#[test]
fn removal_waits_for_what_is_being_sent() {
    let mut setup = Setup::new();
    setup.serve("c", &numbers(0, 20_000));
    setup.serve("d", &numbers(0, 10));
    for name in ["c", "c", "d"] {
        setup.client.ask(name, None).unwrap();
    }
    setup.until(|setup| setup.server.counters().columns == 1);
    let removal = setup.catalogue.remove("c").unwrap();
    assert!(!removal.is_done());
    assert!(removal.column().is_removed());
    // The current one is completed, the waiting one is refused.
    setup.until(|setup| setup.answers.len() == 3);
    assert_eq!(
        setup.answers[0].result,
        Ok(Reply::Column(numbers(0, 20_000)))
    );
    assert!(setup.answers[1].result.is_err());
    assert_eq!(setup.answers[2].result, Ok(Reply::Column(numbers(0, 10))));
    setup.rest();
    assert!(removal.is_done());
    drop(removal);
    setup.destroy();
}

#[test]
fn catalogues_say_what_is_wrong() {
    let setup = Setup::new();
    let memory = &setup.rig.network.memory;
    let data = numbers(0, 8);
    let long = "n".repeat(NAME_MAX + 1);
    let name = |found| CatalogueError::Column(ColumnError::Name { found });
    let catalogue = Catalogue::new(2);
    let add = |name: &str| catalogue.add(memory, name, &data).map(|_| ());
    assert_eq!(add(""), Err(name(0)));
    assert_eq!(add(&long), Err(name(NAME_MAX + 1)));
    assert_eq!(add("a"), Ok(()));
    let taken = CatalogueError::Taken { name: "a".into() };
    assert_eq!(add("a"), Err(taken));
    assert_eq!(add("b"), Ok(()));
    assert_eq!(add("c"), Err(CatalogueError::Full { max: 2 }));
    assert!(matches!(
        catalogue.remove("c"),
        Err(CatalogueError::Unknown { .. })
    ));
    assert!(catalogue.remove("a").unwrap().is_done());
    let block = memory.allocate(128).unwrap();
    block.write(64, data.bytes());
    let add = |offset| {
        let column = catalogue.add_block("c", *data.shape(), block.clone(), offset);
        column.map(|column| column.version())
    };
    let outside = |range| Err(CatalogueError::Outside { range, block: 128 });
    assert_eq!(add(65), outside(65..129));
    assert_eq!(add(u64::MAX), outside(u64::MAX..u64::MAX));
    assert_eq!(add(64), Ok(data.version()));
}
