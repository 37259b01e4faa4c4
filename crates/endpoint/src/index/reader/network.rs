//! Walks that begin at a tree node found by the network.
//!
//! The network's answer is a hint: switches may know an older tree, another one, or none. So each
//! answer is judged by its own content. A sound tree node of this tree whose low fence is not above
//! the key has the key in it or to its right, as if a parent had led there.

use super::walk::Walk;
use super::{ASK, NODE, Parts, Wanted};
use rackweave_base::canary::{Canary, planted};
use rackweave_wire::fabric::tree::{self, Image, NodePointer, Unusable};

impl Walk {
    /// Queries the network for the deepest tree node that it knows for the cursor.
    pub(super) fn ask(&mut self, parts: &mut Parts<'_>) {
        self.asked = true;
        self.depth = 0;
        self.at = NodePointer::NONE;
        self.level = None;
        parts.wanted.push(Wanted {
            part: NODE,
            address: self.cursor,
            rkey: ASK,
            length: parts.remote.layout.bytes() as u32,
        });
    }

    /// Handles the network's answer.
    pub(super) fn answer(&mut self, parts: &mut Parts<'_>, bytes: &[u8]) {
        let remote = parts.remote;
        let (layout, name, places) = (remote.layout, remote.tree, remote.tree_nodes);
        // How a reader with a planted bug interprets the answer.
        let unverified = || {
            let image = Image::unverified(layout, bytes);
            image.pointer(name, places).map(|pointer| (image, pointer))
        };
        let verified = match Image::verify_any(layout, bytes, name, places) {
            Ok(verified) => Some(verified),
            Err(Unusable::Torn) if planted(Canary::IndexNoTornCheck) => unverified(),
            Err(Unusable::Stale { .. }) if planted(Canary::IndexMissingRestart) => unverified(),
            Err(Unusable::Torn) => return self.ask_again(parts),
            Err(Unusable::Stale { .. } | Unusable::Foreign { .. } | Unusable::Malformed) => None,
        };
        let Some((image, pointer)) = verified else {
            return self.led_astray(parts);
        };
        let level = image.meta().level;
        parts.statistics.network_levels[usize::from(level.min(7))] += 1;
        // The root's fences say which keys the endpoint owns, which is independent of the network.
        let is_root = pointer.index == tree::ROOT;
        let is_right = self.cursor > image.last();
        let leads_on = is_root || !is_right || image.next().is_some();
        let is_left = self.cursor < image.low();
        let lenient = planted(Canary::IndexMissingRestart);
        if !is_root && (is_left || !leads_on) && !lenient {
            return self.led_astray(parts);
        }
        parts.statistics.network_followed += u64::from(is_right && !is_root);
        self.asked = false;
        self.at = pointer;
        self.level = Some(level);
        self.sound(parts, &image, bytes);
    }

    /// Queries the network again after a torn answer.
    fn ask_again(&mut self, parts: &mut Parts<'_>) {
        parts.statistics.torn += 1;
        self.torn += 1;
        if self.torn > parts.config.torn_max {
            self.network = false;
            return self.restart(parts);
        }
        self.ask(parts);
    }

    /// The answer has no tree node for the key: the rest of the walk does not use the network.
    fn led_astray(&mut self, parts: &mut Parts<'_>) {
        parts.statistics.network_astray += 1;
        self.network = false;
        self.torn = 0;
        self.parent.clear();
        self.descend(parts);
    }
}
