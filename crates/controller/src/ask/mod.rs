//! Requests of services to the controller, as data.
//!
//! A service never acts on the controller: it sends a [`Request`] and gets a [`Reply`]. Where both
//! are in one process that is a function call; elsewhere the two travel over a control connection.
//! So no request holds a closure, a reference or a machine, and none refers to a clock: times are
//! relative, since the clocks of two processes differ.
//!
//! Each row of the table below is one request: its fields, its answer, which part of the controller
//! executes it, and how.

mod answer;
mod index;
mod rights;

pub use crate::unanswered::AskError;
pub use answer::{Answer, ShareError};
pub use index::IndexLoading;
use index::{capacity_of, remove_server, set_query, set_server};

use crate::connect::PairAttributes;
use crate::index::{IndexLoadError, IndexPlan, KeyWeights, LoadStep, PlanLimits};
use crate::{
    Controller, Fabric, FlowError, FlowId, FlowRings, FlowSpec, FlowState, LaneError, Loss,
    LostPage, Named, PageChannel, PagePool, PageSetUpError, PageSpec, Ring, SequencerId,
    SequencerPlace, SequencerSetUpError, SequencerSpec, Site, TargetReply, TargetRequest,
};
use rackweave_base::{Duration, NodeId, Qpn};
use rackweave_programs::index::entries::{IndexCounters, QueryEntry};
use rackweave_wire::fabric::page::PageId;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// One kind of request.
pub trait Ask: Sized {
    /// The type of the answer.
    type Answer: Answer;

    /// Converts it to the form that is sent.
    fn into_request(self) -> Request;

    /// Extracts its answer from a reply; `None` if the reply is to another request.
    fn answer_of(reply: Reply) -> Option<Self::Answer>;
}

/// What executes a request: the fabric, or the controller with the services.
macro_rules! part {
    (type fabric) => {
        &Fabric
    };
    (type services) => {
        &mut Controller
    };
    (answer fabric, $name:ident, $asked:ident, $fabric:ident, $site:ident) => {
        Ok(Reply::$name($asked.answer($fabric, $site)))
    };
    (answer services, $name:ident, $asked:ident, $fabric:ident, $site:ident) => {
        Err(Request::$name($asked))
    };
}

macro_rules! requests {
    ($($(#[$doc:meta])* $name:ident { $($(#[$about:meta])* $field:ident: $type:ty,)* }
        -> $answer:ty = |$part:ident: $controller:ident, $site:ident| $act:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Debug, Serialize, Deserialize)]
            pub struct $name { $($(#[$about])* pub $field: $type,)* }

            impl $name {
                fn answer(
                    self,
                    $controller: part!(type $part),
                    $site: &mut dyn Site,
                ) -> $answer {
                    let Self { $($field,)* } = self;
                    $act
                }
            }

            impl Ask for $name {
                type Answer = $answer;

                fn into_request(self) -> Request {
                    Request::$name(self)
                }

                fn answer_of(reply: Reply) -> Option<$answer> {
                    match reply {
                        Reply::$name(answer) => Some(answer),
                        _ => None,
                    }
                }
            }
        )*

        /// Any request.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each is documented at the type of its name")]
        pub enum Request { $($name($name),)* }

        /// The reply to the request of the same name.
        #[derive(Clone, Debug, Serialize, Deserialize)]
        #[expect(missing_docs, reason = "each is documented at the type of its name")]
        pub enum Reply { $($name($answer),)* }

        impl Request {
            /// Executes the request.
            pub fn answer(self, controller: &mut Controller, site: &mut dyn Site) -> Reply {
                match self {
                    $(Request::$name(asked) => Reply::$name(asked.answer(controller, site)),)*
                }
            }

            /// Executes the request if it is one to the fabric.
            ///
            /// # Errors
            /// The request, if it is for a service.
            pub fn answer_by_fabric(
                self,
                fabric: &Fabric,
                site: &mut dyn Site,
            ) -> Result<Reply, Request> {
                match self {
                    $(Request::$name(asked) => part!(answer $part, $name, asked, fabric, site),)*
                }
            }
        }
    };
}

requests! {
    /// Connects two queue pairs that are in state Reset.
    ConnectPair {
        /// One end.
        a: (NodeId, Qpn),
        /// The other end.
        b: (NodeId, Qpn),
        /// The attributes of the connection.
        attributes: PairAttributes,
    } -> Result<(), LaneError> = |fabric: fabric, site| {
        fabric.connect_pair(site, a, b, &attributes)
    };

    /// Sets up a flow.
    CreateFlow {
        /// Its specification.
        spec: FlowSpec,
    } -> Result<(FlowId, FlowRings), FlowError> = |fabric: fabric, site| {
        fabric.create_flow(site, spec)
    };

    /// Adds a consumer to a balanced or replicated flow; returns its number and ring.
    AddConsumer {
        /// The flow.
        flow: FlowId,
        /// The consumer's node.
        node: NodeId,
    } -> Result<(usize, Ring), FlowError> = |fabric: fabric, site| {
        fabric.add_consumer(site, flow, node)
    };

    /// Removes a consumer; its stream ends after the items that it has been shown.
    RemoveConsumer {
        /// The flow.
        flow: FlowId,
        /// The consumer's number.
        index: usize,
    } -> Result<(), FlowError> = |fabric: fabric, site| {
        fabric.remove_consumer(site, flow, index)
    };

    /// Adds a producer; returns its number and rings.
    AddProducer {
        /// The flow.
        flow: FlowId,
        /// The producer's node.
        node: NodeId,
    } -> Result<(usize, Vec<Ring>), FlowError> = |fabric: fabric, site| {
        fabric.add_producer(site, flow, node)
    };

    /// Removes a producer that has finished.
    RemoveProducer {
        /// The flow.
        flow: FlowId,
        /// The producer's number.
        index: usize,
    } -> Result<(), FlowError> = |fabric: fabric, site| {
        fabric.remove_producer(site, flow, index)
    };

    /// Changes the weight of a running flow.
    SetWeight {
        /// The flow.
        flow: FlowId,
        /// Its share among flows with weights; without one, its share is not regulated.
        weight: Option<u32>,
    } -> Result<(), FlowError> = |fabric: fabric, site| {
        fabric.set_weight(site, flow, weight)
    };

    /// Members of a flow that were lost.
    FlowLosses {
        /// The flow.
        flow: FlowId,
    } -> Vec<Loss> = |fabric: fabric, _site| fabric.losses(flow);

    /// The state of a flow; `None` if there is no such flow.
    FlowStateOf {
        /// The flow.
        flow: FlowId,
    } -> Option<FlowState> = |fabric: fabric, _site| fabric.flow_state(flow);

    /// The current rings of a flow; `None` if there is no such flow.
    FlowRingsOf {
        /// The flow.
        flow: FlowId,
    } -> Option<FlowRings> = |fabric: fabric, _site| fabric.flow_rings(flow);

    /// Gives a name to something, by which other processes find it.
    ShareName {
        /// The name.
        name: String,
        /// What it names.
        what: Named,
    } -> Result<(), ShareError> = |services: controller, _site| {
        Ok(controller.share_name(name, what)?)
    };

    /// Takes a name from a service.
    ForgetService {
        /// The name.
        name: String,
        /// The service's node.
        node: NodeId,
    } -> () = |services: controller, _site| controller.forget_service(&name, node);

    /// What has a name.
    FindName {
        /// The name.
        name: String,
    } -> Option<Named> = |services: controller, _site| controller.named(&name);

    /// Aborts a flow.
    CloseFlow {
        /// The flow.
        flow: FlowId,
    } -> () = |fabric: fabric, site| fabric.close_flow(site, flow);

    /// Sets up a page directory.
    CreatePages {
        /// Its specification.
        spec: PageSpec,
    } -> Result<(), PageSetUpError> = |services: controller, site| {
        controller.create_pages(site, spec)
    };

    /// The specification of the page directory, if there is one.
    PageSpecOf {} -> Result<Option<PageSpec>, PageSetUpError> = |services: controller, _site| {
        Ok(controller.page_spec().cloned())
    };

    /// Bytes of a block and the number of blocks of each namespace of a node's NVMe target; `None`
    /// if it has none, or is dead.
    TargetNamespaces {
        /// The node.
        node: NodeId,
    } -> Option<Vec<(u32, u64)>> = |fabric: _fabric, site| {
        match site.target(node, TargetRequest::Namespaces) {
            Some(Ok(TargetReply::Namespaces(all))) => Some(all),
            _ => None,
        }
    };

    /// A node's buffer frames and channels; `None` if it has none or is dead.
    PageNodeOf {
        /// The node.
        node: NodeId,
    } -> Option<(PagePool, Vec<PageChannel>)> = |services: controller, _site| {
        controller.page_node(node).map(|(pool, channels)| (pool, channels.to_vec()))
    };

    /// Brings a node that was declared dead back to the page directory.
    RejoinPages {
        /// The node.
        node: NodeId,
    } -> Result<(), PageSetUpError> = |services: controller, site| {
        controller.page_node_returned(site, node)
    };

    /// Opens a store of pages to these nodes and closes it to all others. Returns false if there is
    /// no such store.
    OpenStoreTo {
        /// The store.
        store: u8,
        /// Its members from now on.
        nodes: Vec<NodeId>,
    } -> bool = |services: controller, site| controller.open_store_to(site, store, &nodes);

    /// Pages whose newest version was lost with a node.
    LostPages {} -> Result<Vec<LostPage>, AskError> = |services: controller, site| {
        Ok(controller.remaining_losses(site).to_vec())
    };

    /// Reverts a lost page to its version in storage. Returns false if that is not possible.
    AcceptLoss {
        /// The page.
        page: PageId,
    } -> bool = |services: controller, site| controller.accept_loss(site, page);

    /// Moves the entry of a page to the switch.
    PromotePage {
        /// The page.
        page: PageId,
    } -> bool = |services: controller, site| controller.promote(site, page);

    /// Moves the entry of a page to the memory server.
    DemotePage {
        /// The page.
        page: PageId,
    } -> bool = |services: controller, site| controller.demote(site, page);

    /// Declares a node dead, whether or not it is.
    DeclareDead {
        /// The node.
        node: NodeId,
    } -> () = |services: controller, site| controller.node_died(site, node);

    /// Sets up a sequencer in the switch.
    CreateSequencer {
        /// Its specification.
        spec: SequencerSpec,
    } -> Result<SequencerId, SequencerSetUpError> = |services: controller, site| {
        controller.create_sequencer(site, spec)
    };

    /// Connects a client's queue pair, in any state, to the switch.
    AttachSequencer {
        /// The sequencer.
        id: SequencerId,
        /// The client's end.
        client: (NodeId, Qpn),
        /// The attributes of the connection.
        attributes: PairAttributes,
    } -> Result<SequencerPlace, SequencerSetUpError> = |services: controller, site| {
        controller.attach_sequencer(site, id, client, &attributes)
    };

    /// Removes a client's queue pair from the switch.
    DetachSequencer {
        /// The client's end.
        client: (NodeId, Qpn),
    } -> () = |services: controller, site| controller.detach_sequencer(site, client);

    /// Removes a sequencer.
    CloseSequencer {
        /// The sequencer.
        id: SequencerId,
    } -> () = |services: controller, site| controller.close_sequencer(site, id);

    /// The number of which, and of all above it, none was ever handed out by a sequencer.
    SequencerReserved {
        /// The sequencer.
        id: SequencerId,
    } -> Option<u64> = |services: controller, _site| controller.sequencer_reserved(id);

    /// Sets the maximum lifetime of a packet in the network; returns the capacity of the switches,
    /// or `None` if no switch leads queries.
    OpenIndexNetwork {
        /// The maximum lifetime.
        grace: Duration,
    } -> Option<PlanLimits> = |services: controller, site| {
        controller.index_mut().set_grace(grace);
        capacity_of(site)
    };

    /// Enters an endpoint of an index on a node as a server with a number. Its tree is at an
    /// address of its node, and its tree nodes have 2 to the power of `node_shift` bytes. Returns
    /// false if there is no such node.
    SetIndexServer {
        /// The number, which no plan and no other node's endpoint has.
        number: u16,
        /// The endpoint's node.
        node: NodeId,
        /// The address of tree node 0.
        address: u64,
        /// The size of tree nodes.
        node_shift: u8,
    } -> Result<bool, IndexLoadError> = |services: controller, site| {
        set_server(controller, site, number, node, (address, node_shift))
    };

    /// Removes an endpoint that no longer serves: its clients' queue pairs are forgotten. A number
    /// that another node's endpoint has stays.
    RemoveIndexServer {
        /// Its number.
        number: u16,
        /// Its node.
        node: NodeId,
    } -> Result<(), IndexLoadError> = |services: controller, site| {
        remove_server(controller, site, number, node)
    };

    /// Leads queries on a client's queue pair from now on, or drops them.
    SetIndexQuery {
        /// The server's node and its end of the queue pair.
        at: (NodeId, Qpn),
        /// Where they are led: to a server of that node.
        entry: Option<QueryEntry>,
    } -> Result<(), IndexLoadError> = |services: controller, site| {
        set_query(controller, site, at, entry)
    };

    /// Begins to load a plan into the bank that does not serve.
    BeginIndexLoad {
        /// The plan, whose targets are pinned.
        plan: Box<IndexPlan>,
    } -> Result<(), IndexLoadError> = |services: controller, site| {
        controller.index_mut().begin_load(site, Arc::from(plan))
    };

    /// Continues a load; also reloads switches that have restarted.
    LoadIndex {
        /// Maximum tree nodes written to each switch.
        budget: usize,
    } -> Result<IndexLoading, IndexLoadError> = |services: controller, site| {
        let step = controller.index_mut().load_step(site, budget);
        step.map(|step| match step {
            LoadStep::Wait { until } => IndexLoading::Wait(until.since(site.now())),
            LoadStep::More => IndexLoading::More,
            LoadStep::Done => IndexLoading::Done,
        })
    };

    /// Makes the loaded plan the active one. Returns how long queries may still be led by the
    /// previous plan.
    ActivateIndex {} -> Result<Duration, IndexLoadError> = |services: controller, site| {
        let done = controller.index_mut().activate(site);
        done.map(|()| controller.index().free_from().since(site.now()))
    };

    /// How often keys were asked for since the last call, by the switches' hit counters.
    TakeIndexHits {} -> KeyWeights = |services: controller, site| {
        controller.index().take_hits(site)
    };

    /// All switches' counters of queries since they started.
    IndexCountersOf {} -> IndexCounters = |services: _controller, site| {
        let mut all = IndexCounters::default();
        for at in 0..site.switches() {
            site.switch_at(at, &mut |_, switch| all += &switch.program().index.counters());
        }
        all
    };
}
