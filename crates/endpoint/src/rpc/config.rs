//! Sizes and limits of clients and servers.

use rackweave_base::Duration;
use rackweave_wire::fabric::rpc::{
    CALL_HEADER_LEN, GRANT_INITIAL, MESSAGE_HEADER_LEN, PAYLOAD_MAX,
};
use serde::{Deserialize, Serialize};

/// Default maximum length of a request or reply, in bytes.
const PAYLOAD_DEFAULT: u32 = 16 << 10;

/// Default length at which a message accepts no more calls, in bytes: what fits one packet of the
/// default MTU.
const BATCH_DEFAULT: u32 = 1024;

/// Bytes that ConnectX NICs inline in a work request, as in the models of `sim`.
const INLINE_DEFAULT: u32 = 236;

/// Configuration of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ClientConfig {
    /// Maximum number of requests in flight: 1 to 65535. As many receive requests are posted, plus
    /// one.
    pub window: u16,
    /// Maximum length of a request or reply in bytes: 1 to 65535. The server must have the same
    /// value.
    pub payload_max: u32,
    /// Requests are added to a message until it has this many bytes; zero: one request per message.
    /// The maximum is the length of a message with one request of `payload_max`.
    pub batch_bytes: u32,
    /// Messages of at most this many bytes count as inline: NICs take them within the work request
    /// and save a fetch. A `batch_bytes` of the same value keeps all small messages inline.
    pub inline_bytes: u32,
    /// Maximum number of messages sent and not yet known to have arrived: 1 to 4096.
    pub send_buffers: u16,
    /// Maximum number of completions taken per poll of the completion queue.
    pub completions_max: u16,
    /// A request without a reply for this time is given up, and the server is probed. If the probe
    /// has no reply after the same time, the connection is given up, too. Zero: never.
    pub timeout: Duration,
    /// The only server incarnation to communicate with; zero: any.
    pub incarnation: u64,
}

impl Default for ClientConfig {
    fn default() -> Self {
        Self {
            window: 64,
            payload_max: PAYLOAD_DEFAULT,
            batch_bytes: BATCH_DEFAULT,
            inline_bytes: INLINE_DEFAULT,
            send_buffers: 32,
            completions_max: 64,
            timeout: Duration::from_secs(1),
            incarnation: 0,
        }
    }
}

/// Configuration of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ServerConfig {
    /// Maximum number of concurrent clients: 1 to 65535.
    pub clients_max: u16,
    /// Receive requests for each client, each for one message: 8 to 4096. One more is posted for
    /// the probe of whether the server is alive.
    pub receives: u16,
    /// As [`ClientConfig::payload_max`]; the clients must have the same value.
    pub payload_max: u32,
    /// As [`ClientConfig::batch_bytes`], for replies.
    pub batch_bytes: u32,
    /// As [`ClientConfig::inline_bytes`].
    pub inline_bytes: u32,
    /// As [`ClientConfig::send_buffers`], for each client.
    pub send_buffers: u16,
    /// Maximum number of completions taken per poll, over all clients.
    pub completions_max: u16,
    /// Distinguishes this start of the server from all others: not zero. A time or a random number.
    pub incarnation: u64,
}

impl ServerConfig {
    /// A server for up to 16 clients with the defaults of this type.
    pub const fn new(incarnation: u64) -> Self {
        Self {
            clients_max: 16,
            receives: 32,
            payload_max: PAYLOAD_DEFAULT,
            batch_bytes: BATCH_DEFAULT,
            inline_bytes: INLINE_DEFAULT,
            send_buffers: 32,
            completions_max: 64,
            incarnation,
        }
    }
}

/// A size that is out of range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("rpc: {what} is {value}; {least} to {most} is possible")]
pub struct ConfigError {
    /// The name of the size.
    pub what: &'static str,
    /// Its value.
    pub value: u64,
    /// The minimum.
    pub least: u64,
    /// The maximum.
    pub most: u64,
}

/// Buffer sizes that both ends need.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    /// Length of the longest message in bytes.
    pub message_max: u32,
    /// Bytes from one buffer to the next.
    pub stride: u32,
    pub payload_max: u32,
    pub batch_bytes: u32,
    pub inline_bytes: u32,
    pub send_buffers: u16,
    pub receives: u16,
}

type Range = (&'static str, u64, u64, u64);

fn check(ranges: &[Range]) -> Result<(), ConfigError> {
    let outside = |&&(_, value, least, most): &&Range| !(least..=most).contains(&value);
    match ranges.iter().find(outside) {
        None => Ok(()),
        Some(&(what, value, least, most)) => Err(ConfigError {
            what,
            value,
            least,
            most,
        }),
    }
}

impl Sizes {
    fn new(
        payload_max: u32,
        batch_bytes: u32,
        inline_bytes: u32,
        send_buffers: u16,
        receives: u16,
    ) -> Self {
        let message_max = (MESSAGE_HEADER_LEN + CALL_HEADER_LEN) as u32 + payload_max;
        // An odd number of cache lines: neighbouring buffers begin in different cache sets.
        let lines = message_max.div_ceil(64) | 1;
        Self {
            message_max,
            stride: lines * 64,
            payload_max,
            batch_bytes: batch_bytes.min(message_max),
            inline_bytes,
            send_buffers,
            receives,
        }
    }

    /// Bytes of all buffers of one connection.
    pub fn bytes(&self) -> u64 {
        (u64::from(self.send_buffers) + u64::from(self.receives)) * u64::from(self.stride)
    }

    /// Where the receive buffers begin, behind the send buffers.
    pub fn receives_at(&self) -> u64 {
        u64::from(self.send_buffers) * u64::from(self.stride)
    }
}

impl ClientConfig {
    pub(super) fn sizes(&self) -> Result<Sizes, ConfigError> {
        check(&[
            ("window", self.window.into(), 1, u16::MAX.into()),
            (
                "payload_max",
                self.payload_max.into(),
                1,
                PAYLOAD_MAX as u64,
            ),
            ("send_buffers", self.send_buffers.into(), 1, 4096),
            (
                "completions_max",
                self.completions_max.into(),
                1,
                u16::MAX.into(),
            ),
        ])?;
        // One more, for the reply to a probe.
        let receives = self.window.saturating_add(1);
        Ok(Sizes::new(
            self.payload_max,
            self.batch_bytes,
            self.inline_bytes,
            self.send_buffers,
            receives,
        ))
    }
}

impl ServerConfig {
    pub(super) fn sizes(&self) -> Result<Sizes, ConfigError> {
        check(&[
            ("clients_max", self.clients_max.into(), 1, u16::MAX.into()),
            ("receives", self.receives.into(), GRANT_INITIAL.into(), 4096),
            (
                "payload_max",
                self.payload_max.into(),
                1,
                PAYLOAD_MAX as u64,
            ),
            ("send_buffers", self.send_buffers.into(), 1, 4096),
            (
                "completions_max",
                self.completions_max.into(),
                1,
                u16::MAX.into(),
            ),
            ("incarnation", self.incarnation, 1, u64::MAX),
        ])?;
        Ok(Sizes::new(
            self.payload_max,
            self.batch_bytes,
            self.inline_bytes,
            self.send_buffers,
            self.receives + 1,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_out_of_range_are_named() {
        let good = ClientConfig::default();
        assert!(good.sizes().is_ok());
        let check = |config: ClientConfig, what: &str| {
            let error = config.sizes().unwrap_err();
            assert_eq!(error.what, what);
            assert!(error.to_string().contains("is possible"));
        };
        check(ClientConfig { window: 0, ..good }, "window");
        check(
            ClientConfig {
                payload_max: 1 << 16,
                ..good
            },
            "payload_max",
        );
        check(
            ClientConfig {
                send_buffers: 0,
                ..good
            },
            "send_buffers",
        );
        let good = ServerConfig::new(1);
        assert!(good.sizes().is_ok());
        let check = |config: ServerConfig, what: &str| {
            assert_eq!(config.sizes().unwrap_err().what, what);
        };
        check(ServerConfig::new(0), "incarnation");
        check(
            ServerConfig {
                receives: 7,
                ..good
            },
            "receives",
        );
        check(
            ServerConfig {
                clients_max: 0,
                ..good
            },
            "clients_max",
        );
    }

    #[test]
    fn buffers_hold_the_longest_message_and_begin_in_different_sets() {
        for payload_max in [1, 40, 41, 1000, 16 << 10, 65_535] {
            let config = ClientConfig {
                payload_max,
                batch_bytes: u32::MAX,
                ..ClientConfig::default()
            };
            let sizes = config.sizes().unwrap();
            assert_eq!(sizes.message_max, payload_max + 24);
            assert!(sizes.stride >= sizes.message_max && sizes.stride / 64 % 2 == 1);
            assert_eq!(sizes.batch_bytes, sizes.message_max);
            assert_eq!(sizes.receives, 65);
            assert_eq!(sizes.bytes(), 97 * u64::from(sizes.stride));
        }
    }
}
