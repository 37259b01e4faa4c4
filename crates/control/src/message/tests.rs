//! The reader of messages compared with a model that reads the whole stream at once.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// All bodies in `stream`, and the length that ended it, if one did.
fn model(mut stream: &[u8], limit: usize) -> (Vec<Vec<u8>>, Option<usize>) {
    let mut bodies = Vec::new();
    while stream.len() >= 4 {
        let len = stream[..4]
            .iter()
            .fold(0, |len, byte| len * 256 + usize::from(*byte));
        if len > limit {
            return (bodies, Some(len));
        }
        if stream.len() < 4 + len {
            break;
        }
        bodies.push(stream[4..4 + len].to_vec());
        stream = &stream[4 + len..];
    }
    (bodies, None)
}

/// The result of the reader when `stream` arrives in pieces of `cuts` bytes in turn.
fn read(stream: &[u8], cuts: &[usize], limit: usize) -> (Vec<Vec<u8>>, Option<usize>) {
    let mut reader = MessageReader::new(limit);
    let mut bodies = Vec::new();
    let mut rest = stream;
    for cut in cuts.iter().cycle() {
        loop {
            match reader.poll_body() {
                Ok(Some(body)) => bodies.push(body),
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(error.limit, limit);
                    return (bodies, Some(error.len));
                }
            }
        }
        assert!(
            reader.bytes.len() < 4 + limit,
            "holds more than one message"
        );
        if rest.is_empty() {
            return (bodies, None);
        }
        let (piece, later) = rest.split_at((*cut).min(rest.len()));
        reader.handle_bytes(piece);
        rest = later;
    }
    unreachable!("cuts is not empty")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn random_bytes_read_as_the_model_does(
        stream in vec(prop_oneof![3 => Just(0u8), 2 => 0u8..8, 1 => any::<u8>()], 0..400),
        cuts in vec(1usize..40, 1..8),
        limit in prop_oneof![0usize..16, Just(MESSAGE_LEN_MAX)],
    ) {
        prop_assert_eq!(read(&stream, &cuts, limit), model(&stream, limit));
    }

    #[test]
    fn what_is_encoded_is_read(
        texts in vec("[a-z]{0,60}", 1..8),
        cuts in vec(1usize..40, 1..8),
    ) {
        let stream: Vec<u8> = texts
            .iter()
            .flat_map(|text| encode(text, MESSAGE_LEN_MAX, "p").expect("short enough"))
            .collect();
        let (bodies, error) = read(&stream, &cuts, MESSAGE_LEN_MAX);
        prop_assert_eq!(error, None);
        let decoded: Vec<String> = bodies
            .iter()
            .map(|body| serde_json::from_slice(body).expect("the JSON that was written"))
            .collect();
        prop_assert_eq!(decoded, texts);
    }

    #[test]
    fn numbers_arrive_as_they_were_sent(
        number in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL
    ) {
        let stream = encode(&number, MESSAGE_LEN_MAX, "p").expect("short enough");
        prop_assert_eq!(decode::<f64>(&stream[PREFIX_LEN..], "p").expect("a number"), number);
    }
}

#[test]
fn bytes_on_the_wire() {
    let bytes = encode(&serde_json::json!({"a": [1, true]}), 100, "p").expect("short enough");
    assert_eq!(bytes, b"\x00\x00\x00\x0e{\"a\":[1,true]}");
}

#[test]
fn the_limit_is_the_longest_that_passes() {
    // A text of n letters has two additional quotes.
    assert_eq!(
        encode(&"x".repeat(98), 100, "p").expect("just fits").len(),
        104
    );
    let error = encode(&"x".repeat(99), 100, "p");
    assert!(matches!(
        error,
        Err(ControlError::TooLong {
            len: 101,
            limit: 100,
            ..
        })
    ));

    let mut reader = MessageReader::new(100);
    reader.handle_bytes(&[0, 0, 0, 101]);
    assert_eq!(
        reader.poll_body(),
        Err(TooLong {
            len: 101,
            limit: 100
        })
    );
    let mut reader = MessageReader::new(100);
    reader.handle_bytes(&[0, 0, 0, 100]);
    assert_eq!(reader.poll_body(), Ok(None));
    assert!(reader.has_begun());
}

#[test]
fn what_is_wrong_with_a_message_is_said_in_one_short_line() {
    #[derive(Debug, serde::Deserialize)]
    enum Answer {
        Yes,
    }
    let names = [
        "N\\no".to_string(),
        "\\u001b[2J".to_string(),
        "n".repeat(9000),
    ];
    for name in names {
        let body = format!("\"{name}\"");
        let error = decode::<Answer>(body.as_bytes(), "p").expect_err("no answer");
        let text = error.to_string();
        assert!(
            !text.contains(char::is_control) && text.len() < 1000,
            "{text:?}"
        );
    }
}
