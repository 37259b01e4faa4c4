//! The initial inputs of the corpus.

use crate::fixture::{Seeds, named};

/// Kinds of steps: `messaging` defines the meaning of their bytes.
const PEEK: u8 = 0;
const RELEASE: u8 = 1;
const DRAIN: u8 = 2;
const POLL: u8 = 3;
const SEND: u8 = 4;
const SOUND: u8 = 5;
const FREE: u8 = 6;
const ALTERED: u8 = 7;
const BUFFERS: u8 = 8;
const INFO: u8 = 9;
const WORD: u8 = 10;
const HEADER: u8 = 11;
const ENTRY: u8 = 12;
const PASS: u8 = 13;
const HONEST: u8 = 14;
const SELDOM: u8 = 15;

/// A step with its value.
const fn of(kind: u8, value: u8) -> u8 {
    kind | value << 4
}

/// Two receive buffers, three, three with messages copied out, three for two channels, seven.
const TWO: u8 = 1;
const THREE: u8 = 2;
const COPIES: u8 = 2 | 32;
const CHANNELS: u8 = 2 | 4;
const SEVEN: u8 = 3;
/// Two and three with inline buffers.
const INLINE: u8 = 1 | 64;
const INLINE_COPIES: u8 = 2 | 32 | 64;

/// Takes what has arrived, and reports free buffers.
const TAKE: [u8; 2] = [DRAIN, POLL];

/// The inputs by name.
pub fn seeds() -> Seeds {
    let all = [
        ("sound", sound()),
        ("altered", altered()),
        ("words", words()),
        ("ends", ends()),
    ];
    named(&[], all.map(|(name, stories)| (name, stories.concat())))
}

fn story(setup: u8, steps: &[&[u8]]) -> Vec<u8> {
    let another = [of(SELDOM, 7), 0];
    [&[setup][..], &steps.concat(), &another].concat()
}

const SHORT: [u8; 3] = [of(SOUND, 3), 90, 0];
const LONG: [u8; 3] = [SOUND, 0x88, 0x13];
/// As `SHORT`, in one WRITE with its word if the setup allows.
const SMALL: [u8; 3] = [of(SOUND, 7), 90, 0];
/// Only its opcode is altered, and it does not wait for a buffer.
const EARLY: [u8; 5] = [ALTERED, 0, 77, 0, DRAIN];

/// Nodes that follow the protocol.
fn sound() -> Vec<Vec<u8>> {
    let on_second = [of(SOUND, 9), 70, 1, of(DRAIN, 8)];
    let piecewise = [PEEK, PEEK, RELEASE, PEEK, RELEASE, POLL];
    let sends = [SEND, 200, 0, SEND, 0xff, 3, SEND, 0xff, 15];
    let frees = [FREE, of(FREE, 1), of(FREE, 2), POLL];
    let beside = [HONEST, 9, of(HONEST, 3), 200, of(HONEST, 2), 0];
    let pass = [PASS, 255, 255];
    vec![
        story(TWO, &[&SHORT, &TAKE, &SHORT, &TAKE, &SHORT, &TAKE]),
        story(THREE, &[&[&LONG[..], &TAKE].concat().repeat(6)]),
        story(COPIES, &[&LONG, &SHORT, &TAKE, &LONG, &TAKE]),
        story(CHANNELS, &[&SHORT, &on_second, &TAKE, &on_second]),
        story(0, &[&LONG, &SHORT, &TAKE, &SHORT, &TAKE]),
        story(TWO, &[&SHORT, &piecewise, &LONG, &piecewise]),
        story(TWO, &[&sends, &frees, &sends, &frees, &frees]),
        story(TWO, &[&sends, &[SELDOM, 0], &frees, &frees]),
        story(TWO, &[&beside, &SHORT, &beside, &TAKE, &beside]),
        story(TWO, &[&pass, &SHORT, &pass, &TAKE]),
        story(
            INLINE,
            &[&SMALL, &TAKE, &SHORT, &TAKE, &SMALL, &SMALL, &TAKE],
        ),
        story(INLINE_COPIES, &[&LONG, &SMALL, &TAKE, &LONG, &TAKE, &SMALL]),
        story(INLINE, &[&SMALL, &piecewise, &sends, &frees, &piecewise]),
    ]
}

/// Packages with one wrong field in a header, before or while they are read.
fn altered() -> Vec<Vec<u8>> {
    let mut stories = Vec::new();
    for field in 0..8 {
        let altered = [of(ALTERED, field), 9 * (field & 1), 1, 1];
        let mended = [of(HEADER, field), 1, 0, 0xff, 0xfe];
        let setup = [THREE, COPIES][usize::from(field & 1)];
        stories.push(story(setup, &[&altered, &TAKE, &mended, &TAKE]));
        let changed = [of(HEADER, field), 1, 0, 1, 0];
        let steps: [&[u8]; 4] = [&[SOUND, 90, 0, PEEK], &changed, &[PEEK, RELEASE], &TAKE];
        stories.push(story(THREE, &steps));
    }
    stories
}

/// Words and bytes in wrong positions.
fn words() -> Vec<Vec<u8>> {
    let noise = [0xff, 7, 1, 0, 0, 0, 96, 0, 0, 0, 3, 9];
    let mut stories = vec![
        story(TWO, &[&[BUFFERS, 8, 0, 12], &noise, &SHORT, &TAKE]),
        story(TWO, &[&SHORT, &[INFO, 70, 0, 12], &noise, &TAKE]),
    ];
    for (value, near) in [(0, 0), (0, 1), (0, 0xff), (2, 0), (2, 2), (3, 0)] {
        let word = [of(WORD, value), near, 96, 0];
        stories.push(story(TWO, &[&SHORT, &word, &TAKE, &TAKE]));
    }
    // Words of the inline buffer of buffer 0: of a package that is not there, and of another state.
    for word in [[1, 0, 0, 0, 96], [1, 0, 0, 0, 33], [2, 0, 0, 0, 0]] {
        let at = 1024 + 992_u16;
        let [low, high] = at.to_le_bytes();
        let written = [&[INFO, low, high, 5][..], &word].concat();
        stories.push(story(INLINE, &[&written, &TAKE, &SMALL, &TAKE]));
    }
    for entry in [0, 1, 8, 9, 15] {
        let word = [of(ENTRY, entry), 2, 1, 0, 0, 0, 0, 0, 0];
        stories.push(story(TWO, &[&word, &TAKE]));
    }
    stories
}

/// Floods, foreign keys, and actions that end a connection.
fn ends() -> Vec<Vec<u8>> {
    let polled = [&EARLY[..], &[POLL]].concat();
    let mut stories = vec![
        story(THREE, &[&EARLY.repeat(9), &TAKE]),
        story(THREE, &[&[of(SELDOM, 2), 1], &polled.repeat(24)]),
        story(SEVEN, &[&polled.repeat(20)]),
        story(TWO, &[&SHORT, &[of(SELDOM, 6), 1], &TAKE, &EARLY, &TAKE]),
        story(TWO, &[&SHORT, &[of(SELDOM, 1), 0xee], &TAKE, &EARLY]),
        story(TWO, &[&SHORT, &[of(SELDOM, 5), 0], &TAKE, &EARLY]),
        story(TWO, &[&[of(SELDOM, 2), 1, SEND, 9, 0, PASS, 255, 255]]),
    ];
    for what in 0..4 {
        let withdraws = [of(SELDOM, 3), what, SEND, 9, 0, PASS, 255, 255];
        stories.push(story(CHANNELS, &[&SHORT, &withdraws, &TAKE, &SHORT]));
    }
    for at in [0, 2, 4, 5, 6] {
        let elsewhere = [of(SELDOM, 4), at, 3, 0];
        stories.push(story(TWO, &[&elsewhere, &SHORT, &TAKE, &[HONEST, 9]]));
    }
    stories
}
