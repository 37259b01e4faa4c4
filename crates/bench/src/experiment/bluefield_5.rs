//! Figure 5 of the BlueField paper: lookups and updates by local threads of host or DPU.

use super::bluefield::tree::{self, PAPER_KEYS};
use super::bluefield::{SERVERS, testbed};
use super::bluefield_4::real_keys;
use crate::harness::prelude::*;
use rackweave_endpoint::btree::Tree;

/// Millions of lookups per second on the DPU, with the fewest and the most keys. Source: the
/// paper's figure 5.
const DPU_LOOKUPS: [f64; 2] = [9.9, 2.5];

/// Operations of a thread per step.
const AT_ONCE: u64 = 8;

const OPERATIONS: [(bool, &str); 2] = [(true, "updates"), (false, "lookups")];

fn operate(tree: &Tree, key: u64, updates: bool) -> Result<(), Failure> {
    let value = tree::value_of(key);
    let right = match updates {
        true => tree
            .update(key, &value.to_le_bytes())
            .map_err(|error| format!("key {key}: {error}"))?,
        false => tree.lookup_word(key) == Some(value),
    };
    right.then_some(()).ok_or(format!("key {key} is wrong"))
}

fn measure(run: &mut Run<'_>, (server, updates): (Server, bool), keys: u64) -> Result<f64> {
    let real = real_keys(run.scale, keys);
    let span = Span::new(
        Duration::from_micros(20),
        Duration::from_micros(run.scale.pick(200, 1_000)),
    );
    let memory_bytes = 8 * real * tree::ENTRY_BYTES + (64 << 20);
    let mut rack = testbed(run.seed, memory_bytes)?;
    let tree = tree::load(rack.memory(), real)?;
    let cost = tree::cost(server, keys, tree::NODE_BYTES);
    let cost = if updates { cost.update } else { cost.lookup };
    let tally = Tally::new(rack.now(), span);
    let mut rng = Rng::new(run.seed).fork("local");
    for thread in 0..server.threads() {
        let (tree, tally) = (tree.clone(), tally.clone());
        let mut rng = rng.fork(&format!("thread {thread}"));
        // A thread that operates on the tree without pause.
        let local = move |context: &mut Context<'_>| -> Turn {
            let mut at = context.now();
            for _ in 0..AT_ONCE {
                let since = at;
                at += cost;
                operate(&tree, rng.below(real), updates)?;
                tally.borrow_mut().end(since, at);
            }
            context.charge(Category::Compute, cost * AT_ONCE);
            Ok(Step::Compute(Duration::ZERO))
        };
        rack.spawn(server.of_thread(thread), local);
    }
    let seen = Tally::run(&tally, run, &mut rack)?;
    tree.check().or_failed("the tree")?;
    Ok(seen.per_second)
}

pub fn run(run: &mut Run<'_>) -> Result<Measured> {
    let rows = OPERATIONS.into_iter().flat_map(|(updates, what)| {
        SERVERS.map(|(server, name)| (format!("{what} | {name}"), (server, updates), PAPER_KEYS))
    });
    let curves = Grid::of_rows(rows).measure(run, measure)?;
    let bar = |keys| PAPER_KEYS.iter().position(|&one| one == keys).unwrap_or(0) as f64;
    let on_dpu = curves.iter().find(|curve| curve.of == (Server::Dpu, false));
    let dpu = [PAPER_KEYS[0], PAPER_KEYS[2]].into_iter().zip(DPU_LOOKUPS);
    let dpu = dpu.map(|(keys, paper)| {
        let ours = on_dpu.map_or(f64::NAN, |curve| curve.value(keys, |rate| rate / 1e6));
        values! { paper, ours, name: tree::named(keys), bar: bar(keys) }
    });
    let values = values! {
        dpu: dpu.collect::<Vec<Values>>(),
        real: real_keys(run.scale, PAPER_KEYS[2]),
    };
    let series = grid::series(&curves, bar, |rate| rate / 1e6);
    Ok(Measured::new(series, values))
}

#[cfg(test)]
mod tests;
