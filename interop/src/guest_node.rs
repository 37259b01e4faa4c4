//! A connection to the program `guest/node` in a guest: lines of text, which that file describes.

use crate::failure::{Doing, Failure, Outcome};
use rackweave_verbs::Access;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Maximum time for an answer in addition to the wait in the request itself.
const PATIENCE: Duration = Duration::from_secs(100);

/// A connection to a guest's node.
pub struct GuestNode {
    guest: u8,
    reader: BufReader<TcpStream>,
}

/// The answer of a node: `name=value` pairs.
pub struct Answer {
    guest: u8,
    request: String,
    line: String,
}

impl GuestNode {
    /// Connects to the node of `guest`, which listens at `port` of this host.
    pub fn connect(guest: u8, port: u16) -> Outcome<Self> {
        let what = || format!("connecting to guest {guest} at port {port}");
        let stream = TcpStream::connect(("127.0.0.1", port)).doing(what())?;
        stream.set_nodelay(true).doing(what())?;
        stream.set_read_timeout(Some(PATIENCE)).doing(what())?;
        Ok(Self {
            guest,
            reader: BufReader::new(stream),
        })
    }

    /// The number of the guest.
    pub fn guest(&self) -> u8 {
        self.guest
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, request: &str) -> Outcome<Answer> {
        let what = || format!("asking guest {} to `{request}`", self.guest);
        let line = format!("{request}\n");
        let sent = self.reader.get_mut().write_all(line.as_bytes());
        sent.doing(what())?;
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        read.doing(what())?;
        let answer = Answer {
            guest: self.guest,
            request: request.to_owned(),
            line: line.trim().to_owned(),
        };
        if answer.line.split(' ').next() == Some("ok") {
            Ok(answer)
        } else {
            Err(answer.unexpected())
        }
    }
}

impl Answer {
    /// The text after the word "ok".
    pub fn text(&self) -> &str {
        self.line.strip_prefix("ok").unwrap_or_default().trim()
    }

    /// The value called `name`.
    pub fn value(&self, name: &str) -> Outcome<&str> {
        self.find(name).ok_or_else(|| self.unexpected())
    }

    /// The number called `name`.
    pub fn number(&self, name: &str) -> Outcome<u64> {
        number(self.value(name)?).ok_or_else(|| self.unexpected())
    }

    /// The number called `name`, if there is one.
    pub fn number_if_any(&self, name: &str) -> Option<u64> {
        number(self.find(name)?)
    }

    /// The text called `name`, which travels as the hexadecimal digits of its bytes.
    pub fn words(&self, name: &str) -> Outcome<String> {
        let digits = self.value(name)?.as_bytes().chunks(2);
        let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = digits.map(byte).collect();
        let bytes = bytes.ok_or_else(|| self.unexpected())?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A failure that shows this answer.
    pub fn unexpected(&self) -> Failure {
        Failure::Guest {
            guest: self.guest,
            request: self.request.clone(),
            answer: self.line.clone(),
        }
    }

    fn find(&self, name: &str) -> Option<&str> {
        let mut pairs = self
            .text()
            .split(' ')
            .filter_map(|pair| pair.split_once('='));
        pairs.find_map(|(key, value)| (key == name).then_some(value))
    }
}

/// A decimal or 0x-hexadecimal number.
pub fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Access rights in the node's notation.
pub fn letters(access: Access) -> String {
    let names = [
        (Access::LOCAL_WRITE, 'l'),
        (Access::REMOTE_READ, 'r'),
        (Access::REMOTE_WRITE, 'w'),
        (Access::REMOTE_ATOMIC, 'a'),
    ];
    let held = names.iter().filter(|(right, _)| access.contains(*right));
    let letters: String = held.map(|(_, letter)| letter).collect();
    if letters.is_empty() {
        "-".to_owned()
    } else {
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_taken_apart() {
        let answer = Answer {
            guest: 1,
            request: "qp 1 1".to_owned(),
            line: "ok qpn=17 va=0x20 gid=a text=4f4b0a none=".to_owned(),
        };
        assert_eq!(answer.words("text").unwrap(), "OK\n");
        assert_eq!(answer.words("none").unwrap(), "");
        assert!(answer.words("va").is_err());
        assert_eq!(answer.number("qpn").unwrap(), 17);
        assert_eq!(answer.number("va").unwrap(), 32);
        assert_eq!(answer.value("gid").unwrap(), "a");
        assert_eq!(answer.number_if_any("imm"), None);
        let error = answer.number("gid").unwrap_err().to_string();
        assert_eq!(
            error,
            "guest 1 answered `qp 1 1` with `ok qpn=17 va=0x20 gid=a text=4f4b0a none=`"
        );
    }

    #[test]
    fn access_is_spelled() {
        assert_eq!(letters(Access::all()), "lrwa");
        assert_eq!(letters(Access::empty()), "-");
    }
}
