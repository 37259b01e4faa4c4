//! Answering the controller.

use super::shared::NodeCore;
use crate::hosted::messages::{Counters, NodeReply, NodeRequest};
use core::sync::atomic::{AtomicBool, Ordering};
use rackweave_base::memory::Origin;
use rackweave_control::Connection;
use rackweave_link::shared_memory::handover;
use rackweave_nic::Nic;
use rackweave_verbs::{CqError, ModifyError, QpError, Verbs};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration as Time, Instant};

/// How often one who waits for a question looks whether to stop.
const LOOK_EVERY: Time = Time::from_millis(50);

/// A node that serves its controller.
pub(super) struct Serving<'a> {
    core: &'a Arc<NodeCore>,
    /// On which descriptors come, if the link is shared memory.
    channel: Option<UnixStream>,
}

impl<'a> Serving<'a> {
    pub fn new(core: &'a Arc<NodeCore>, channel: Option<UnixStream>) -> Self {
        Self { core, channel }
    }

    /// Serves until `stop` or the controller is gone. Returns why, if it was not `stop`.
    pub fn run(
        mut self,
        mut connection: Connection,
        dead_after: Time,
        stop: &AtomicBool,
    ) -> Option<String> {
        let mut heard = Instant::now();
        let mut stopped_at = None;
        loop {
            if stop.load(Ordering::Relaxed) {
                // The next question hears that this node is leaving.
                let since = *stopped_at.get_or_insert_with(Instant::now);
                if since.elapsed() > dead_after {
                    return None;
                }
            }
            self.core.keep_house();
            let request = match connection.receive::<NodeRequest>(LOOK_EVERY) {
                Ok(Some(request)) => request,
                Ok(None) if heard.elapsed() > dead_after => {
                    let silence = dead_after.as_millis();
                    return Some(format!(
                        "no sign of life from the controller for {silence} ms"
                    ));
                }
                Ok(None) => continue,
                Err(error) => return Some(error.to_string()),
            };
            heard = Instant::now();
            let farewell = matches!(request, NodeRequest::Farewell);
            let leaving = stopped_at.is_some() && matches!(request, NodeRequest::Ping);
            let reply = match request {
                NodeRequest::Ping => NodeReply::Pong { leaving },
                request => self.answer(request),
            };
            if let Err(error) = connection.send(&reply) {
                return Some(error.to_string());
            }
            if farewell {
                connection.close();
                return Some("the switch process has ended".into());
            }
            if leaving {
                connection.close();
                return None;
            }
        }
    }

    fn nic<R>(&self, act: impl FnOnce(&mut Nic) -> R) -> Option<R> {
        self.core.pump.with(|machine| machine.nic().map(act))
    }

    fn answer(&mut self, request: NodeRequest) -> NodeReply {
        let core = self.core;
        match request {
            NodeRequest::Ping => NodeReply::Pong { leaving: false },
            NodeRequest::Farewell => NodeReply::Done,
            // It has joined: no token is waited for.
            NodeRequest::Prove => NodeReply::Token(None),
            NodeRequest::CreatePd => match self.core.domain() {
                Some(pd) => NodeReply::Pd(pd),
                None => NodeReply::Done,
            },
            NodeRequest::CreateCq { capacity } => {
                let made = self.nic(|nic| nic.create_cq(capacity));
                let made = made.unwrap_or(Err(CqError::NoAnswer));
                self.core.loans().cqs.extend(made.iter().copied());
                NodeReply::Cq(made)
            }
            NodeRequest::CreateQp {
                pd,
                send_cq,
                receive_cq,
                capabilities,
            } => {
                let made = self.nic(|nic| nic.create_qp(pd, send_cq, receive_cq, capabilities));
                let made = made.unwrap_or(Err(QpError::NoAnswer));
                self.core.loans().qps.extend(made.iter().copied());
                NodeReply::Qp(made)
            }
            NodeRequest::ModifyQp { qpn, modify } => {
                let done = self.nic(|nic| nic.modify_qp(qpn, modify));
                NodeReply::Modified(done.unwrap_or(Err(ModifyError::NoAnswer)))
            }
            NodeRequest::DestroyQp { qpn } => {
                self.core.loans().qps.remove(&qpn);
                let done = self.nic(|nic| nic.destroy_qp(qpn));
                NodeReply::Destroyed(done.unwrap_or(Err(QpError::NoAnswer)))
            }
            NodeRequest::ReadByReference { qpn } => {
                self.nic(|nic| nic.read_by_reference(qpn));
                NodeReply::Done
            }
            NodeRequest::MakeRegion { pd, len, access } => {
                let made = self.nic(|nic| core.regions().make(nic, core.id, pd, len, access));
                NodeReply::Region(match made {
                    Some(Ok(name)) => Ok(name.into()),
                    Some(Err(error)) => Err(error.to_string()),
                    None => Err("the node does not answer".into()),
                })
            }
            NodeRequest::KeepRing { rkey } => {
                core.loans().orphans.remove(&rkey.0);
                NodeReply::Done
            }
            NodeRequest::RemoveRegion { region } => {
                core.remove_ring(&region.into());
                NodeReply::Done
            }
            NodeRequest::LoadWord { rkey, offset } => {
                NodeReply::Word(core.regions().load(core.id, rkey, offset))
            }
            NodeRequest::StoreWord {
                rkey,
                offset,
                bytes,
            } => {
                core.regions().store(core.id, rkey, offset, bytes);
                NodeReply::Done
            }
            NodeRequest::Import { origin } => NodeReply::Imported(self.import(Origin(origin))),
            NodeRequest::Forget { origin } => {
                core.loans().imports.remove(&origin);
                core.memory.forget(Origin(origin));
                NodeReply::Done
            }
            NodeRequest::StartJob {
                job,
                name,
                arguments,
            } => {
                core.table.start(core, job, name, arguments);
                NodeReply::Done
            }
            NodeRequest::PollJob { job } => NodeReply::Job(core.table.poll(job)),
            NodeRequest::StopJob { job } => {
                core.table.stop(job);
                NodeReply::Done
            }
            NodeRequest::Counters => {
                let counters = self.nic(|nic| -> Counters {
                    let all = nic.counters().iter();
                    all.map(|(name, value)| (name.into(), value)).collect()
                });
                NodeReply::Counters(counters.unwrap_or_default())
            }
        }
    }

    /// Maps the memory of another node, which the switch passes on.
    fn import(&mut self, origin: Origin) -> Result<(), String> {
        let channel = self.channel.as_mut().ok_or("this link shares no memory")?;
        let (_, fds) = handover::receive(channel).map_err(|error| error.to_string())?;
        let fd = fds.into_iter().next().ok_or("no memory came along")?;
        let imported = self.core.memory.import(origin, fd);
        imported.map_err(|error| error.to_string())?;
        self.core.loans().imports.insert(origin.0);
        Ok(())
    }
}
