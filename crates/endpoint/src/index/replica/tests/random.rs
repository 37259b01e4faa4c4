//! Random operations while endpoints, replicas, clients and the coordinator die and ranges move:
//! the history is linearizable, and a replica that is whole equals its endpoint.

use super::world::{ENDPOINTS, World};
use crate::index::map::EndpointId;
use crate::test_network::Faults;

/// The life of an endpoint and its replica.
struct Pair {
    id: EndpointId,
    /// The nodes of the endpoint and of the replica.
    nodes: [usize; 2],
    epoch: u64,
}

#[derive(Default, Debug)]
struct Counts {
    promoted: u64,
    uncovered: u64,
    whole: u64,
}

impl Pair {
    /// Something may happen to it.
    fn live(&mut self, world: &mut World, counts: &mut Counts) {
        let at = self.id.index();
        let Some(endpoint) = &world.endpoints[at] else {
            return self.promote(world, counts);
        };
        let state = endpoint.shard.replication_state();
        let is_awake = world.backups[at].as_ref().is_some_and(|it| it.is_awake);
        if state.epoch == 0 {
            let settled = state.covered.is_none() && state.pending == 0;
            if settled && world.rng.chance(0.01) {
                self.epoch += 1;
                world.back_up(self.id, self.nodes[1], self.epoch);
            }
        } else if !is_awake {
            if world.rng.chance(0.003) {
                let shard = endpoint.shard.clone();
                shard.uncover(self.epoch);
                world.network.dead.retain(|node| *node != self.nodes[1]);
                world.end_backup(self.id);
                counts.uncovered += 1;
            }
        } else if world.network.dead.is_empty() {
            self.fail(world, state.is_whole && !state.is_lost);
        }
    }

    /// One of the two may die.
    fn fail(&mut self, world: &mut World, is_whole: bool) {
        if is_whole && world.rng.chance(0.0006) {
            // The endpoint dies, perhaps with pending writes.
            world.network.dead.push(self.nodes[0]);
            world.kill(self.id);
            world.dismiss();
        } else if world.rng.chance(0.0005) {
            // The replica does not answer any more, or its node dies.
            if let Some(backup) = &mut world.backups[self.id.index()] {
                backup.is_awake = false;
            }
            if world.rng.chance(0.5) {
                world.network.dead.push(self.nodes[1]);
            }
        }
    }

    /// The replica takes the place of the endpoint, and the endpoint's node is for the next one.
    fn promote(&mut self, world: &mut World, counts: &mut Counts) {
        if world.rng.chance(0.01) {
            world.promote(self.id);
            world.network.dead.retain(|node| *node != self.nodes[0]);
            self.nodes.swap(0, 1);
            counts.promoted += 1;
        }
    }
}

/// The entries of replicas that should equal those of their endpoints.
fn compare(world: &World, counts: &mut Counts) {
    for id in ENDPOINTS {
        let (endpoint, backup) = (&world.endpoints[id.index()], &world.backups[id.index()]);
        let (Some(endpoint), Some(backup)) = (endpoint, backup) else {
            continue;
        };
        let state = endpoint.shard.replication_state();
        if let Some(covered) = state
            .covered
            .filter(|_| state.pending == 0 && state.epoch != 0)
        {
            let (low, last) = (covered.low, covered.last);
            let tree = backup.replica.tree.read().unwrap();
            assert_eq!(
                World::entries(endpoint.shard.tree(), low, last),
                World::entries(tree.as_ref().unwrap(), low, last),
            );
            counts.whole += u64::from(state.is_whole);
        }
    }
}

fn run(seed: u64, steps: u64) -> (World, Counts) {
    println!("seed {seed}: RACKWEAVE_REPLICA_SEED={seed} repeats it");
    let mut world = World::new(seed);
    let mut counts = Counts::default();
    let mut pairs = ENDPOINTS.map(|id| Pair {
        id,
        nodes: [id.index(), id.index() + 2],
        epoch: 0,
    });
    if world.rng.chance(0.5) {
        world.network.faults = Faults {
            loss: 0.01,
            duplicate: 0.01,
            delay: 0.05,
        };
    }
    for step in 0..steps {
        for pair in &mut pairs {
            pair.live(&mut world, &mut counts);
        }
        if world.rng.chance(0.02) {
            world.attach();
        }
        if world.rng.chance(0.005) {
            world.release();
        }
        if world.rng.chance(0.0005) {
            let at = world.rng.below(3) as usize;
            world.leave(at);
        }
        if world.rng.chance(0.0003) {
            world.dismiss();
        }
        if world.rng.chance(0.005) {
            world.begin_move();
        }
        if world.rng.chance(0.6) {
            world.begin();
        }
        world.step();
        if step % 64 == 0 {
            compare(&world, &mut counts);
        }
    }
    (world, counts)
}

/// Everything that is pending ends once everybody is there.
fn settle(world: &mut World) {
    world.network.faults = Faults::default();
    world.network.dead.clear();
    for id in ENDPOINTS {
        if world.endpoints[id.index()].is_none() {
            world.promote(id);
        }
        let shard = &world.endpoints[id.index()].as_ref().unwrap().shard;
        if world.backups[id.index()]
            .as_ref()
            .is_none_or(|it| !it.is_awake)
        {
            shard.uncover(shard.replication_state().epoch);
        }
    }
    for _ in 0..20_000 {
        world.release();
        world.attach();
        world.step();
        let shards = world.endpoints.iter().flatten().map(|it| &it.shard);
        let mut states = shards.map(|shard| shard.replication_state());
        if !world.is_busy() && states.all(|it| it.pending == 0 && (it.is_whole || it.epoch == 0)) {
            return;
        }
    }
    for shard in world.endpoints.iter().flatten().map(|it| &it.shard) {
        println!("{:?} {:?}", shard.replication_state(), shard.state());
    }
    panic!("it does not come to rest; busy: {}", world.is_busy());
}

#[test]
fn the_history_is_linearizable_whoever_dies() {
    let seed = std::env::var("RACKWEAVE_REPLICA_SEED").ok();
    let seed = seed.map(|seed| seed.parse::<u64>().expect("a number"));
    let seeds = seed.map_or(1..13, |seed| seed..seed + 1);
    let (mut all, mut ended, mut moved) = (Counts::default(), 0, 0);
    let is_many = seeds.end - seeds.start > 1;
    for seed in seeds {
        let (mut world, counts) = run(seed, 12_000);
        settle(&mut world);
        compare(&world, &mut all);
        all.promoted += counts.promoted;
        all.uncovered += counts.uncovered;
        all.whole += counts.whole;
        ended += world.ended;
        moved += world.moved;
        if let Err(violations) = world.history.finish() {
            panic!("seed {seed}: {violations:#?}");
        }
    }
    println!("{all:?}, {ended} operations, {moved} chunks moved");
    if is_many {
        assert!(all.promoted > 50 && all.uncovered > 25 && all.whole > 1000);
        assert!(ended > 5000 && moved > 100);
    }
}
