//! Direct cables between nodes that share memory, which they ask for (`hosted::node::cables`).

use super::{Member, SwitchCore};
use crate::hosted::messages::{NodeHello, NodeReply, NodeRequest};
use rackweave_base::NodeId;
use rackweave_link::shared_memory::handover;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::sync::Mutex;

/// The cables, and those that are being made. `None` once the switch has to see all packets.
pub(super) struct Cables(Mutex<Option<Known>>);

#[derive(Default)]
struct Known {
    cables: BTreeSet<[NodeId; 2]>,
    /// Those that a node had from an earlier switch process when it joined.
    reported: BTreeMap<NodeId, BTreeSet<NodeId>>,
}

impl Known {
    fn take(&mut self, holds: impl Fn(&[NodeId; 2]) -> bool) -> Vec<[NodeId; 2]> {
        let taken: Vec<_> = self.cables.iter().copied().filter(holds).collect();
        self.cables.retain(|ends| !taken.contains(ends));
        taken
    }
}

/// A cable between two nodes.
fn between(a: NodeId, b: NodeId) -> [NodeId; 2] {
    [a.min(b), a.max(b)]
}

impl Cables {
    /// No cables, or none ever.
    pub fn new(allowed: bool) -> Self {
        Self(Mutex::new(allowed.then(Known::default)))
    }

    /// Calls `act` with the cables; returns the default if there may be none.
    fn with<R: Default>(&self, act: impl FnOnce(&mut Known) -> R) -> R {
        let mut known = self.0.lock().expect("no holder panics");
        known.as_mut().map(act).unwrap_or_default()
    }

    /// Records a cable that is about to be made. False if there is one, or may be none.
    fn begin(&self, ends: [NodeId; 2]) -> bool {
        self.with(|known| known.cables.insert(ends))
    }

    /// Whether it is still wanted.
    fn has(&self, ends: [NodeId; 2]) -> bool {
        self.with(|known| known.cables.contains(&ends))
    }

    /// Removes and returns the cables for which this holds.
    fn take(&self, holds: impl Fn(&[NodeId; 2]) -> bool) -> Vec<[NodeId; 2]> {
        self.with(|known| known.take(holds))
    }

    /// Records the cables that a node has from an earlier switch process, to those peers that
    /// `may_return`. If that process died while it made one, only one end has it: such cables are
    /// removed and returned.
    fn adopt(
        &self,
        node: NodeId,
        peers: &BTreeSet<NodeId>,
        may_return: impl Fn(NodeId) -> bool,
    ) -> Vec<[NodeId; 2]> {
        self.with(|known| {
            let reported = &mut known.reported;
            reported.insert(node, peers.clone());
            let agrees = |peer| reported.get(&peer).is_none_or(|its| its.contains(&node));
            let whole = peers
                .iter()
                .filter(|&&peer| may_return(peer) && agrees(peer));
            known.cables.extend(whole.map(|&peer| between(node, peer)));
            let is_half = |&[a, b]: &[NodeId; 2]| {
                (a == node && !peers.contains(&b)) || (b == node && !peers.contains(&a))
            };
            known.take(is_half)
        })
    }
}

impl SwitchCore {
    /// Connects a node to another one that it sends to, if both share memory and have been given
    /// each other's. If that fails, their packets go on by way of the switch; the node asks again.
    pub(in crate::hosted) fn connect_directly(&self, member: &Member, peer: NodeId) {
        let Some(other) = self.member(peer).filter(|_| peer != member.node) else {
            return;
        };
        let ends = between(member.node, peer);
        let (Some(here), Some(there)) = (&member.shared, &other.shared) else {
            return;
        };
        if !self.are_introduced(&ends) || !self.cables.begin(ends) {
            return;
        }
        let made = || -> Result<(), String> {
            let fds = {
                let _in_order = member.handing.lock().expect("no holder panics");
                cabled(member.ask_counted(&NodeRequest::MakeCable { peer }))?;
                handover::receive(&here.channel)
                    .map_err(|error| error.to_string())?
                    .1
            };
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            let _in_order = other.handing.lock().expect("no holder panics");
            handover::send(&there.channel, b"cable", &fds).map_err(|error| error.to_string())?;
            let peer = member.node;
            cabled(other.ask_counted(&NodeRequest::TakeCable { peer }))
        };
        // Whoever removed it meanwhile may have had it cut before it was there.
        if made().is_err() || !self.cables.has(ends) {
            self.cables.take(|it| *it == ends);
            self.cut_cables(vec![ends]);
        }
    }

    /// Takes over the cables and memories that a node has from an earlier switch process, as far as
    /// nodes of that time may still come back.
    pub(super) fn adopt_cables(&self, member: &Member, hello: &NodeHello) {
        let node = member.node;
        let peers = hello.cables.iter().copied().collect();
        let may_return = |peer| self.kept_member(peer).is_some();
        self.cut_cables(self.cables.adopt(node, &peers, may_return));
        let unknown = |peer: &NodeId| !self.cables.has(between(node, *peer));
        for peer in peers.into_iter().filter(unknown) {
            let _gone = member.ask_counted(&NodeRequest::CutCable { peer });
        }
        for &origin in &hello.imports {
            if self.arenas.has_kept(origin) {
                member
                    .given
                    .lock()
                    .expect("no holder panics")
                    .insert(origin);
            } else {
                let _gone = member.ask_counted(&NodeRequest::Forget { origin });
            }
        }
    }

    /// Has the other nodes cut their cables to this one, which is dead: nothing that it still sends
    /// may reach them.
    pub(super) fn cut_cables_to(&self, node: NodeId) {
        self.cut_cables(self.cables.take(|ends| ends.contains(&node)));
    }

    /// Has all packets pass the switch from now on.
    pub(super) fn end_cables(&self) {
        let all = self.cables.0.lock().expect("no holder panics").take();
        let all = all.into_iter().flat_map(|known| known.cables);
        self.cut_cables(all.collect());
    }

    fn cut_cables(&self, cables: Vec<[NodeId; 2]>) {
        for ends in cables {
            for (node, peer) in [(ends[0], ends[1]), (ends[1], ends[0])] {
                if let Some(member) = self.member(node) {
                    let _gone = member.ask_counted(&NodeRequest::CutCable { peer });
                }
            }
        }
    }
}

fn cabled(reply: Option<NodeReply>) -> Result<(), String> {
    match reply {
        Some(NodeReply::Cabled(done)) => done,
        _ => Err("it does not answer".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cable_of_an_earlier_process_is_kept_if_both_ends_have_it() {
        let [a, b, c, gone] = [1, 2, 3, 4].map(NodeId);
        let nobody_else = |peer: NodeId| peer != gone;
        let cables = Cables::new(true);
        let adopt = |node, peers: &[NodeId]| {
            cables.adopt(node, &peers.iter().copied().collect(), nobody_else)
        };
        assert!(adopt(a, &[b, c, gone]).is_empty());
        assert!(cables.has(between(a, b)) && !cables.has(between(a, gone)));
        assert!(adopt(b, &[a, c]).is_empty());
        // It has an end of neither, or has lost it.
        assert_eq!(adopt(c, &[]), [between(a, c), between(b, c)]);
        assert!(cables.has(between(a, b)));
        // Nor is one adopted that the other end has not reported.
        let cables = Cables::new(true);
        cables.adopt(c, &BTreeSet::new(), nobody_else);
        cables.adopt(a, &BTreeSet::from([b, c]), nobody_else);
        assert!(cables.has(between(a, b)) && !cables.has(between(a, c)));
        let none = Cables::new(false);
        none.adopt(a, &BTreeSet::from([b]), nobody_else);
        assert!(!none.has(between(a, b)));
    }
}
