//! A producer and a consumer on two nodes of an embedded rack.

use rackweave_base::NodeId;
use rackweave_endpoint::flow::Taken;
use rackweave_rack::{EmbeddedRack, RackConfig};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rack = EmbeddedRack::new(&RackConfig::default())?;
    let flow = rack
        .flow(&[NodeId(0)], &[NodeId(2)])
        .item_bytes(4096)
        .ring_bytes(1 << 20)
        .build()?;
    let (mut producer, mut consumer) = (flow.take_producer(0)?, flow.take_consumer(0)?);

    producer.push(b"a row or two")?;
    producer.finish();

    let progress = rack.progress();
    let show = |item: &[u8]| println!("{}", String::from_utf8_lossy(&item[..12]));
    while let Taken::Items(_) = consumer.take_each_wait(&*progress, 1, show) {}
    Ok(())
}
