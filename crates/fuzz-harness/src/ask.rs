//! What a node asks the controller: messages that the switch's process takes from a node, answered
//! by a controller with a switch and four NICs.
//!
//! Nodes 2 and 3 have a connected pair of queue pairs, and memory of their own. Whatever node 0 or
//! 1 asks, nothing panics, every reply is a message, that memory does not change, and afterwards
//! node 2 writes over the pair into the memory that it may write.

use crate::fixture::{self, Seeds, check_line};
use crate::input::Input;
use crate::rack::{self, Rack, is_untouched};
use rackweave_base::{NodeId, Qpn};
use rackweave_control::MESSAGE_LEN_MAX;
use rackweave_control::parts::{decode, encode};
use rackweave_controller::ask::{
    AddConsumer, Ask, AttachSequencer, CloseFlow, CloseSequencer, ConnectPair, CreateFlow,
    CreatePages, CreateSequencer, DeclareDead, DetachSequencer, FindName, FlowRingsOf, LoadIndex,
    LostPages, OpenIndexNetwork, OpenStoreTo, PageNodeOf, PageSpecOf, RejoinPages, Request,
    SequencerReserved, SetWeight, ShareName, TargetNamespaces,
};
use rackweave_controller::connect::PairAttributes;
use rackweave_controller::pages::{PageNode, PageSpec, PageStoreSpec};
use rackweave_controller::{Controller, FlowId, FlowSpec, Named, SequencerId, SequencerSpec};
use rackweave_programs::PipelineConfig;
use rackweave_programs::flows::FlowConfig;
use rackweave_programs::pages::PagesConfig;
use rackweave_programs::sequencer::{STAGE_BEHIND_ALL, SequencerConfig};
use rackweave_switch::Budget;
use rackweave_verbs::{
    Access, CompletionStatus, CqId, Mtu, Operation, QpCapabilities, Region, Verbs, WorkRequest,
};
use rackweave_wire::Rewrite;

const PEER: &str = "a node";
/// The pair that belongs to neither asker.
const VICTIMS: [usize; 2] = [2, 3];
const TARGET: usize = 2;
const PAGE_SIZE: u32 = 4096;
/// Bytes that node 2 may write at node 3.
const BYTES: usize = 64;
/// Maximum steps until they are written.
const STEPS_MAX: usize = 5_000;
/// Steps of the rack after each request.
const STEPS: usize = 4;

struct Fuzzed {
    rack: Rack,
    controller: Controller,
    cq: CqId,
    /// The connected queue pairs of the victims.
    pair: [Qpn; 2],
    /// Queue pairs that are in state Reset, of all nodes.
    idle: Vec<Qpn>,
    from: Region,
    into: Region,
    guards: [Region; 2],
}

/// Bit 0 of the first byte: the switch has a page directory and sequencers instead of flows. Bit 1:
/// the asking node. Then lines, each the body of a message.
///
/// # Panics
/// If the controller, the switch or a NIC is wrong.
pub fn ask(data: &[u8]) {
    let mut input = Input::new(data);
    let Some(choice) = input.byte() else {
        return;
    };
    let mut fuzzed = Fuzzed::new(choice & 1 == 1);
    let own = NodeId(u16::from(choice >> 1 & 1));
    for body in input.bytes(usize::MAX).split(|byte| *byte == b'\n') {
        fuzzed.handle(own, body);
    }
    fuzzed.finish();
}

fn config(has_pages: bool) -> PipelineConfig {
    let flows = rack::pipeline_config(Rewrite::Update);
    if !has_pages {
        return flows;
    }
    PipelineConfig {
        pages: PagesConfig {
            entries: 64,
            channels: 2,
            slots: 4,
            stores: 1,
            nodes: rack::NODES as u16,
            frame_size: PAGE_SIZE,
            promote_at: 0,
        },
        sequencer: SequencerConfig {
            sequencers: 2,
            clients: 2,
            first_stage: STAGE_BEHIND_ALL,
        },
        // The page directory uses their stages.
        flows: FlowConfig {
            threads: 0,
            producers: 0,
        },
        ..flows
    }
}

impl Fuzzed {
    fn new(has_pages: bool) -> Self {
        let (mut rack, mut controller) = Rack::new(config(has_pages), Budget::Tofino2);
        let (nic, bytes) = (&mut rack.nics[TARGET], 8 * u64::from(PAGE_SIZE));
        let target = fixture::target(nic, &rack.memory, bytes, PAGE_SIZE);
        rack.target = Some((TARGET, target));
        let guards = VICTIMS.map(|node| rack.guard(node));
        let ends = VICTIMS.map(|node| {
            let nic = &mut rack.nics[node];
            let (pd, cq) = (nic.create_pd(), nic.create_cq(64).expect("capacity"));
            let access = Access::LOCAL_WRITE | Access::REMOTE_WRITE;
            let region = fixture::region(nic, &rack.memory, pd, BYTES, access);
            let qpn = nic.create_qp(pd, cq, cq, QpCapabilities::default());
            (cq, region, qpn.expect("capacity"))
        });
        let [(cq, from, a), (_, into, b)] = ends;
        let connect = ConnectPair {
            a: (NodeId(VICTIMS[0] as u16), a),
            b: (NodeId(VICTIMS[1] as u16), b),
            attributes: PairAttributes::default(),
        };
        let reply = connect.into_request().answer(&mut controller, &mut rack);
        let connected = ConnectPair::answer_of(reply).expect("its own reply");
        connected.expect("both queue pairs are new");
        let idle = rack.nics.iter_mut().map(|nic| {
            let (pd, cq) = (nic.create_pd(), nic.create_cq(64).expect("capacity"));
            let qpn = nic.create_qp(pd, cq, cq, QpCapabilities::default());
            qpn.expect("capacity")
        });
        let idle = idle.collect();
        Self {
            rack,
            controller,
            cq,
            pair: [a, b],
            idle,
            from,
            into,
            guards,
        }
    }

    /// Answers a message as the switch's process does.
    fn handle(&mut self, own: NodeId, body: &[u8]) {
        let mut request: Request = match decode(body, PEER) {
            Ok(request) => request,
            Err(error) => return check_line(&error.to_string()),
        };
        let written = encode(&request, MESSAGE_LEN_MAX, PEER).expect("it came in a message");
        let again: Request = decode(&written[4..], PEER).expect("a request as we write it");
        let again = encode(&again, MESSAGE_LEN_MAX, PEER).expect("as long as before");
        assert_eq!(written, again);
        if !request.may_be_sent_by(own) {
            return;
        }
        let _nodes = request.connects();
        if let Some(mtu) = request.mtu_mut() {
            *mtu = (*mtu).min(Mtu::B1024);
        }
        let reply = request.answer(&mut self.controller, &mut self.rack);
        encode(&reply, MESSAGE_LEN_MAX, PEER).expect("a reply is a message");
        for _ in 0..STEPS {
            self.rack.step();
            self.controller.handle_digests(&mut self.rack);
        }
    }

    /// The victims still have what is theirs.
    fn finish(mut self) {
        let bytes = [0x5a; BYTES];
        self.from.block.write(0, &bytes);
        let (address, rkey) = (self.into.address, self.into.rkey);
        let segment = self.from.segment(0, BYTES as u32);
        let write = Operation::Write {
            address,
            rkey,
            immediate: None,
        };
        let write = WorkRequest::new(7, write, &[segment]);
        let posted = self.rack.nics[VICTIMS[0]].post_send(self.pair[0], write);
        posted.expect("the pair is connected");
        let mut completions = Vec::new();
        for _ in 0..STEPS_MAX {
            self.rack.nics[VICTIMS[0]].poll_cq(self.cq, 1, &mut completions);
            if !completions.is_empty() {
                break;
            }
            self.rack.step();
            self.controller.handle_digests(&mut self.rack);
        }
        let status = completions.first().map(|completion| completion.status);
        assert_eq!(status, Some(CompletionStatus::Success));
        assert_eq!(fixture::bytes_of(&self.into.block), bytes);
        assert!(self.guards.iter().all(is_untouched));
    }
}

/// The initial inputs of the corpus: requests of most kinds.
pub fn seeds() -> Seeds {
    let fuzzed = Fuzzed::new(false);
    let (own, other, third) = (NodeId(0), NodeId(1), NodeId(2));
    let attributes = PairAttributes::default();
    let end = |node: NodeId| (node, fuzzed.idle[usize::from(node.0)]);
    let pair = |a, b| ConnectPair { a, b, attributes }.into_request();
    let spec = FlowSpec::new(&[own, other], &[third, NodeId(3)], 64, 4096);
    let (flow, id) = (FlowId(1), SequencerId(1));
    let share = |name: &str, what| {
        let name = name.to_owned();
        ShareName { name, what }.into_request()
    };
    let lines: [(&str, u8, Vec<Request>); 4] = [
        (
            "pairs",
            0,
            vec![
                pair(end(own), end(third)),
                pair((third, fuzzed.pair[0]), end(own)),
                pair((third, fuzzed.pair[0]), (NodeId(3), fuzzed.pair[1])),
                DeclareDead { node: third }.into_request(),
                DeclareDead { node: own }.into_request(),
            ],
        ),
        (
            "flow",
            0,
            vec![
                CreateFlow { spec }.into_request(),
                FlowRingsOf { flow }.into_request(),
                AddConsumer { flow, node: own }.into_request(),
                SetWeight {
                    flow,
                    weight: Some(3),
                }
                .into_request(),
                share("rows", Named::Flow(flow)),
                CloseFlow { flow }.into_request(),
            ],
        ),
        (
            "services",
            2,
            vec![
                share("mine", Named::Service(other)),
                share("not mine", Named::Service(own)),
                FindName {
                    name: "mine".into(),
                }
                .into_request(),
                OpenIndexNetwork {
                    grace: attributes.timeout,
                }
                .into_request(),
                LoadIndex { budget: 9 }.into_request(),
            ],
        ),
        ("pages", 1, pages(id, end(own))),
    ];
    let named = |(name, choice, requests): (&str, u8, Vec<Request>)| {
        let body = |request| {
            let message = encode(request, MESSAGE_LEN_MAX, PEER).expect("a request is a message");
            message[4..].to_vec()
        };
        let bodies: Vec<_> = requests.iter().map(body).collect();
        let input = [&[choice][..], &bodies.join(&b'\n')].concat();
        (name.to_owned(), input)
    };
    lines.map(named).into()
}

/// Requests about pages and sequencers.
fn pages(id: SequencerId, client: (NodeId, Qpn)) -> Vec<Request> {
    let node = |node| PageNode {
        node: NodeId(node),
        frames: 8,
        workers: 1,
        slots: 2,
    };
    let store = PageStoreSpec {
        target: NodeId(TARGET as u16),
        nsid: 1,
        block_size: 512,
        page_size: PAGE_SIZE,
        pages: 8,
    };
    let spec = PageSpec {
        frame_size: PAGE_SIZE,
        nodes: vec![node(0), node(1)],
        stores: vec![store],
        fallback: None,
        standbys: Vec::new(),
        indexed: 8,
        timeout: PairAttributes::default().timeout,
        mtu: Mtu::B4096,
        lease_after: None,
    };
    let numbers = SequencerSpec {
        first: 5,
        block: 1024,
    };
    vec![
        TargetNamespaces { node: store.target }.into_request(),
        CreatePages { spec }.into_request(),
        PageSpecOf {}.into_request(),
        PageNodeOf { node: client.0 }.into_request(),
        OpenStoreTo {
            store: 0,
            nodes: vec![client.0],
        }
        .into_request(),
        LostPages {}.into_request(),
        CreateSequencer { spec: numbers }.into_request(),
        AttachSequencer {
            id,
            client,
            attributes: PairAttributes::default(),
        }
        .into_request(),
        SequencerReserved { id }.into_request(),
        DetachSequencer { client }.into_request(),
        CloseSequencer { id }.into_request(),
        RejoinPages { node: client.0 }.into_request(),
    ]
}
