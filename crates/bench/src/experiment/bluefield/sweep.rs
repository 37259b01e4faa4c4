//! Figures that put a sequencer on the host or the DPU and ask it by ever more client threads.

use super::Core;
use super::metered::{Metered, Outbox};
use crate::experiment::{ExperimentError, Run, Scale};
use rackweave_base::Duration;
use rackweave_sim::Category;
use rackweave_sim::testbed::Server;
use rackweave_sim::world::Context;

/// Servers that have the counter, and what figures call them.
pub const PLACES: [(Server, &str); 2] = [(Server::Host, "host"), (Server::Dpu, "DPU")];

/// How long a run is counted.
pub fn counted(scale: Scale) -> Duration {
    match scale {
        Scale::Quick => Duration::from_micros(500),
        Scale::Full | Scale::Paper => Duration::from_millis(2),
    }
}

/// What was seen in one place: its name, and one value for each number of clients.
pub type Curve<T> = (&'static str, Vec<(u16, T)>);

/// Calls `measure` with the share that is done, for each of [`PLACES`] with each number of clients.
///
/// # Errors
/// The first that `measure` gives, with where it happened.
pub fn sweep<T>(
    run: &mut Run<'_>,
    clients: &[u16],
    mut measure: impl FnMut(&mut Run<'_>, f64, Server, u16) -> Result<T, ExperimentError>,
) -> Result<Vec<Curve<T>>, ExperimentError> {
    let total = (PLACES.len() * clients.len()) as f64;
    let mut done = 0.0;
    let mut curves = Vec::new();
    for (server, name) in PLACES {
        let mut points = Vec::new();
        for &clients in clients {
            let seen = measure(run, done / total, server, clients)
                .map_err(|error| error.with(format!("{clients} clients, {name}")))?;
            points.push((clients, seen));
            done += 1.0;
        }
        curves.push((name, points));
    }
    Ok(curves)
}

/// A turn of a client: what it posted in the last one reaches the NIC, then it acts, and what the
/// verbs cost is charged. Returns what `act` does, and that cost.
pub fn turn<R>(
    context: &mut Context<'_>,
    outbox: &mut Outbox,
    core: Core,
    act: impl FnOnce(&mut Metered<'_>) -> Result<R, String>,
) -> (Result<R, String>, Duration) {
    let flushed = outbox.flush(context.nic());
    let mut verbs = Metered::new(context.nic(), outbox, core);
    let result = flushed.and_then(|()| act(&mut verbs));
    let spent = verbs.spent();
    context.charge(Category::Communication, spent);
    (result, spent)
}
