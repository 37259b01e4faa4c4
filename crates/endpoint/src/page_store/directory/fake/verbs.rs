//! The fake rack's queue pairs.

use super::{
    CONTROL_ADDRESS, CONTROL_KEY, ENTRIES_ADDRESS, ENTRIES_KEY, Event, Model, SERVER_QP, SLOTS,
    SWITCH_QP,
};
use rackweave_base::{Block, Qpn};
use rackweave_verbs::*;
use rackweave_wire::fabric::page::{PageId, Request, control};
use std::cell::RefCell;
use std::rc::Rc;

/// [`Verbs`] of a node.
pub(in super::super) struct NodeVerbs {
    model: Rc<RefCell<Model>>,
    node: u16,
}

impl NodeVerbs {
    pub fn new(model: &Rc<RefCell<Model>>, node: u16) -> Self {
        let model = Rc::clone(model);
        Self { model, node }
    }
}

impl Model {
    pub(super) fn is_broken(&self, node: u16, qpn: Qpn) -> bool {
        let broken = &self.nodes[node as usize].broken;
        broken.get(&qpn).copied().unwrap_or(false)
    }

    /// Completes the oldest work request of a queue pair.
    pub(super) fn complete(&mut self, node: u16, qpn: Qpn, id: u64) {
        let node = &mut self.nodes[node as usize];
        let (oldest, opcode) = node.posted.get_mut(&qpn).unwrap().pop_front().unwrap();
        assert_eq!(oldest, id, "work requests end in order");
        node.cq.push_back(Completion {
            id,
            qpn,
            status: CompletionStatus::Success,
            opcode,
            length: 16,
            immediate: None,
        });
    }

    /// Breaks a queue pair; its posted requests are flushed.
    pub(in super::super) fn break_qp(&mut self, node: u16, qpn: Qpn) {
        let node = &mut self.nodes[node as usize];
        node.broken.insert(qpn, true);
        for (id, opcode) in node.posted.remove(&qpn).unwrap_or_default() {
            node.cq.push_back(Completion {
                id,
                qpn,
                status: CompletionStatus::Flushed,
                opcode,
                length: 0,
                immediate: None,
            });
        }
    }

    /// Re-establishes a broken queue pair, as the controller does.
    pub(in super::super) fn mend_qp(&mut self, node: u16, qpn: Qpn) {
        self.events.retain(|_, event| {
            let of = match event {
                Event::Asked { node, .. } => (*node, SWITCH_QP),
                Event::Accessed { node, .. } => (*node, SERVER_QP),
                Event::Served { node, qpn, .. } => (*node, *qpn),
                Event::Piece(_) | Event::Ended { .. } => return true,
            };
            of != (node, qpn)
        });
        let it = &mut self.nodes[node as usize];
        it.broken.insert(qpn, false);
        it.cq.retain(|completion| completion.qpn != qpn);
        let at = match qpn {
            SWITCH_QP => control::generation_at(SLOTS),
            _ => control::server_generation_at(SLOTS),
        };
        let mut word = [0; 8];
        it.control.read(at as usize, &mut word);
        let next = u64::from_le_bytes(word) + 1;
        it.control.write(at as usize, &next.to_le_bytes());
    }

    /// Executes an operation as the server's NIC does; returns its response.
    pub(super) fn accessed(&mut self, operation: Operation) -> Vec<u8> {
        match operation {
            Operation::Read { address, rkey } => {
                assert_eq!(rkey, ENTRIES_KEY);
                let mut bytes = vec![0; 16];
                self.server
                    .read((address - ENTRIES_ADDRESS) as usize, &mut bytes);
                bytes
            }
            Operation::CompareSwap {
                address,
                rkey,
                compare,
                swap,
            } => {
                assert_eq!(rkey, ENTRIES_KEY);
                let at = (address - ENTRIES_ADDRESS) as usize;
                let mut bytes = [0; 8];
                self.server.read(at, &mut bytes);
                if u64::from_le_bytes(bytes) == compare {
                    self.server.write(at, &swap.to_le_bytes());
                }
                bytes.to_vec()
            }
            other => panic!("nobody asks a server for {other:?}"),
        }
    }

    fn post(&mut self, node: u16, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        if self.is_broken(node, qpn) {
            let state = QpState::Error;
            return Err(PostError::BadState { qpn, state });
        }
        if self.rng.chance(self.faults.full) {
            return Err(PostError::Full(qpn));
        }
        let [segment] = request.segments() else {
            panic!("one segment, not {:?}", request.segments());
        };
        assert_eq!(segment.lkey, CONTROL_KEY);
        assert!(segment.address >= CONTROL_ADDRESS);
        let id = request.id;
        let to = segment.address;
        let at = self.in_order(node, qpn, false);
        let opcode = match request.operation {
            Operation::Read { .. } => CompletionOpcode::Read,
            _ => CompletionOpcode::CompareSwap,
        };
        let posted = self.nodes[node as usize].posted.entry(qpn).or_default();
        posted.push_back((id, opcode));
        match (qpn, request.operation) {
            (SWITCH_QP, Operation::Read { address, rkey }) => {
                assert_eq!(segment.length, 16);
                let request = Request::parse(address, rkey.0).expect("a request");
                assert!(PageId::from_number(request.page.number()).is_some());
                self.push(
                    at,
                    Event::Asked {
                        node,
                        id,
                        request,
                        to,
                    },
                );
            }
            (SERVER_QP, operation) => self.push(
                at,
                Event::Accessed {
                    node,
                    id,
                    operation,
                    to,
                },
            ),
            other => panic!("nobody posts {other:?}"),
        }
        Ok(())
    }
}

impl Verbs for NodeVerbs {
    fn create_pd(&mut self) -> PdId {
        unreachable!("a channel is given what it needs")
    }

    fn register(&mut self, _: PdId, _: Block, _: Access) -> Result<Region, RegisterError> {
        unreachable!("a channel is given what it needs")
    }

    fn deregister(&mut self, _: &Region) -> bool {
        unreachable!("a channel is given what it needs")
    }

    fn create_cq(&mut self, _: u32) -> Result<CqId, CqError> {
        unreachable!("a channel is given what it needs")
    }

    fn destroy_cq(&mut self, _: CqId) -> Result<(), CqError> {
        unreachable!("a channel is given what it needs")
    }

    fn create_qp(&mut self, _: PdId, _: CqId, _: CqId, _: QpCapabilities) -> Result<Qpn, QpError> {
        unreachable!("a channel is given what it needs")
    }

    fn modify_qp(&mut self, _: Qpn, _: QpModify) -> Result<(), ModifyError> {
        unreachable!("a channel is given what it needs")
    }

    fn qp_state(&self, qpn: Qpn) -> Option<QpState> {
        match self.model.borrow().is_broken(self.node, qpn) {
            true => Some(QpState::Error),
            false => Some(QpState::ReadyToSend),
        }
    }

    fn destroy_qp(&mut self, _: Qpn) -> Result<(), QpError> {
        unreachable!("a channel is given what it needs")
    }

    fn post_send(&mut self, qpn: Qpn, request: WorkRequest) -> Result<(), PostError> {
        self.model.borrow_mut().post(self.node, qpn, request)
    }

    fn post_receive(&mut self, _: Qpn, _: ReceiveRequest) -> Result<(), PostError> {
        unreachable!("a channel is given what it needs")
    }

    fn poll_cq(&mut self, cq: CqId, limit: usize, completions: &mut Vec<Completion>) -> usize {
        assert_eq!(cq, CqId(1));
        let mut model = self.model.borrow_mut();
        let queue = &mut model.nodes[self.node as usize].cq;
        let count = queue.len().min(limit);
        completions.extend(queue.drain(..count));
        count
    }
}
