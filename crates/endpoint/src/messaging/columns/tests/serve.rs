//! What is asked for comes.

use super::super::*;
use super::desk::{Desk, numbers, texts, wide};
use crate::messaging::tests::rig::STORAGE;
use rackweave_verbs::{Access, Verbs};

#[test]
fn a_column_comes_as_it_is_served() {
    let mut desk = Desk::new();
    let (keys, names) = (numbers(5, 3000), texts(1, 2000));
    desk.serve("keys", &keys);
    desk.serve("names", &names);
    for column in [&keys, &names] {
        let name = if column == &keys { "keys" } else { "names" };
        let Ok(Reply::Column(found)) = desk.ask(name) else {
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
    assert_eq!(desk.client_counters(), expect);
    let registrations = ("registrations", 2);
    assert_eq!(
        desk.server_counters(),
        [&expect[..], &[registrations]].concat()
    );
    desk.destroy();
}

#[test]
fn a_column_without_rows_has_a_header() {
    let mut desk = Desk::new();
    desk.serve("none", &numbers(0, 0));
    desk.serve("no texts", &texts(0, 0));
    assert_eq!(desk.ask("none"), Ok(Reply::Column(numbers(0, 0))));
    assert_eq!(desk.ask("no texts"), Ok(Reply::Column(texts(0, 0))));
    desk.destroy();
}

#[test]
fn many_requests_are_under_way_and_no_more_than_the_window() {
    let mut desk = Desk::new();
    for at in 0..5 {
        desk.serve(&format!("c{at}"), &numbers(at, 700));
    }
    let mut tickets = Vec::new();
    let window = ColumnClientConfig::default().window;
    for at in 0..window {
        tickets.push(desk.client.ask(&format!("c{}", at % 6), None).unwrap());
    }
    let full = Err(AskError::WindowFull { window });
    assert_eq!(desk.client.ask("c0", None), full);
    desk.until(|desk| desk.answers.len() == usize::from(window));
    for (at, (answer, ticket)) in desk.answers.iter().zip(tickets).enumerate() {
        assert_eq!(answer.ticket, ticket);
        match &answer.result {
            Ok(Reply::Column(column)) => assert_eq!(column, &numbers(at as i64 % 6, 700)),
            Err(RequestError::Refused { code, .. }) if at % 6 == 5 => {
                assert_eq!(*code, RefusalCode::UNKNOWN_COLUMN);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(desk.client.ask("c0", None).is_ok());
    // Each column was registered once.
    assert_eq!(desk.server.counters().registrations, 5);
    desk.until(|desk| desk.answers.len() > usize::from(window));
    desk.destroy();
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
    let mut desk = Desk::of(&wide(), 1, client, server);
    for name in ["a", "b", "c"] {
        desk.serve(name, &numbers(1, 2000));
    }
    for at in 0..500 {
        let name = ["a", "b", "c"][at % 3];
        desk.client.ask(name, None).unwrap();
    }
    let mut waiting = 0;
    desk.until(|desk| {
        waiting = waiting.max(desk.server.waiting());
        desk.answers.len() == 500
    });
    // Those in the queue and the one under way.
    assert_eq!(waiting, 3);
    assert_eq!(desk.server.counters().columns, 500);
    // What arrived is taken back but for one.
    desk.rest();
    let mut left = 0;
    for column in desk.catalogue.columns() {
        let name = column.name().to_owned();
        drop(column);
        left += u32::from(!desk.catalogue.remove(&name).unwrap().is_done());
    }
    assert_eq!(left, 1);
    desk.rest();
    desk.destroy();
}

#[test]
fn a_version_that_is_known_does_not_come_again() {
    let mut desk = Desk::new();
    let (old, new) = (numbers(1, 1000), numbers(2, 1000));
    desk.serve("c", &old);
    let version = old.version();
    let ticket = desk.client.ask("c", Some(version)).unwrap();
    assert_eq!(desk.answer(ticket), Ok(Reply::Unchanged { version }));
    let memory = desk.rig.network.memory.clone();
    let removal = desk.catalogue.replace(&memory, "c", &new).unwrap().unwrap();
    assert!(removal.is_done());
    let ticket = desk.client.ask("c", Some(version)).unwrap();
    assert_eq!(desk.answer(ticket), Ok(Reply::Column(new)));
    drop(removal);
    desk.destroy();
}

#[test]
fn the_list_says_what_there_is() {
    let mut desk = Desk::new();
    let ticket = desk.client.ask_list().unwrap();
    assert_eq!(desk.answer(ticket), Ok(Reply::List(Vec::new())));
    let mut expect = Vec::new();
    for at in 0..16 {
        let name = format!("{at:02} {}", "x".repeat(240));
        let data = texts(at, at * 10);
        desk.serve(&name, &data);
        expect.push(ListedColumn {
            name,
            version: data.version(),
            shape: *data.shape(),
        });
    }
    // It is longer than a receive buffer.
    let ticket = desk.client.ask_list().unwrap();
    assert_eq!(desk.answer(ticket), Ok(Reply::List(expect)));
    desk.destroy();
}

#[test]
fn a_column_is_shown_where_it_lies() {
    let client = ColumnClientConfig {
        verify: true,
        // Does not count for what is only shown.
        column_max: 0,
        ..ColumnClientConfig::default()
    };
    let mut desk = Desk::of(&wide(), 1, client, ColumnServerConfig::default());
    let data = texts(7, 5000);
    desk.serve("t", &data);
    let ticket = desk.client.ask_in_place("t").unwrap();
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
    desk.until_with(&mut reader, |desk| !desk.answers.is_empty());
    let Ok(Reply::Shown(header)) = desk.answers.remove(0).result else {
        panic!("not shown");
    };
    assert_eq!(header.version, data.version());
    assert_eq!(
        Buffer::ALL.map(|buffer| data.buffer(buffer)),
        seen.each_ref().map(|s| &s[..])
    );
    assert_eq!(end, data.shape().bytes());
    assert!(pieces > 5, "{pieces}");
    desk.destroy();
}

#[test]
fn what_is_too_long_or_too_large_is_refused_and_nothing_else() {
    let client = ColumnClientConfig {
        column_max: 8192,
        ..ColumnClientConfig::default()
    };
    let mut desk = Desk::of(&wide(), 1, client, ColumnServerConfig::default());
    desk.serve("long", &numbers(0, 1 << 17));
    desk.serve("large", &numbers(0, 1025));
    desk.serve("right", &numbers(0, 1024));
    let Err(RequestError::Refused { code, text }) = desk.ask("long") else {
        panic!("not refused");
    };
    assert_eq!(code, RefusalCode::TOO_LONG);
    assert!(text.contains("1048640 bytes; at most 1048576"), "{text}");
    let (bytes, max) = (8256, 8192);
    assert_eq!(
        desk.ask("large"),
        Err(RequestError::TooLarge { bytes, max })
    );
    assert_eq!(desk.ask("right"), Ok(Reply::Column(numbers(0, 1024))));
    let counters = [
        ("requests", 3),
        ("columns", 1),
        ("bytes", 8192),
        ("refused", 1),
        ("dropped", 1),
    ];
    assert_eq!(desk.client_counters(), counters);
    desk.destroy();
}

#[test]
fn a_nic_that_takes_no_more_regions_is_a_refusal() {
    let mut desk = Desk::new();
    desk.serve("c", &numbers(0, 10));
    let (nic, memory) = (
        &mut desk.rig.network.nics[STORAGE],
        &desk.rig.network.memory,
    );
    let pd = nic.create_pd();
    let mut regions = Vec::new();
    while let Ok(region) = nic.register(pd, memory.allocate(64).unwrap(), Access::empty()) {
        regions.push(region);
    }
    let Err(RequestError::Refused { code, .. }) = desk.ask("c") else {
        panic!("not refused");
    };
    assert_eq!(code, RefusalCode::NO_MEMORY);
    for region in regions {
        desk.rig.network.nics[STORAGE].deregister(&region);
    }
    assert_eq!(desk.ask("c"), Ok(Reply::Column(numbers(0, 10))));
    desk.destroy();
}

#[test]
fn removal_waits_for_what_is_being_sent() {
    let mut desk = Desk::new();
    desk.serve("c", &numbers(0, 20_000));
    desk.serve("d", &numbers(0, 10));
    for name in ["c", "c", "d"] {
        desk.client.ask(name, None).unwrap();
    }
    desk.until(|desk| desk.server.counters().columns == 1);
    let removal = desk.catalogue.remove("c").unwrap();
    assert!(!removal.is_done());
    assert!(removal.column().is_removed());
    // The one under way is sent to its end, the one that waits is refused.
    desk.until(|desk| desk.answers.len() == 3);
    assert_eq!(
        desk.answers[0].result,
        Ok(Reply::Column(numbers(0, 20_000)))
    );
    assert!(desk.answers[1].result.is_err());
    assert_eq!(desk.answers[2].result, Ok(Reply::Column(numbers(0, 10))));
    desk.rest();
    assert!(removal.is_done());
    drop(removal);
    desk.destroy();
}

#[test]
fn catalogues_say_what_is_wrong() {
    let desk = Desk::new();
    let memory = &desk.rig.network.memory;
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
