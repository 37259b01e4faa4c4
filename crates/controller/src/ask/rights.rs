//! Properties of requests: who may send them, and what they touch.

use super::{
    AddConsumer, AddProducer, AttachSequencer, CreateFlow, CreatePages, DeclareDead,
    DetachSequencer, ForgetService, RejoinPages, RemoveIndexServer, Request, SetIndexQuery,
    SetIndexServer, ShareName,
};
use crate::Named;
use rackweave_base::NodeId;
use rackweave_verbs::Mtu;

impl Request {
    /// Whether a process that is this node may send it. Services are set up and removed by any node
    /// of the rack; what belongs to a node is up to the node itself.
    pub fn may_be_sent_by(&self, own: NodeId) -> bool {
        match self {
            Request::ConnectPair(pair) => pair.a.0 == own || pair.b.0 == own,
            Request::AddConsumer(AddConsumer { node, .. })
            | Request::AddProducer(AddProducer { node, .. })
            | Request::RejoinPages(RejoinPages { node })
            | Request::SetIndexServer(SetIndexServer { node, .. })
            | Request::RemoveIndexServer(RemoveIndexServer { node, .. })
            | Request::SetIndexQuery(SetIndexQuery { at: (node, _), .. })
            | Request::ForgetService(ForgetService { node, .. })
            | Request::ShareName(ShareName {
                what: Named::Service(node),
                ..
            })
            | Request::DeclareDead(DeclareDead { node }) => *node == own,
            Request::AttachSequencer(AttachSequencer { client, .. })
            | Request::DetachSequencer(DetachSequencer { client }) => client.0 == own,
            _ => true,
        }
    }

    /// The nodes that it connects to each other.
    pub fn connects(&self) -> Vec<NodeId> {
        match self {
            Request::ConnectPair(pair) => vec![pair.a.0, pair.b.0],
            Request::CreateFlow(CreateFlow { spec }) => {
                [&spec.producers[..], &spec.consumers[..]].concat()
            }
            Request::CreatePages(CreatePages { spec }) => {
                let nodes = spec.nodes.iter().map(|node| node.node);
                nodes
                    .chain(spec.stores.iter().map(|store| store.target))
                    .collect()
            }
            Request::AddConsumer(AddConsumer { node, .. })
            | Request::AddProducer(AddProducer { node, .. })
            | Request::RejoinPages(RejoinPages { node }) => vec![*node],
            _ => Vec::new(),
        }
    }

    /// The MTU of the connections that it makes, which links may limit.
    pub fn mtu_mut(&mut self) -> Option<&mut Mtu> {
        match self {
            Request::ConnectPair(pair) => Some(&mut pair.attributes.mtu),
            Request::CreateFlow(create) => Some(&mut create.spec.mtu),
            Request::AttachSequencer(attach) => Some(&mut attach.attributes.mtu),
            Request::CreatePages(create) => Some(&mut create.spec.mtu),
            _ => None,
        }
    }

    /// Whether it may change the memory of nodes, so that waiting programs there have to check it.
    pub fn is_felt(&self) -> bool {
        !matches!(
            self,
            Request::ConnectPair(_)
                | Request::FlowLosses(_)
                | Request::FlowStateOf(_)
                | Request::FlowRingsOf(_)
                | Request::ShareName(_)
                | Request::FindName(_)
                | Request::ForgetService(_)
                | Request::PageNodeOf(_)
                | Request::PageSpecOf(_)
                | Request::TargetNamespaces(_)
                | Request::LostPages(_)
                | Request::PromotePage(_)
                | Request::DemotePage(_)
                | Request::SequencerReserved(_)
                | Request::OpenIndexNetwork(_)
                | Request::SetIndexServer(_)
                | Request::RemoveIndexServer(_)
                | Request::SetIndexQuery(_)
                | Request::BeginIndexLoad(_)
                | Request::LoadIndex(_)
                | Request::ActivateIndex(_)
                | Request::TakeIndexHits(_)
                | Request::IndexCountersOf(_)
                | Request::CreateFlow(_)
        )
    }
}
