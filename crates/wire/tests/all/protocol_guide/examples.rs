//! Examples of the guide, each as a value.

use rackweave_base::{MacAddr, Psn, Qpn, Rkey};
use rackweave_wire::fabric::lookup::{self, Ask};
use rackweave_wire::fabric::message::column::{ColumnHeader, ColumnShape, DataType};
use rackweave_wire::fabric::message::handshake::{
    Keys, Message, QueuePair, Refusal, RefusalCode, Terms, WriteTarget as KeyedPlace,
};
use rackweave_wire::fabric::message::{CloseReason, PieceHeader, Sequence, Word, column};
use rackweave_wire::fabric::page::{
    Completion, FallbackLatch, LatchWord, Operation, Outcome, PageHeader, PageId, PageLocation,
    PageSource, Request, Response, Status,
};
use rackweave_wire::fabric::query::Progress;
use rackweave_wire::fabric::ring::{
    ByteOrder, CommitRecord, NodeState, NodeWord, SwitchState, SwitchWord,
};
use rackweave_wire::fabric::rpc::{self, CallHeader, CallId, MessageHeader, MessageKind};
use rackweave_wire::fabric::sequencer;
use rackweave_wire::fabric::tree::{Meta, NodePointer, Superblock, ValueRef};
use zerocopy::{FromBytes, IntoBytes};

/// An example: the bytes of a value, and the conversion from bytes to a value and back.
pub struct Example {
    /// Its name in the guide.
    pub name: &'static str,
    /// The encoding of the value by the code.
    pub bytes: Vec<u8>,
    /// Parses bytes and encodes them again; `None` if they cannot be parsed.
    pub again: fn(&[u8]) -> Option<Vec<u8>>,
}

fn example(
    name: &'static str,
    bytes: impl Into<Vec<u8>>,
    again: fn(&[u8]) -> Option<Vec<u8>>,
) -> Example {
    let bytes = bytes.into();
    Example { name, bytes, again }
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// All examples, in the order of the guide.
pub fn all() -> Vec<Example> {
    let rooms = [
        rings(),
        pages(),
        trees(),
        calls(),
        queries(),
        messages(),
        columns(),
    ];
    rooms.into_iter().flatten().collect()
}

fn rings() -> Vec<Example> {
    let node = NodeWord {
        counter: 258,
        state: NodeState::Finished,
    };
    let record = CommitRecord {
        producer: 1,
        tail: 7,
    };
    let head = SwitchWord {
        counter: 9,
        state: SwitchState::Open,
    };
    let node_word_again = |bytes: &[u8]| {
        let node = NodeWord::try_from(word(bytes, 0)?).ok()?;
        Some(words(&[node.into()]))
    };
    vec![
        example("ring-node-word", words(&[node.into()]), node_word_again),
        example(
            "ring-node-word-big-endian",
            ByteOrder::Big.to_bytes(node.into()),
            |bytes| {
                let node = NodeWord::try_from(ByteOrder::Big.from_bytes(bytes.try_into().ok()?));
                Some(ByteOrder::Big.to_bytes(node.ok()?.into()).to_vec())
            },
        ),
        example(
            "ring-commit",
            words(&[record.into(), head.into()]),
            |bytes| {
                let record = CommitRecord::from(word(bytes, 0)?);
                let head = SwitchWord::try_from(word(bytes, 8)?).ok()?;
                Some(words(&[record.into(), head.into()]))
            },
        ),
    ]
}

#[expect(clippy::too_many_lines, reason = "a list of examples")]
fn pages() -> Vec<Example> {
    let page = PageId::new(1, 0x0203).expect("a small number");
    let request = Request {
        operation: Operation::RefreshShared,
        page,
        argument: 9,
        slot: 3,
        frame: 0x0405,
    };
    let reth = |request: &Request| {
        let key = request.rkey().to_be_bytes();
        [
            &request.address().to_be_bytes()[..],
            &key,
            &16_u32.to_be_bytes(),
        ]
        .concat()
    };
    let response = Response {
        status: Status::Moving,
        granted: true,
        command: 0x0102_0304,
        latch: LatchWord::open(9).locked(),
        leased: false,
    };
    let completion = Completion {
        outcome: Outcome::Done,
        source: PageSource::Storage,
        nvme_status: 0,
        command: 0x0102_0304,
        latch: LatchWord::open(9).locked(),
    };
    let (first, second) = completion.words();
    let fallback = FallbackLatch::new(LatchWord::open(9).locked(), Some(2));
    let entry = words(&[fallback.0, PageLocation::dirty(2, 0x0405).0]);
    let header = PageHeader {
        page: page.tag(),
        version: 9,
        checksum: 0x1112_1314_1516_1718,
        store: 0x2122_2324_2526_2728,
        lsn: 0x3132_3334_3536_3738,
        epoch: 0x4142_4344_4546_4748,
    };
    vec![
        example("page-request", reth(&request), |bytes| {
            let address = u64::from_be_bytes(*bytes.first_chunk()?);
            let rkey = u32::from_be_bytes(*bytes.get(8..)?.first_chunk()?);
            let request = Request::parse(address, rkey)?;
            let key = request.rkey().to_be_bytes();
            Some([&request.address().to_be_bytes()[..], &key, &bytes[12..]].concat())
        }),
        example("page-response", response.emit(), |bytes| {
            Some(
                Response::parse(word(bytes, 0)?, word(bytes, 8)?)?
                    .emit()
                    .to_vec(),
            )
        }),
        example("page-completion", words(&[first, second]), |bytes| {
            let (first, second) = Completion::parse(word(bytes, 0)?, word(bytes, 8)?)?.words();
            Some(words(&[first, second]))
        }),
        example("page-entry", entry, |bytes| {
            let (latch, place) = (
                FallbackLatch(word(bytes, 0)?),
                PageLocation(word(bytes, 8)?),
            );
            let (node, frame) = place.cached()?;
            let latch = FallbackLatch::new(latch.latch(), latch.holder());
            Some(words(&[latch.0, PageLocation::dirty(node, frame).0]))
        }),
        example("page-header", header.emit(), |bytes| {
            Some(PageHeader::parse(bytes)?.emit().to_vec())
        }),
    ]
}

fn trees() -> Vec<Example> {
    let tree = Superblock {
        node_size: 512,
        tree_nodes: 100,
        heap_bytes: 6400,
        value_max: 1000,
        tree: 7,
        fan_out: 16,
    };
    let pointer = NodePointer { index: 5, epoch: 3 };
    let meta = Meta {
        epoch: 3,
        level: 2,
        count: 7,
    };
    let value = ValueRef {
        unit: 6,
        length: 30,
        incarnation: 5,
    };
    let all = [meta.to_word(), pointer.to_word(), value.to_word()];
    vec![
        example("tree-superblock", words(&tree.encode()), |bytes| {
            let words_of = core::array::from_fn(|at| word(bytes, 8 * at).unwrap_or(0));
            let tree = Superblock::decode(&words_of, u64::MAX).ok()?;
            Some(words(&tree.encode()))
        }),
        example("tree-words", words(&all), |bytes| {
            let meta = Meta::from_word(word(bytes, 0)?);
            let pointer = NodePointer::from_word(word(bytes, 8)?);
            let value = ValueRef::from_word(word(bytes, 16)?);
            Some(words(&[meta.to_word(), pointer.to_word(), value.to_word()]))
        }),
    ]
}

fn calls() -> Vec<Example> {
    let header = MessageHeader {
        kind: MessageKind::Reply,
        count: 1,
        grant: 12,
        incarnation: 0x0102_0304_0506_0708,
    };
    let call = CallHeader {
        id: CallId {
            slot: 3,
            generation: 2,
        },
        code: 0,
        length: 2,
    };
    let reply = [&header.emit()[..], &call.emit(), b"ok"].concat();
    let request = sequencer::Request {
        sequencer: 0x0102_0304_0506_0708,
        count: 3,
    };
    vec![
        example("call-reply", reply, |bytes| {
            let (header, calls) = rpc::parse(bytes).ok()?;
            let mut again = header.emit().to_vec();
            for call in calls {
                let call = call.ok()?;
                let header = CallHeader {
                    id: call.id,
                    code: call.code,
                    length: call.payload.len() as u16,
                };
                again.extend(header.emit());
                again.extend(call.payload);
            }
            Some(again)
        }),
        example("sequencer-request", request.emit(), |bytes| {
            Some(sequencer::Request::parse(bytes)?.emit().to_vec())
        }),
    ]
}

fn queries() -> Vec<Example> {
    let progress = Progress {
        is_lookup: false,
        fat_root_met: true,
        bank: 1,
        hops: 0,
        layer: 2,
        depth: 2,
        slot: 7,
        server: 0,
        node: 129,
    };
    let mut get = Vec::new();
    Ask::Get { key: 1234 }.emit(0x0102_0304_0506_0708, 9, &mut get);
    let reply = lookup::Reply {
        op: lookup::Op::Get as u8,
        status: rpc::Status::OK,
        level: 0,
        key: 1234,
        id: 9,
        client: 0x0102_0304_0506_0708,
        body: b"\0value",
    };
    let mut answer = Vec::new();
    reply.emit(&mut answer);
    vec![
        example("query-header", progress.emit(), |bytes| {
            Some(
                Progress::parse(bytes.try_into().ok()?)
                    .ok()?
                    .emit()
                    .to_vec(),
            )
        }),
        example("lookup-get", get, |bytes| {
            let request = lookup::Request::parse(bytes).ok()?;
            let mut again = Vec::new();
            request.ask()?.emit(request.client, request.id, &mut again);
            Some(again)
        }),
        example("lookup-reply", answer, |bytes| {
            let mut again = Vec::new();
            lookup::Reply::parse(bytes).ok()?.emit(&mut again);
            Some(again)
        }),
    ]
}

fn messages() -> Vec<Example> {
    let sequence = Sequence::of(5);
    let filled = Word::Filled {
        sequence,
        length: 64,
    };
    let closed = Word::Closed {
        reason: CloseReason::NodeStops,
    };
    let all = [filled, Word::Free { sequence }, closed].map(u64::from);
    let piece = PieceHeader {
        opcode: 7.into(),
        length: 22.into(),
        total: 22.into(),
        offset: 0.into(),
        message: 1.into(),
        flags: 0.into(),
    };
    let terms = Terms {
        fabric: 0x0102_0304_0506_0708,
        message_max: 1 << 32,
        receive_bytes: 1024,
        ip: [10, 77, 0, 1].into(),
        mac: MacAddr([2, 0, 0, 0, 0, 1]),
        mtu_bytes: 4096,
        receive_buffers: 4,
        channels_up: 1,
        channels_down: 1,
        word_last: true,
    };
    let pair = |qpn, psn| QueuePair {
        qpn: Qpn(qpn),
        psn: Psn::new(psn),
    };
    let place = |address, rkey| KeyedPlace {
        address,
        rkey: Rkey(rkey),
    };
    let keys = Keys {
        queue_pairs: vec![pair(17, 0x01_0203), pair(18, 0x04_0506)],
        buffer_info: place(0x1000, 0x1112_1314),
        receive: place(0x2000, 0x2122_2324),
    };
    let refusal = Refusal::new(RefusalCode::Busy, "later");
    let again = |bytes: &[u8]| {
        let (message, length) = Message::take(bytes).ok()??;
        (length == bytes.len()).then(|| message.emit())
    };
    vec![
        example("message-words", words(&all), |bytes| {
            let all = [0, 8, 16].map(|at| Word::try_from(word(bytes, at)?).ok());
            let all: Option<Vec<u64>> = all.into_iter().map(|w| w.map(u64::from)).collect();
            Some(words(&all?))
        }),
        example("message-piece", piece.as_bytes(), |bytes| {
            let piece = PieceHeader::read_from_bytes(bytes).ok()?;
            Some(piece.as_bytes().to_vec())
        }),
        example("handshake-hello", Message::hello(terms).emit(), again),
        example("handshake-open", Message::Open(keys).emit(), again),
        example("handshake-refuse", Message::refuse(refusal).emit(), again),
    ]
}

fn columns() -> Vec<Example> {
    let mut ask = Vec::new();
    let asked = column::Ask {
        request: 3,
        known: Some(0x0102_0304_0506_0708),
        name: "l_tax",
    };
    asked.emit(&mut ask).expect("a short name");
    let shape = ColumnShape::new(DataType::Int32, 2, 0, 0).expect("two rows");
    let mut header = ColumnHeader {
        request: 3,
        version: 0,
        shape,
    };
    let mut values = [0; 64];
    (values[0], values[4]) = (1, 2);
    header.version = header.version_of(&values);
    vec![
        example("column-ask", ask, |bytes| {
            let mut again = Vec::new();
            column::Ask::parse(bytes).ok()?.emit(&mut again).ok()?;
            Some(again)
        }),
        example("column", [&header.emit()[..], &values].concat(), |bytes| {
            let (header, values) = bytes.split_at_checked(64)?;
            let mut header = ColumnHeader::parse(header).ok()?;
            header.version = header.version_of(values);
            Some([&header.emit()[..], values].concat())
        }),
    ]
}
