//! What is compared with what: a row of the table for each thing that a user does.
//!
//! Sizes, numbers in flight and threads are chosen alike. Embedded racks have a driver thread
//! unless `--drivers 0` is given, which leaves the threads of the ends. What cannot be alike is
//! said in a row's remark.

use super::probe::{Field, Probe};
use super::row::{Contender, Quantity, Row, alltoall, ours, program, redis, ucx};

/// What is not measured, with the reason.
pub const LEFT_OUT: [(&str, &str); 3] = [
    ("iceoryx2", "its build needs bindgen with libclang"),
    (
        "arrow-flight",
        "tonic carries it; the rows of calls have tonic",
    ),
    (
        "racks of processes",
        "every row of ours is an embedded rack",
    ),
];

const NANOS: f64 = 1e-3;
const MILLION: f64 = 1e-6;
const KIB_64: f64 = 65536e-9;
const MIB: f64 = 1048576e-9;

const MESSAGING: &str = "messaging -D 5 --drivers 0";
const RPC: &str = "rpc --threads 1 -D 2";
const SEQUENCER: &str = "sequencer -D 3";
const UCX_SMALL_TAG: &str = "-t tag_bw -s 64 -n 200000";
const UCX_SMALL_AM: &str = "-t ucp_am_bw -s 64 -n 200000";
const UCX_BULK_TAG: &str = "-t tag_bw -s 1048576 -n 2000 -w 100";
const UCX_BULK_AM: &str = "-t ucp_am_bw -s 1048576 -n 2000 -w 100";
const UCX_EMPTY_LATENCY: &str = "-t ucp_am_lat -s 8 -n 100000";
const UCX_EMPTY_RATE: &str = "-t ucp_am_bw -s 8 -n 200000";
/// Two messages of UCX, a request and its reply, are a call.
const HALF: f64 = MILLION / 2.0;

const BULK_REMARK: &str = "ours reads every byte, UCX and iperf3 none; UCX has one buffer of \
    1 MiB, memcpy 64 MiB";
const DEEP_REMARK: &str = "4 MiB on either side; UCX has one buffer of 64 KiB, which caches hold";
const CALLS_REMARK: &str = "256 in flight; UCX: messages one way over two, as a call is a request \
    and a reply";
const TREE_REMARK: &str = "10⁶ random keys of 64 bits, in one process in turn";

pub const ROWS: [Row; 19] = [
    Row {
        name: "ping-pong",
        about: "64 B one way, half of the round trip, median; both ends poll",
        quantity: Quantity::Latency,
        ours: ours("2t", MESSAGING, "/ping_pong/one_way_ns/p50", NANOS),
        peers: &[
            ucx(
                "UCX tag_lat",
                "-t tag_lat -s 64 -n 100000",
                Field::Median,
                1.0,
            ),
            ucx(
                "UCX ucp_am_lat",
                "-t ucp_am_lat -s 64 -n 100000",
                Field::Median,
                1.0,
            ),
        ],
        remark: "",
    },
    Row {
        name: "small-messages",
        about: "64 B one way, as many as go",
        quantity: Quantity::Rate,
        ours: ours("2t", MESSAGING, "/small/messages_per_s", MILLION),
        peers: &[
            ucx("UCX tag_bw", UCX_SMALL_TAG, Field::Rate, MILLION),
            ucx("UCX ucp_am_bw", UCX_SMALL_AM, Field::Rate, MILLION),
        ],
        remark: "ours sends many messages in one package",
    },
    Row {
        name: "read-8",
        about: "READs of 8 B, 64 in flight",
        quantity: Quantity::Rate,
        ours: ours(
            "2t",
            "read_bw -s 8 -t 64 -D 0.5",
            "/messages_per_s",
            MILLION,
        ),
        peers: &[ucx(
            "UCX ucp_get",
            "-t ucp_get -s 8 -O 64 -n 5000000",
            Field::Rate,
            MILLION,
        )],
        remark: "UCX maps the memory and copies by itself; nothing else is in between",
    },
    Row {
        name: "read-64k",
        about: "READs of 64 KiB, one in flight",
        quantity: Quantity::Bandwidth,
        ours: ours(
            "2t",
            "read_bw -s 65536 -t 1 -D 0.5",
            "/gigabytes_per_s",
            1.0,
        ),
        peers: &[
            ucx(
                "UCX ucp_get",
                "-t ucp_get -s 65536 -O 1 -n 100000 -w 1000",
                Field::Rate,
                KIB_64,
            ),
            program(
                "memcpy",
                "1t",
                "memcpy 65536 65536",
                "/gigabytes_per_s",
                1.0,
            ),
        ],
        remark: "",
    },
    Row {
        name: "read-64k-deep",
        about: "READs of 64 KiB, 64 in flight",
        quantity: Quantity::Bandwidth,
        ours: ours(
            "2t",
            "read_bw -s 65536 -t 64 -D 0.5",
            "/gigabytes_per_s",
            1.0,
        ),
        peers: &[
            ucx(
                "UCX ucp_get",
                "-t ucp_get -s 65536 -O 64 -n 100000 -w 1000",
                Field::Rate,
                KIB_64,
            ),
            program(
                "memcpy",
                "1t",
                "memcpy 65536 4194304",
                "/gigabytes_per_s",
                1.0,
            ),
        ],
        remark: DEEP_REMARK,
    },
    Row {
        name: "message-1m",
        about: "messages of 1 MiB, read in place by the receiver",
        quantity: Quantity::Bandwidth,
        ours: ours("2t", MESSAGING, "/in_place/gigabytes_per_s", 1.0),
        peers: &[
            ucx("UCX ucp_am_bw", UCX_BULK_AM, Field::Rate, MIB),
            Contender {
                name: "memcpy",
                ..ours("1t", MESSAGING, "/memcpy/gigabytes_per_s", 1.0)
            },
        ],
        remark: BULK_REMARK,
    },
    Row {
        name: "message-1m-copied",
        about: "messages of 1 MiB, copied to the receiver's own memory",
        quantity: Quantity::Bandwidth,
        ours: ours("2t", MESSAGING, "/copied_out/gigabytes_per_s", 1.0),
        peers: &[
            ucx("UCX tag_bw", UCX_BULK_TAG, Field::Rate, MIB),
            Contender {
                name: "iperf3, TCP loopback",
                threads: "2p",
                probe: Probe::Iperf,
                scale: 1e-9 / 8.0,
            },
        ],
        remark: BULK_REMARK,
    },
    Row {
        name: "shuffle-4k",
        about: "a shuffle of 4 by 4, items of 4 KiB",
        quantity: Quantity::Bandwidth,
        ours: ours(
            "2t",
            "shuffle_bw -s 4096 --nodes 4 -D 1",
            "/gigabytes_per_s",
            1.0,
        ),
        peers: &alltoall(4 << 10),
        remark: SHUFFLE_REMARK,
    },
    Row {
        name: "shuffle-64k",
        about: "the same, items of 64 KiB",
        quantity: Quantity::Bandwidth,
        ours: ours(
            "2t",
            "shuffle_bw -s 65536 --nodes 4 -D 1",
            "/gigabytes_per_s",
            1.0,
        ),
        peers: &alltoall(64 << 10),
        remark: SHUFFLE_REMARK,
    },
    Row {
        name: "shuffle-1m",
        about: "the same, items of 1 MiB",
        quantity: Quantity::Bandwidth,
        ours: ours(
            "2t",
            "shuffle_bw -s 1048576 --nodes 4 -D 1",
            "/gigabytes_per_s",
            1.0,
        ),
        peers: &alltoall(1 << 20),
        remark: SHUFFLE_REMARK,
    },
    Row {
        name: "calls",
        about: "empty calls, together",
        quantity: Quantity::Rate,
        ours: ours("2t", RPC, "/batched/calls_per_s", MILLION),
        peers: &[
            program(
                "tonic, TCP loopback",
                "2t",
                "calls",
                "/calls_per_s",
                MILLION,
            ),
            ucx("UCX ucp_am_bw -s 8", UCX_EMPTY_RATE, Field::Rate, HALF),
        ],
        remark: CALLS_REMARK,
    },
    Row {
        name: "calls-alone",
        about: "empty calls, a message each",
        quantity: Quantity::Rate,
        ours: ours("2t", RPC, "/single/calls_per_s", MILLION),
        peers: &[
            program(
                "tonic, TCP loopback",
                "2t",
                "calls",
                "/calls_per_s",
                MILLION,
            ),
            ucx("UCX ucp_am_bw -s 8", UCX_EMPTY_RATE, Field::Rate, HALF),
        ],
        remark: CALLS_REMARK,
    },
    Row {
        name: "call-latency",
        about: "empty calls, one at a time, median round trip",
        quantity: Quantity::Latency,
        ours: ours("2t", RPC, "/latency_ns/p50", NANOS),
        peers: &[
            program("tonic, TCP loopback", "2t", "calls", "/p50_ns", NANOS),
            ucx("UCX ucp_am_lat -s 8", UCX_EMPTY_LATENCY, Field::Median, 2.0),
        ],
        remark: "",
    },
    Row {
        name: "sequencer",
        about: "numbers of the switch's sequencer, 64 calls in flight, combined",
        quantity: Quantity::Rate,
        ours: ours("2t", SEQUENCER, "/kinds/0/combined/ranges_per_s", MILLION),
        peers: &[
            redis("redis INCR -P 64", 64, Field::Rate, MILLION),
            redis("redis INCR -P 16", 16, Field::Rate, MILLION),
        ],
        remark: "redis: one client, a Unix socket, no persistence",
    },
    Row {
        name: "sequencer-alone",
        about: "the same, each call alone in its message",
        quantity: Quantity::Rate,
        ours: ours("2t", SEQUENCER, "/kinds/0/single/ranges_per_s", MILLION),
        peers: &[
            redis("redis INCR -P 64", 64, Field::Rate, MILLION),
            redis("redis INCR, no pipeline", 1, Field::Rate, MILLION),
        ],
        remark: "",
    },
    Row {
        name: "sequencer-latency",
        about: "the same, one call at a time, median round trip",
        quantity: Quantity::Latency,
        ours: ours("2t", SEQUENCER, "/kinds/0/latency_ns/p50", NANOS),
        peers: &[redis("redis INCR, no pipeline", 1, Field::Median, 1e3)],
        remark: "",
    },
    Row {
        name: "tree",
        about: "lookups in an ordered map by one thread, one at a time",
        quantity: Quantity::Rate,
        ours: program(
            "rackweave",
            "1t",
            "maps",
            "/lookups_per_s/rackweave",
            MILLION,
        ),
        peers: &MAPS,
        remark: TREE_REMARK,
    },
    Row {
        name: "tree-together",
        about: "the same; ours looks up 64 at once",
        quantity: Quantity::Rate,
        ours: program(
            "rackweave",
            "1t",
            "maps",
            "/lookups_per_s/rackweave_together",
            MILLION,
        ),
        peers: &MAPS,
        remark: TREE_REMARK,
    },
    Row {
        name: "pages",
        about: "random pages of 64 KiB from a file of 1 GiB, 16 in flight",
        quantity: Quantity::Bandwidth,
        ours: ours("2t", "pages -D 2", "/storage/pages_per_s", KIB_64),
        peers: &[Contender {
            name: "fio randread, io_uring",
            threads: "1p",
            probe: Probe::Fio,
            scale: KIB_64,
        }],
        remark: "ours goes by the switch's directory; fio reads only",
    },
];

const SHUFFLE_REMARK: &str = "4 MiB of ring or buffer per pair and side; the first 8 bytes of an \
    item are written and checked";

const MAPS: [Contender; 3] = [
    program("congee", "1t", "maps", "/lookups_per_s/congee", MILLION),
    program("scc TreeIndex", "1t", "maps", "/lookups_per_s/scc", MILLION),
    program("std BTreeMap", "1t", "maps", "/lookups_per_s/std", MILLION),
];
