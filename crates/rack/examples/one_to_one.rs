//! The example of the README: a producer and a consumer on two nodes of an embedded rack.

use rackweave_base::NodeId;
use rackweave_endpoint::flow::{Taken, wait_until};
use rackweave_rack::{EmbeddedRack, RackConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rack = EmbeddedRack::new(&RackConfig::default())?;
    let flow = rack.create_flow(rack.flow_spec(&[NodeId(0)], &[NodeId(2)], 4096, 1 << 20))?;
    let (mut producer, mut consumer) = (flow.producers(0)?.remove(0), flow.consumer(0)?);

    producer.push(b"a row or two")?;
    producer.finish();

    let progress = rack.progress();
    wait_until(&*progress, || match consumer.peek(1) {
        Taken::Items(item) => {
            println!("{}", String::from_utf8_lossy(&item[..12]));
            consumer.release(1);
            None
        }
        Taken::Empty => None,
        Taken::Ended | Taken::Aborted => Some(()),
    });
    Ok(())
}
