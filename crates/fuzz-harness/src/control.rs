//! The stream of control messages: arbitrary bytes, cut anywhere.

use crate::fixture::{Seeds, check_line};
use crate::input::Input;
use rackweave_control::parts::{MessageReader, Reply, TooLong, decode, encode};
use rackweave_control::{
    ControlError, HELLO_LEN_MAX, Hello, MESSAGE_LEN_MAX, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN,
};
use rackweave_rack::hosted::{FlowStatus, HostedFlow, JobStatus, RackStatus};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

const PEER: &str = "a peer";

/// The maximum length of the first body, and of later ones: those of a server, and some so short
/// that a stream of a few bytes exceeds them.
const LIMITS: [(usize, usize); 4] = [
    (HELLO_LEN_MAX, MESSAGE_LEN_MAX),
    (64, 512),
    (512, 64),
    (0, 16),
];

/// Bits 0 and 1 of the first byte: the limits. Bit 2: the bytes after the cuts are lines, each the
/// body of a message, instead of the stream itself. Bits 4 to 7: the number of cuts that follow,
/// each a byte, the length of a piece; they repeat.
///
/// # Panics
/// If the reader, a parser or an error is wrong.
pub fn control(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(choice) = input.byte() else {
        return;
    };
    let limits = LIMITS[usize::from(choice & 3)];
    let cuts = input.bytes(usize::from(choice >> 4));
    let rest = input.bytes(usize::MAX);
    let stream = match choice & 4 {
        0 => rest.to_vec(),
        _ => rest.split(|byte| *byte == b'\n').flat_map(framed).collect(),
    };
    let whole = read(&stream, &[], limits);
    assert_eq!(whole, read(&stream, cuts, limits), "{cuts:?}");
    assert_eq!(whole, model(&stream, limits));
    for body in &whole.0 {
        parse(body);
    }
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes(), body].concat()
}

type Bodies = (Vec<Vec<u8>>, Option<TooLong>);

/// Reads a stream in pieces of these lengths; without cuts it is one piece.
fn read(stream: &[u8], cuts: &[u8], (first, later): (usize, usize)) -> Bodies {
    let mut reader = MessageReader::new(first);
    let (mut bodies, mut limit, mut taken) = (Vec::new(), first, 0);
    let whole = [stream.len()];
    let cuts: Vec<_> = match cuts {
        [] => whole.to_vec(),
        _ => cuts.iter().map(|cut| usize::from(*cut) + 1).collect(),
    };
    let mut rest = stream;
    for cut in cuts.into_iter().cycle() {
        let (piece, behind) = rest.split_at(cut.min(rest.len()));
        reader.handle_bytes(piece);
        (rest, taken) = (behind, taken + piece.len());
        loop {
            match reader.poll_body() {
                Ok(Some(body)) => {
                    assert!(body.len() <= limit, "{} bytes of {limit}", body.len());
                    // A growing vector at most doubles; a body that was only announced takes no
                    // memory.
                    let memory = body.capacity();
                    assert!(memory <= 2 * taken + 64, "{memory} bytes for {taken}");
                    bodies.push(body);
                    limit = later;
                    reader.set_limit(later);
                }
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.poll_body().as_ref(), Err(&error), "it stays");
                    return (bodies, Some(error));
                }
            }
        }
        let given: usize = bodies.iter().map(|body| 4 + body.len()).sum();
        assert_eq!(reader.has_begun(), taken > given);
        if rest.is_empty() {
            break;
        }
    }
    (bodies, None)
}

/// The bodies in a stream, according to the description of the protocol.
fn model(mut stream: &[u8], (first, later): (usize, usize)) -> Bodies {
    let (mut bodies, mut limit) = (Vec::new(), first);
    while let Some((prefix, behind)) = stream.split_first_chunk() {
        let len = u32::from_be_bytes(*prefix) as usize;
        if len > limit {
            return (bodies, Some(TooLong { len, limit }));
        }
        let Some((body, rest)) = behind.split_at_checked(len) else {
            break;
        };
        bodies.push(body.to_vec());
        (stream, limit) = (rest, later);
    }
    (bodies, None)
}

/// Parses the body as the message of every kind.
fn parse(body: &[u8]) {
    match Hello::parse(body, PEER) {
        Ok((hello, version)) => {
            check_version(version);
            assert!((hello.version_min..=hello.version_max).contains(&version));
            let again = again(&hello);
            let parsed = Hello::parse(&again, PEER).expect("a hello as we write it");
            assert_eq!(parsed, (hello, version));
        }
        Err(error) => check_error(&error),
    }
    match Reply::parse(body, PEER) {
        Ok((version, body)) => {
            check_version(version);
            let again = again(&Reply::Welcome {
                version,
                body: body.clone(),
            });
            let parsed = Reply::parse(&again, PEER).expect("a welcome as we write it");
            assert_eq!(parsed, (version, body));
        }
        Err(error) => check_error(&error),
    }
    message::<HostedFlow>(body);
    message::<FlowStatus>(body);
    message::<JobStatus>(body);
    message::<RackStatus>(body);
}

/// A message of this kind is unchanged when it is written again.
fn message<T: DeserializeOwned + Serialize + PartialEq + Debug>(body: &[u8]) {
    match decode::<T>(body, PEER) {
        Ok(value) => {
            let parsed = decode::<T>(&again(&value), PEER).expect("a message as we write it");
            assert_eq!(parsed, value);
        }
        Err(error) => check_error(&error),
    }
}

/// Writes `value` as a message and reads its body from the stream. With a limit one byte lower,
/// writing is refused.
fn again<T: Serialize>(value: &T) -> Vec<u8> {
    let stream = encode(value, MESSAGE_LEN_MAX, PEER).expect("it came in a shorter one");
    let (mut bodies, error) = read(&stream, &[6], (MESSAGE_LEN_MAX, 0));
    assert_eq!((bodies.len(), error), (1, None));
    let body = bodies.remove(0);
    let refused = encode(value, body.len() - 1, PEER).expect_err("it is longer");
    check_error(&refused);
    let said = (body.len(), body.len() - 1);
    assert!(matches!(refused, ControlError::TooLong { len, limit, .. } if (len, limit) == said));
    body
}

fn check_version(version: u16) {
    assert!((PROTOCOL_VERSION_MIN..=PROTOCOL_VERSION).contains(&version));
}

/// An error names the peer, in one line without control characters for a terminal.
fn check_error(error: &ControlError) {
    let text = error.to_string();
    check_line(&text);
    assert!(text.contains(PEER), "{text}");
    // Reason and remedy of a refusal, of 500 characters each, and the text around them.
    assert!(text.chars().count() < 1500, "{text}");
}

/// The initial inputs of the corpus: messages of every kind, and invalid ones.
pub fn seeds() -> Seeds {
    let hello = r#"{"magic":"rackweave-control","version_min":1,"version_max":9,"name":"n0",
        "purpose":"join","rack":"5ca1ab1e","body":{"link":"udp","mtu":null}}"#;
    let ring = r#"{"node":1,"address":4096,"rkey":7,"lkey":8,"item_size":64,"slots":16,
        "big_endian":false}"#;
    let flow = format!(r#"{{"id":3,"consumers":[{ring}],"producers":[[{ring}]]}}"#);
    let rack = r#"{"pid":17,"up_seconds":0.1,"nodes":[{"name":"n0","joined":true,
        "link":"shared-memory","mtu":4096,"pid":18,"joins":1}],"switch_counters":{"drops":2},
        "refused":{},"lanes_used":4}"#;
    let lines: [(&str, &[&str]); 5] = [
        (
            "hello",
            &[
                hello,
                &hello.replace(":1,", ":7,"),
                &hello.replace("name", "nome"),
            ],
        ),
        (
            "answer",
            &[
                r#"{"welcome":{"version":1,"body":[1.5e-7,-0,{"a":"\u00e9"}]}}"#,
                r#"{"welcome":{"version":2,"body":null}}"#,
                r#"{"refused":{"reason":"the name\nis taken","remedy":"\u001b[2J"}}"#,
            ],
        ),
        (
            "flow",
            &[&flow, r#"{"Aborted":{"reason":"its node died"}}"#],
        ),
        (
            "job",
            &[
                r#"{"Done":{"result":[18446744073709551615,5.1781077819716435e-219]}}"#,
                r#""Run\nning""#,
            ],
        ),
        ("rack", &[rack, &"[".repeat(200), "GET / HTTP/1.1\r"]),
    ];
    let mut seeds = Vec::new();
    for (name, bodies) in lines {
        let bodies: Vec<_> = bodies
            .iter()
            .map(|body| body.replace("\n        ", ""))
            .collect();
        let stream = bodies.join("\n");
        seeds.push((name.to_owned(), [&[0x04], stream.as_bytes()].concat()));
    }
    let two = [framed(b"\"Running\""), framed(b"{}")].concat();
    let raw: [(&str, u8, &[u8]); 4] = [
        ("two-in-pieces", 0x22, &two),
        ("too-long", 0x13, &two),
        ("only-announced", 0x11, &[0, 0, 0, 64, b'{']),
        ("endless", 0x10, &[255; 9]),
    ];
    for (name, choice, stream) in raw {
        let cuts = &[0, 4][..usize::from(choice >> 4)];
        seeds.push((name.to_owned(), [&[choice], cuts, stream].concat()));
    }
    seeds
}
