//! An accepted message is unchanged when it is written again.

use rackweave_endpoint::index::PartitionMap;
use rackweave_endpoint::index::message::{Entries, Page, Request};
use rackweave_wire::fabric::message::Word;
use rackweave_wire::fabric::message::column::{
    self, Ask, AskList, BUFFER_ALIGN, Buffer, COLUMN_HEADER_LEN, ColumnHeader, ListEntry,
    ListHeader, Refused, Unchanged,
};
use rackweave_wire::fabric::rpc::{self, CALL_HEADER_LEN, CallHeader, MESSAGE_HEADER_LEN};
use rackweave_wire::fabric::sequencer;

pub fn all(data: &[u8]) {
    calls(data);
    index(data);
    columns(data);
    column(data);
    if let Some(request) = sequencer::Request::parse(data) {
        assert_eq!(request.emit()[..], *data);
    }
    if let Some(bytes) = data.first_chunk() {
        let word = u64::from_le_bytes(*bytes);
        assert!(
            Word::try_from(word).is_ok_and(|taken| u64::from(taken) == word)
                || Word::try_from(word).is_err()
        );
    }
}

fn calls(data: &[u8]) {
    let Ok((header, mut calls)) = rpc::parse(data) else {
        return;
    };
    let mut again = header.emit().to_vec();
    assert_eq!(again[..], data[..MESSAGE_HEADER_LEN]);
    let mut count = 0;
    let mut whole = true;
    for call in calls.by_ref() {
        match call {
            Ok(call) => {
                let length = u16::try_from(call.payload.len()).expect("a length has 16 bits");
                let (id, code) = (call.id, call.code);
                let frame = CallHeader { id, code, length };
                let frame = frame.emit();
                assert_eq!(CallHeader::parse(&frame).length, length);
                again.extend(frame);
                again.extend_from_slice(call.payload);
                count += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                whole = false;
            }
        }
    }
    assert!(calls.next().is_none(), "an error is the end");
    assert!(count <= header.count);
    assert!(data.len() - MESSAGE_HEADER_LEN >= usize::from(count) * CALL_HEADER_LEN);
    assert!(data.starts_with(&again), "what was taken is kept");
    if whole {
        assert_eq!((count, &again[..]), (header.count, data));
    }
}

fn index(data: &[u8]) {
    if let Some((&method, rest)) = data.split_first()
        && let Ok(request) = Request::decode(u16::from(method), rest)
    {
        let mut again = Vec::new();
        request.encode(&mut again);
        assert_eq!(again, rest, "{request:?}");
        assert_eq!(request.method() as u8, method);
    }
    if let Some(entries) = Entries::new(data) {
        let mut again = Vec::new();
        for (key, value) in entries.iter() {
            Entries::push(&mut again, key, value);
        }
        assert_eq!(again, data);
    }
    if let Some(page) = Page::decode(data) {
        assert!(data.ends_with(page.entries.bytes()));
    }
    if let Ok(map) = PartitionMap::decode(data) {
        assert_eq!(map.encode(), data);
    }
}

fn columns(data: &[u8]) {
    let mut again = Vec::new();
    if let Ok(ask) = Ask::parse(data) {
        ask.emit(&mut again).expect("its name was taken");
        assert_eq!(again, data);
    }
    if let Ok(ask) = AskList::parse(data) {
        assert_eq!(ask.emit()[..], *data);
    }
    if let Ok(unchanged) = Unchanged::parse(data) {
        assert_eq!(unchanged.emit()[..], *data);
    }
    again.clear();
    if let Ok(refused) = Refused::parse(data) {
        refused.emit(&mut again);
        assert_eq!(again, data);
    }
    if let Ok((entry, rest)) = ListEntry::parse(data) {
        again.clear();
        entry.emit(&mut again).expect("its name was taken");
        assert_eq!([&again, rest].concat(), data);
        assert!(entry.shape.check().is_ok());
    }
    if let Ok((request, entries)) = column::list_entries(data) {
        let count = entries.len() as u64;
        again.clear();
        again.extend(ListHeader { request, count }.emit());
        for entry in entries {
            entry.emit(&mut again).expect("its name was taken");
        }
        assert_eq!(again, data);
    }
}

/// The header of a column, and the bytes after it.
fn column(data: &[u8]) {
    let Some((head, rest)) = data.split_at_checked(COLUMN_HEADER_LEN) else {
        return;
    };
    let Ok(header) = ColumnHeader::parse(head) else {
        return;
    };
    assert_eq!(header.emit()[..], *head);
    let total = header.total();
    assert!(header.check(total).is_ok() && header.check(total ^ 1).is_err());
    // The buffers follow each other, aligned, and end where the message does.
    let mut end = 0;
    for buffer in Buffer::ALL {
        let range = header.shape.range_of(buffer);
        assert_eq!(range.start, end);
        assert_eq!(range.end - range.start, header.shape.len_of(buffer));
        end = range.end.next_multiple_of(BUFFER_ALIGN);
    }
    assert_eq!(end + COLUMN_HEADER_LEN as u64, total);
    let first = header.version_of(rest);
    assert_eq!(header.version_of(rest), first);
    // A column sent again under another request's number is the same column.
    let other = ColumnHeader {
        request: !header.request,
        version: !header.version,
        ..header
    };
    assert_eq!(other.version_of(rest), first);
}
