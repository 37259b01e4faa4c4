//! The numbers in the guide.

use rackweave_wire::fabric::{lookup, message, page, query, ring, rpc, sequencer, tree};

/// All numbers, in the order of the guide.
#[expect(clippy::too_many_lines, reason = "a list of all numbers")]
pub fn all() -> Vec<(&'static str, String)> {
    use message::{column, handshake};
    let hex = |value: u64, digits: usize| format!("{value:#0width$x}", width = digits + 2);
    let name = u64::from(lookup::MAGIC);
    let page = page::PageId::new(0, 5).expect("a small number");
    vec![
        (
            "ring: magic, bits 16 to 31 of each word",
            hex(ring::MAGIC.into(), 4),
        ),
        ("ring: most slots", ring::SLOTS_MAX.to_string()),
        ("page: tag of page 5 of store 0", hex(page.tag(), 16)),
        ("page: tag of no page", hex(page::header::VOID, 16)),
        ("page: smallest, bytes", page::PAGE_SIZE_MIN.to_string()),
        ("page: largest, bytes", page::PAGE_SIZE_MAX.to_string()),
        (
            "page: most buffer frames of a node",
            page::request::FRAMES_MAX.to_string(),
        ),
        (
            "page: most slots of a channel",
            page::request::SLOTS_MAX.to_string(),
        ),
        ("tree: first word of the superblock", hex(tree::MAGIC, 16)),
        ("tree: longest value, bytes", tree::VALUE_MAX.to_string()),
        ("tree: unit of the heap, bytes", tree::UNIT.to_string()),
        (
            "tree: least limit of children",
            tree::FAN_OUT_MIN.to_string(),
        ),
        (
            "tree: check of entry (1, 2), inline",
            hex(tree::check_of_entry(1, 2, false), 16),
        ),
        (
            "tree: check of entry (1, 2), reference",
            hex(tree::check_of_entry(1, 2, true), 16),
        ),
        (
            "tree: check of header (node 1; words 2 to 6 are 3, 4, 5, 6, 7)",
            hex(tree::check_of_header(1, 3, 4, 5, 6, 7), 16),
        ),
        (
            "tree: check of record (first word 3, key 4, one word 5)",
            hex(tree::check_of_record(3, 4, [5].into_iter()), 16),
        ),
        ("calls: magic", hex(rpc::MAGIC.into(), 4)),
        ("calls: version", rpc::VERSION.to_string()),
        (
            "calls: messages before the first reply",
            rpc::GRANT_INITIAL.to_string(),
        ),
        (
            "calls: longest content, bytes",
            rpc::PAYLOAD_MAX.to_string(),
        ),
        ("sequencer: RPC method", hex(sequencer::NEXT.into(), 4)),
        (
            "sequencer: most numbers of one request",
            sequencer::RANGE_MAX.to_string(),
        ),
        (
            "sequencer: numbers are below",
            sequencer::NUMBERS_END.to_string(),
        ),
        ("queries: UDP port", query::PORT.to_string()),
        (
            "queries: most links between switches",
            query::HOPS_MAX.to_string(),
        ),
        ("lookups: UDP port", lookup::PORT.to_string()),
        ("lookups: magic", hex(name, 4)),
        ("lookups: version", lookup::VERSION.to_string()),
        (
            "messages: entries of a buffer info",
            message::ENTRIES.to_string(),
        ),
        (
            "messages: bytes of an entry",
            message::ENTRY_LEN.to_string(),
        ),
        (
            "messages: most receive buffers",
            message::RECEIVE_BUFFERS_MAX.to_string(),
        ),
        (
            "messages: pieces begin at multiples of",
            message::PIECE_ALIGN.to_string(),
        ),
        ("handshake: version", handshake::VERSION.to_string()),
        (
            "handshake: longest message, bytes",
            handshake::MESSAGE_MAX.to_string(),
        ),
        (
            "handshake: smallest receive buffer, bytes",
            handshake::RECEIVE_BYTES_MIN.to_string(),
        ),
        (
            "handshake: largest receive buffer, bytes",
            handshake::RECEIVE_BYTES_MAX.to_string(),
        ),
        ("columns: layout", column::LAYOUT.to_string()),
        ("columns: opcode of ask", hex(column::ASK.into(), 8)),
        (
            "columns: opcode of ask for a list",
            hex(column::ASK_LIST.into(), 8),
        ),
        ("columns: opcode of column", hex(column::COLUMN.into(), 8)),
        (
            "columns: opcode of unchanged",
            hex(column::UNCHANGED.into(), 8),
        ),
        ("columns: opcode of list", hex(column::LIST.into(), 8)),
        ("columns: opcode of refused", hex(column::REFUSED.into(), 8)),
        ("columns: most rows", column::ROWS_MAX.to_string()),
        ("columns: longest name, bytes", column::NAME_MAX.to_string()),
        (
            "columns: longest text of a refusal, bytes",
            column::REFUSAL_TEXT_MAX.to_string(),
        ),
    ]
}
