//! Messages above the transport: their parsers get arbitrary bytes, and an index server arbitrary
//! requests.

mod index;
mod parsers;

use crate::fixture::Seeds;
use crate::input::Input;
use index::Index;
use rackweave_endpoint::btree::Direction;
use rackweave_endpoint::index::message::{Entries, Method, Request};
use rackweave_endpoint::index::{EndpointId, MoveId, PartitionMap};
use rackweave_wire::fabric::message::column::{
    Ask, AskList, ColumnHeader, ColumnShape, DataType, ListEntry, ListHeader, RefusalCode, Refused,
    Unchanged,
};
use rackweave_wire::fabric::rpc::{CallHeader, CallId, MessageHeader, MessageKind};

/// Every parser gets all bytes. Then the bytes are requests to an index server, each of them one
/// byte with the method, one with the request's length, one with the maximum length of the reply in
/// units of 16 bytes, and the request.
///
/// # Panics
/// If a parser, the server or its tree is wrong.
pub fn rpc(data: &[u8]) {
    parsers::all(data);
    let mut input = Input::new(data);
    let mut index = Index::new();
    while let (Some(method), Some(len), Some(units)) = (input.byte(), input.byte(), input.byte()) {
        let request = input.bytes(usize::from(len));
        let reply_max = usize::from(units) * 16;
        index.serve(u16::from(method), request, reply_max);
    }
    index.check();
}

/// One request to the index server.
fn request(of: &Request<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    of.encode(&mut bytes);
    let len = u8::try_from(bytes.len()).expect("seeds are short");
    [&[of.method() as u8, len, 64], &bytes[..]].concat()
}

/// The initial inputs of the corpus: a message of every kind, and sequences of index requests.
pub fn seeds() -> Seeds {
    let messages = messages().into_iter();
    let mut seeds: Seeds = messages
        .map(|(name, bytes)| (format!("message-{name}"), bytes))
        .collect();
    let id = MoveId(7);
    let map = PartitionMap::whole(2, EndpointId(0)).expect("two endpoints");
    let mut bytes = Vec::new();
    for key in 0..4 {
        Entries::push(&mut bytes, key * 5, b"a value");
    }
    let entries = Entries::new(&bytes).expect("they are whole");
    let key = 10;
    let story = |requests: &[Request<'_>]| requests.iter().flat_map(request).collect::<Vec<u8>>();
    seeds.push(("index-work".to_owned(), story(&work(key, entries))));
    let mark = Request::Mark {
        id,
        to: EndpointId(1),
        low: 8,
        last: u64::MAX,
        entries_max: 100,
        map: map.clone(),
    };
    let given = [
        Request::Load { entries },
        mark,
        Request::Export { id, from: 8 },
        Request::Release { id },
        Request::Get { key },
        Request::Commit {
            id,
            map: map.clone(),
        },
    ];
    seeds.push(("index-given-away".to_owned(), story(&given)));
    let taken = [
        Request::Stage {
            id,
            low: 8,
            last: 20,
            map: map.clone(),
        },
        Request::Install { id, entries },
        Request::Seal { id, entries: 4 },
        Request::Adopt { id, map },
        Request::Discard { id },
    ];
    seeds.push(("index-taken-over".to_owned(), story(&taken)));
    let mut unknown = request(&Request::Get { key });
    unknown[0] = Method::Adopt as u8 + 1;
    seeds.push(("index-unknown".to_owned(), unknown));
    seeds
}

/// What clients ask for.
fn work(key: u64, entries: Entries<'_>) -> [Request<'_>; 12] {
    let value = &b"eight by"[..];
    let scan = |direction| Request::Scan {
        low: 2,
        last: 99,
        direction,
        limit: 3,
    };
    [
        Request::Load { entries },
        Request::Insert { key: 9, value },
        Request::Update { key, value },
        Request::Get { key },
        scan(Direction::Forward),
        scan(Direction::Backward),
        Request::Delete { key },
        Request::Put { key, value: b"" },
        Request::Get { key: 9 },
        Request::Map,
        Request::Statistics,
        Request::State,
    ]
}

fn messages() -> Vec<(&'static str, Vec<u8>)> {
    let shape = ColumnShape::new(DataType::Utf8, 3, 1, 11).expect("three texts");
    let (request, version) = (5, 0x1234);
    let column = ColumnHeader {
        request,
        version,
        shape,
    };
    let (mut ask, mut refused) = (Vec::new(), Vec::new());
    let asks = Ask {
        request,
        known: Some(version),
        name: "lineitem.l_comment",
    };
    asks.emit(&mut ask).expect("the name is short");
    let code = RefusalCode::UNKNOWN_COLUMN;
    let text = "there is none of that name";
    let refusal = Refused {
        request,
        code,
        text,
    };
    refusal.emit(&mut refused);
    let mut list = ListHeader { request, count: 2 }.emit().to_vec();
    for name in ["one", "two"] {
        let entry = ListEntry {
            name,
            version,
            shape,
        };
        entry.emit(&mut list).expect("the name is short");
    }
    let mut calls = MessageHeader {
        kind: MessageKind::Request,
        count: 2,
        grant: 3,
        incarnation: 9,
    }
    .emit()
    .to_vec();
    for slot in 0..2 {
        let id = CallId {
            slot,
            generation: 1,
        };
        let header = CallHeader {
            id,
            code: 1,
            length: 8,
        };
        calls.extend([header.emit(), [7; 8]].concat());
    }
    let map = PartitionMap::whole(2, EndpointId(1)).expect("two endpoints");
    vec![
        ("ask", ask),
        ("ask-list", AskList { request }.emit().to_vec()),
        ("unchanged", Unchanged { request, version }.emit().to_vec()),
        ("refused", refused),
        ("column", column.emit().to_vec()),
        ("list", list),
        ("calls", calls),
        ("map", map.encode()),
    ]
}
