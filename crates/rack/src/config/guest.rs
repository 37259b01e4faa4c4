//! Places for programs that join a hosted rack without a name of their own.

use super::check::{ConfigError, within};
use super::{HostedSection, LinkKind, NodeConfig, RackConfig, Role};
use serde::{Deserialize, Serialize};

/// Maximum number of places in one section.
const COUNT_MAX: u16 = 64;

/// Number of places of a hosted rack whose configuration names none.
const COUNT_USUAL: u16 = 8;

/// Places for guests: nodes of the role [`Role::Guest`], which any program may join as
/// ([`Rack::join_guest`](crate::Rack::join_guest)).
#[derive(Clone, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct GuestConfig {
    /// The number of places, at most 64.
    pub count: u16,
    /// The beginning of their names, before a number from 0.
    #[serde(default = "guest")]
    pub name: String,
    /// Their links to the switch, if different from `hosted.link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<LinkKind>,
}

fn guest() -> String {
    Role::Guest.name().to_owned()
}

impl GuestConfig {
    /// Places with the default name and link.
    pub fn new(count: u16) -> Self {
        Self {
            count,
            name: guest(),
            link: None,
        }
    }
}

impl RackConfig {
    /// Adds nodes for guests. Sections `[[guest]]` of a file become nodes in the same way.
    #[must_use]
    pub fn with_guests(mut self, guests: &GuestConfig) -> Self {
        self.node.extend((0..guests.count).map(|at| NodeConfig {
            link: guests.link,
            ..NodeConfig::new(format!("{}{at}", guests.name), Role::Guest)
        }));
        self
    }

    /// The configuration with its section `[hosted]`, and places for guests if it had none.
    ///
    /// # Errors
    /// If a value is invalid.
    pub fn into_hosted(mut self) -> Result<Self, ConfigError> {
        self.hosted = Some(self.hosted());
        let config = self.seat_guests()?;
        config.check()?;
        Ok(config)
    }

    /// Turns sections `[[guest]]` into nodes. A hosted rack without any gets the usual number of
    /// places, except over packet sockets, where each needs an interface of its own.
    pub(super) fn seat_guests(mut self) -> Result<Self, ConfigError> {
        let hosted = self.hosted.as_ref();
        let is_usual = |hosted: &HostedSection| hosted.link != LinkKind::Packet;
        let has_guest = self.node.iter().any(|node| node.role == Role::Guest);
        if self.guest.is_empty() && !has_guest && hosted.is_some_and(is_usual) {
            self.guest.push(GuestConfig::new(COUNT_USUAL));
        }
        for guests in std::mem::take(&mut self.guest) {
            let (count, range) = (guests.count, "0 to 64 are possible");
            within("guest.count", count, 0..=COUNT_MAX, range)?;
            self = self.with_guests(&guests);
        }
        Ok(self)
    }

    /// The nodes that are not places for guests, by number: those that the rack's own processes
    /// are.
    pub fn residents(&self) -> impl Iterator<Item = &NodeConfig> {
        self.node.iter().filter(|node| node.role != Role::Guest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RackConfig, String> {
        RackConfig::parse(text, "rack.toml").map_err(|error| error.to_string())
    }

    #[test]
    fn guests_are_nodes_behind_the_others() {
        let text = "[[guest]]\ncount = 2\n[[guest]]\ncount = 1\nname = 'tool'\nlink = 'udp'\n";
        let config = parse(text).unwrap();
        let names: Vec<_> = config.node.iter().map(|node| node.name.as_str()).collect();
        let residents = ["storage0", "storage1", "compute0", "compute1"];
        assert_eq!(names[..4], residents);
        assert_eq!(names[4..], ["guest0", "guest1", "tool0"]);
        assert_eq!(config.node[6].link, Some(LinkKind::Udp));
        let own: Vec<_> = config.residents().map(|node| &*node.name).collect();
        assert_eq!(own, residents);
        let again = parse(&config.to_toml()).unwrap();
        assert_eq!(again, config);
    }

    #[test]
    fn a_hosted_rack_has_places_unless_it_says_otherwise() {
        for (text, places) in [
            ("", 0),
            ("[hosted]\n", 8),
            ("[hosted]\n[[guest]]\ncount = 0\n", 0),
            ("[hosted]\n[[guest]]\ncount = 3\n", 3),
        ] {
            let config = parse(text).unwrap();
            assert_eq!(config.nodes_of(Role::Guest).len(), places, "{text:?}");
        }
    }

    #[test]
    fn guests_without_a_number_or_with_a_name_that_is_taken_are_refused() {
        for (text, says) in [
            ("[[guest]]\ncount = 65\n", "0 to 64"),
            ("[[guest]]\nname = 'a'\n", "`count` is missing"),
            (
                "[[guest]]\ncount = 1\nname = 'compute'\n",
                "two nodes are named \"compute0\"",
            ),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(says), "{text:?} gives {error:?}");
        }
    }
}
