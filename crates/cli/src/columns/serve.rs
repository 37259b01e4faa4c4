//! A node that serves TPC-H's lineitem by columns.

use super::{Offer, ServeArgs, service_of};
use crate::globals::Globals;
use crate::hosted::event::{Speaker, What};
use crate::outcome::{CliError, Verdict};
use rackweave_endpoint::messaging::MessagingConfig;
use rackweave_endpoint::messaging::columns::{Catalogue, ColumnServerConfig, ServerCounters};
use rackweave_rack::Rack;
use rackweave_rack::messaging::{ColumnService, Listener};
use rackweave_rack::services::wait_within;
use rackweave_workload::columns::{TPCH_COLUMNS, encode, tpch_columns};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// How long a round of serving lasts at most.
const ROUND: Duration = Duration::from_secs(1);

/// Serves until the user wants to stop.
pub fn run(args: &ServeArgs, rack: &Rack, globals: &Globals) -> Result<Verdict, CliError> {
    let node = rack.any_node();
    let speaker = Speaker::new(globals, node.name());
    let catalogue = Arc::new(catalogue(args, rack)?);
    let address = match args.listen {
        Some(address) => address,
        None => SocketAddr::new(own_address(rack.config().hosted().control)?, 0),
    };
    let messaging = MessagingConfig::default();
    let mut listener = Listener::bind(rack, node.id(), address, messaging)?;
    let offer = Offer {
        node: node.name().to_owned(),
        address: listener.local_addr(),
        scale_factor: args.scale_factor.get(),
        part: args.part.number,
        parts: args.part.parts,
    };
    let answer = serde_json::to_value(&offer)?;
    let service = service_of(node.name());
    let backend = rack.backend();
    backend.provide(&service, Arc::new(move |_| Ok(answer.clone())))?;
    let columns = catalogue.columns();
    speaker.say(What::ServingColumns {
        address: offer.address.to_string(),
        scale_factor: offer.scale_factor,
        part: offer.part,
        parts: offer.parts,
        columns: columns.len(),
        rows: columns.first().map_or(0, |column| column.shape().rows),
    });
    let mut connections = Connections::default();
    while !globals.interrupt.is_set() {
        wait_within(&node, ROUND, || {
            connections.poll(&mut listener, &catalogue);
            globals.interrupt.is_set().then_some(())
        });
    }
    backend.withdraw(&service);
    speaker.say(connections.ended());
    Ok(Verdict::Ended)
}

/// The columns of the part, in the node's memory.
fn catalogue(args: &ServeArgs, rack: &Rack) -> Result<Catalogue, CliError> {
    let names = TPCH_COLUMNS.iter().map(|column| column.name);
    let names: Vec<_> = names.filter(|name| name.starts_with("lineitem.")).collect();
    let arrays = tpch_columns(args.scale_factor, args.part.part, &names)?;
    let catalogue = Catalogue::new(names.len());
    for (name, array) in names.into_iter().zip(arrays) {
        let column = encode(&*array)?;
        drop(array);
        let added = catalogue.add(rack.memory(), name, &column);
        added.map_err(|error| {
            CliError::run(format!(
                "{name} does not fit: {error}; serve a smaller --part, or raise memory_limit in \
                 the configuration"
            ))
        })?;
    }
    Ok(catalogue)
}

/// This machine's address on the way to the controller. Nothing is sent.
fn own_address(control: SocketAddr) -> Result<IpAddr, CliError> {
    let any: IpAddr = match control {
        SocketAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    let found = UdpSocket::bind((any, 0)).and_then(|socket| {
        socket.connect(control)?;
        socket.local_addr()
    });
    let found = found.map_err(|error| {
        CliError::run(format!(
            "no address of this machine reaches {control}: {error}; name one with --listen"
        ))
    })?;
    Ok(found.ip())
}

/// The open connections, and what the closed ones have sent.
#[derive(Default)]
struct Connections {
    open: Vec<ColumnService>,
    accepted: u64,
    columns: u64,
    bytes: u64,
}

impl Connections {
    fn poll(&mut self, listener: &mut Listener, catalogue: &Arc<Catalogue>) {
        listener.poll();
        while let Some(connection) = listener.try_accept() {
            let config = ColumnServerConfig::default();
            let service = ColumnService::new(connection, catalogue.clone(), config);
            self.open.push(service);
            self.accepted += 1;
        }
        let (mut columns, mut bytes) = (0, 0);
        self.open.retain_mut(|service| {
            // A client that misbehaves or dies ends its own connection only.
            let goes_on = service.poll().is_ok() && !service.is_finished();
            if !goes_on {
                let sent = *service.counters();
                (columns, bytes) = (columns + sent.columns, bytes + sent.bytes);
            }
            goes_on
        });
        self.columns += columns;
        self.bytes += bytes;
    }

    fn ended(self) -> What {
        let open: Vec<ServerCounters> = self.open.iter().map(|one| *one.counters()).collect();
        What::ServedColumns {
            connections: self.accepted,
            columns: self.columns + open.iter().map(|sent| sent.columns).sum::<u64>(),
            bytes: self.bytes + open.iter().map(|sent| sent.bytes).sum::<u64>(),
        }
    }
}
