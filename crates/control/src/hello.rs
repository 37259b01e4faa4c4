//! The first message of each side, and the rules by which the server checks the hello.

use crate::{ControlError, PROTOCOL_VERSION, PROTOCOL_VERSION_MIN};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The magic of a hello.
pub(crate) const MAGIC: &str = "rackweave-control";

/// The first message of a client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hello {
    /// Always `rackweave-control`.
    pub magic: String,
    /// The oldest version that the client supports.
    pub version_min: u16,
    /// The newest version that the client supports.
    pub version_max: u16,
    /// The client's name. Under TLS its certificate has been checked to have this name.
    pub name: String,
    /// The client's purpose, for the layer above.
    pub purpose: String,
    /// The rack that the client expects, for the layer above: a name or a hash of the
    /// configuration.
    pub rack: String,
    /// Further data for the layer above.
    pub body: Value,
}

/// The part of a hello that all versions have in common.
#[derive(Deserialize)]
struct HelloHead {
    magic: String,
    version_min: u16,
    version_max: u16,
}

/// The server's answer to a hello.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// The client is accepted.
    Welcome {
        /// The version to use.
        version: u16,
        /// Further data from the layer above.
        body: Value,
    },
    /// The client is refused; the server closes the connection.
    Refused {
        /// The reason.
        reason: String,
        /// The remedy.
        remedy: String,
    },
}

impl Hello {
    /// Reads a hello from the body of `peer`'s first message. Returns it with the version to use.
    ///
    /// # Errors
    /// [`ControlError::NotOurProtocol`] without the magic, [`ControlError::Version`] without a
    /// common version, [`ControlError::Malformed`] if the rest is not valid in this version.
    pub fn parse(body: &[u8], peer: &str) -> Result<(Hello, u16), ControlError> {
        let head = serde_json::from_slice::<HelloHead>(body)
            .ok()
            .filter(|head| head.magic == MAGIC)
            .ok_or_else(|| ControlError::NotOurProtocol {
                peer: peer.to_string(),
                detail: "its first message is no hello".to_string(),
            })?;
        // The version comes first: it determines the other contents of a hello.
        let version = head.version_max.min(PROTOCOL_VERSION);
        if version < head.version_min.max(PROTOCOL_VERSION_MIN) {
            return Err(ControlError::Version {
                peer: peer.to_string(),
                min: head.version_min,
                max: head.version_max,
            });
        }
        let hello = serde_json::from_slice(body).map_err(|error| ControlError::Malformed {
            peer: peer.to_string(),
            detail: one_line(&format!("its hello: {error}")),
        })?;
        Ok((hello, version))
    }
}

impl Reply {
    /// Reads the answer to this side's hello from the body of `peer`'s first message. Returns the
    /// version to use and the body of the welcome.
    ///
    /// # Errors
    /// [`ControlError::Refused`], [`ControlError::Version`] with a version that this side does not
    /// support, [`ControlError::NotOurProtocol`] if it is not an answer.
    pub fn parse(body: &[u8], peer: &str) -> Result<(u16, Value), ControlError> {
        let peer = peer.to_string();
        match serde_json::from_slice(body) {
            Ok(Reply::Welcome { version, body })
                if (PROTOCOL_VERSION_MIN..=PROTOCOL_VERSION).contains(&version) =>
            {
                Ok((version, body))
            }
            Ok(Reply::Welcome { version, .. }) => Err(ControlError::Version {
                peer,
                min: version,
                max: version,
            }),
            Ok(Reply::Refused { reason, remedy }) => Err(ControlError::Refused {
                by: peer,
                reason: one_line(&reason),
                remedy: one_line(&remedy),
            }),
            Err(_) => Err(ControlError::NotOurProtocol {
                peer,
                detail: "its answer to our hello is none".to_string(),
            }),
        }
    }
}

/// Makes `text` from the other side suitable for one line of a message: no control characters,
/// limited length.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .take(500)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let shown = match Hello::parse(text.as_bytes(), "p") {
            Ok((hello, version)) => format!("{} {version}", hello.name),
            Err(ControlError::NotOurProtocol { .. }) => "not ours".to_string(),
            Err(ControlError::Version { min, max, .. }) => format!("version {min} {max}"),
            Err(ControlError::Malformed { .. }) => "malformed".to_string(),
            Err(error) => panic!("{error}"),
        };
        assert_eq!(shown, expect, "{text}");
    }

    #[test]
    fn hellos_are_judged() {
        let rest = r#""name": "n", "purpose": "", "rack": "", "body": null"#;
        let magic = r#""magic": "rackweave-control""#;
        for (min, max, expect) in [
            (1, 1, "n 1"),
            (0, 9, "n 1"),
            (7, 9, "version 7 9"),
            (0, 0, "version 0 0"),
            // An empty range.
            (9, 1, "version 9 1"),
        ] {
            let versions = format!(r#""version_min": {min}, "version_max": {max}"#);
            check(&format!("{{{magic}, {versions}, {rest}}}"), expect);
        }
        // A future version may have another format except for its head, and is still reported.
        let head = format!(r#"{magic}, "version_min": 7, "version_max": 9"#);
        check(
            &format!(r#"{{{head}, "name": 5, "new": {{}}}}"#),
            "version 7 9",
        );
        let head = format!(r#"{magic}, "version_min": 1, "version_max": 9"#);
        check(&format!(r#"{{{head}, {rest}, "new": 3}}"#), "n 1");
        check(&format!("{{{head}}}"), "malformed");
        check(
            &format!(r#"{{"magic": "other", "version_min": 1, "version_max": 1, {rest}}}"#),
            "not ours",
        );
        check("[]", "not ours");
        check("", "not ours");
        check("\u{7f}\0", "not ours");
    }

    #[test]
    fn texts_of_others_stay_on_one_line() {
        assert_eq!(one_line("a\nb\u{1b}[2J"), "a b [2J");
        assert_eq!(one_line(&"x".repeat(9000)).len(), 500);
    }
}
