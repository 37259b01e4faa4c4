//! Which handles are `Send` and which are shared, as promised in docs/embedding.md.

use rackweave::flow::{Consumer, Partitioner, Producer};
use rackweave::index::{IndexConnection, IndexCoordinator, IndexService};
use rackweave::messaging::{Listener, MessageConnection, MessageReceiver, MessageSender};
use rackweave::pages::{PageService, PageWorker, ReadGuard, WriteGuard};
use rackweave::sequencer::{SequencerClient, SequencerService};
use rackweave::testing::EmbeddedRack;
use rackweave::{Node, Rack};

fn sent<T: Send>() {}

fn shared<T: Send + Sync>() {}

#[test]
fn services_are_shared_and_what_they_lend_is_sent() {
    shared::<Rack>();
    shared::<EmbeddedRack>();
    shared::<Node>();
    shared::<PageService>();
    shared::<IndexService>();
    shared::<SequencerService>();
    shared::<PageWorker>();
    sent::<ReadGuard>();
    sent::<WriteGuard>();
    sent::<IndexConnection>();
    sent::<IndexCoordinator>();
    sent::<SequencerClient>();
    sent::<Producer>();
    sent::<Partitioner>();
    sent::<Consumer>();
    sent::<Listener>();
    sent::<MessageConnection>();
    sent::<MessageSender>();
    sent::<MessageReceiver>();
}
