//! A bare queue pair that sends arbitrary messages.

use super::rig::Rig;
use rackweave_base::Qpn;
use rackweave_verbs::{
    Access, CompletionOpcode, CompletionStatus, CqId, Operation, QpCapabilities, ReceiveRequest,
    Region, Verbs, WorkRequest,
};
use rackweave_wire::fabric::rpc::{self, CallHeader, CallId, MessageHeader, MessageKind};

const BUFFER: u64 = 8192;
const BUFFERS: u64 = 64;
/// The node of a bare client.
pub const NODE: usize = 1;

/// A bare queue pair.
pub struct Raw {
    node: usize,
    pub qpn: Qpn,
    cq: CqId,
    region: Region,
    sent: u64,
}

impl Raw {
    pub fn new(rig: &mut Rig, node: usize) -> Self {
        let nic = &mut rig.network.nics[node];
        let pd = nic.create_pd();
        let cq = nic.create_cq(1024).unwrap();
        let qpn = nic
            .create_qp(pd, cq, cq, QpCapabilities::default())
            .unwrap();
        let block = rig
            .network
            .memory
            .allocate((2 * BUFFERS * BUFFER) as usize)
            .unwrap();
        let region = nic.register(pd, block, Access::LOCAL_WRITE).unwrap();
        Self {
            node,
            qpn,
            cq,
            region,
            sent: 0,
        }
    }

    /// A client that sends arbitrary messages.
    pub fn client(rig: &mut Rig) -> Self {
        let raw = Self::new(rig, NODE);
        rig.accept(NODE, raw.qpn);
        raw.open(rig);
        raw
    }

    pub fn open(&self, rig: &mut Rig) {
        (0..BUFFERS).for_each(|buffer| self.post(rig, buffer));
    }

    fn post(&self, rig: &mut Rig, buffer: u64) {
        let segment = self
            .region
            .segment((BUFFERS + buffer) * BUFFER, BUFFER as u32);
        let receive = ReceiveRequest::new(buffer, &[segment]);
        // The queue pair may be in the error state by now.
        let _ = rig.network.nics[self.node].post_receive(self.qpn, receive);
    }

    pub fn send(&mut self, rig: &mut Rig, message: &[u8]) {
        let at = self.sent % BUFFERS * BUFFER;
        self.sent += 1;
        self.region.block.write(at as usize, message);
        let segment = self.region.segment(at, message.len() as u32);
        let send = Operation::Send { immediate: None };
        let request = WorkRequest::new(0, send, &[segment]);
        let _ = rig.network.nics[self.node].post_send(self.qpn, request);
    }

    /// The received messages.
    pub fn messages(&self, rig: &mut Rig) -> Vec<Vec<u8>> {
        let mut completions = Vec::new();
        rig.network.nics[self.node].poll_cq(self.cq, usize::MAX, &mut completions);
        let mut messages = Vec::new();
        for completion in completions {
            let received = completion.opcode == CompletionOpcode::Receive;
            if received && completion.status == CompletionStatus::Success {
                let mut bytes = vec![0; completion.length as usize];
                let at = (BUFFERS + completion.id) * BUFFER;
                self.region.block.read(at as usize, &mut bytes);
                messages.push(bytes);
                self.post(rig, completion.id);
            }
        }
        messages
    }

    /// Sends a message to a server and returns the statuses of the replies; those of refusals are
    /// in brackets.
    pub fn ask(&mut self, rig: &mut Rig, message: &[u8]) -> String {
        self.send(rig, message);
        rig.settle();
        let mut found = Vec::new();
        for message in self.messages(rig) {
            let (header, calls) = rpc::parse(&message).unwrap();
            for call in calls {
                let call = call.unwrap();
                match header.kind {
                    MessageKind::Refusal => found.push(format!("[{:#x}]", call.code)),
                    _ => found.push(format!("{}:{:#x}", call.id.slot, call.code)),
                }
            }
        }
        found.join(" ")
    }
}

/// A request, or a reply with this status.
pub fn request(slot: u16, method: u16, payload: &[u8]) -> Vec<u8> {
    let id = CallId {
        slot,
        generation: 0,
    };
    let header = CallHeader {
        id,
        code: method,
        length: payload.len() as u16,
    };
    [&header.emit()[..], payload].concat()
}

/// A message with these calls.
pub fn message(kind: MessageKind, incarnation: u64, calls: &[Vec<u8>]) -> Vec<u8> {
    let header = MessageHeader {
        kind,
        count: calls.len() as u16,
        grant: 0,
        incarnation,
    };
    [&header.emit()[..], &calls.concat()].concat()
}
