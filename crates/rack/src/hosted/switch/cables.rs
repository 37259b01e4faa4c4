//! Direct cables between nodes that share memory, which they ask for (`hosted::node::cables`).

use super::{Member, SwitchCore};
use crate::hosted::messages::{NodeHello, NodeReply, NodeRequest};
use rackweave_base::NodeId;
use rackweave_link::shared_memory::handover;
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::sync::Mutex;

/// The cables, and those that are being made. `None` once the switch has to see all packets.
pub(super) struct Cables(Mutex<Option<BTreeSet<[NodeId; 2]>>>);

impl Cables {
    /// No cables, or none ever.
    pub fn new(allowed: bool) -> Self {
        Self(Mutex::new(allowed.then(BTreeSet::new)))
    }

    /// Records a cable that is about to be made. False if there is one, or may be none.
    fn begin(&self, ends: [NodeId; 2]) -> bool {
        let mut cables = self.0.lock().expect("no holder panics");
        cables.as_mut().is_some_and(|cables| cables.insert(ends))
    }

    /// Whether it is still wanted.
    fn has(&self, ends: [NodeId; 2]) -> bool {
        let cables = self.0.lock().expect("no holder panics");
        cables.as_ref().is_some_and(|cables| cables.contains(&ends))
    }

    /// Removes and returns the cables for which this holds.
    fn take(&self, holds: impl Fn(&[NodeId; 2]) -> bool) -> Vec<[NodeId; 2]> {
        let mut cables = self.0.lock().expect("no holder panics");
        let Some(cables) = cables.as_mut() else {
            return Vec::new();
        };
        let taken: Vec<_> = cables.iter().copied().filter(holds).collect();
        cables.retain(|ends| !taken.contains(ends));
        taken
    }
}

impl SwitchCore {
    /// Connects a node to another one that it sends to, if both share memory and have been given
    /// each other's. If that fails, their packets go on by way of the switch; the node asks again.
    pub(in crate::hosted) fn connect_directly(&self, member: &Member, peer: NodeId) {
        let Some(other) = self.member(peer).filter(|_| peer != member.node) else {
            return;
        };
        let mut ends = [member.node, peer];
        ends.sort_unstable();
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
        for &peer in &hello.cables {
            let mut ends = [member.node, peer];
            ends.sort_unstable();
            let is_kept = self.kept_member(peer).is_some();
            if is_kept {
                self.cables.begin(ends);
            }
            if !self.cables.has(ends) {
                let _gone = member.ask_counted(&NodeRequest::CutCable { peer });
            }
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
        self.cut_cables(all.into_iter().flatten().collect());
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
