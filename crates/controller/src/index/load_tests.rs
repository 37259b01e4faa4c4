//! Plans in real switches.

use super::super::plan::{PlanLimits, plan};
use super::super::test_trees::{Shape, TestTree, tree};
use super::super::{IndexLoadError, Led};
use super::rig::{ALL, Rack, enter, ip, racks, server_host};
use super::*;
use rackweave_base::{Rkey, Rng};
use rackweave_programs::index::entries::{IndexConfig, ROOT, ServerEntry};

const LIMITS: PlanLimits = PlanLimits {
    ranges: 64,
    nodes_per_layer: 24,
    layers: 2,
};

/// Trees of all servers with a gap between two of them, and a plan.
fn trees(seed: u64) -> (Vec<TestTree>, Arc<IndexPlan>) {
    let mut rng = Rng::new(seed);
    let shape = Shape {
        fan_out: 6,
        full: rng.chance(0.5),
        levels: 4,
    };
    let ranges = [(0, (1 << 62) - 1), (1 << 62, 1 << 63), (3 << 62, u64::MAX)];
    let trees: Vec<_> = (0u16..)
        .zip(ranges)
        .map(|(server, range)| tree(server, range, shape, &mut rng))
        .collect();
    let outlines: Vec<_> = trees.iter().map(TestTree::outline).collect();
    let hot = rng.next_u64();
    let samples: Vec<u64> = (0..300)
        .map(|_| hot.wrapping_add(rng.next_u64() >> rng.below(60)))
        .collect();
    let weights = KeyWeights::from_samples(&samples);
    let plan = plan(&outlines, &weights, &LIMITS).unwrap();
    assert_eq!(plan.layers.len(), 2);
    (trees, Arc::new(plan))
}

/// Keys around the bounds of the plans, with the server that has each.
fn keys(plans: &[&IndexPlan], rng: &mut Rng) -> Vec<(u16, u64)> {
    let leads = plans.iter().flat_map(|plan| plan.leads.iter());
    let leads: Vec<_> = leads.filter(|lead| lead.server != NOBODY).collect();
    (0..60)
        .map(|_| {
            let lead = rng.pick(&leads);
            let key = match rng.below(3) {
                0 => lead.low,
                1 => lead.last,
                _ => rng.between(lead.low, lead.last.max(1) - 1).max(lead.low),
            };
            (lead.server, key)
        })
        .collect()
}

fn load_all(rack: &mut Rack, registry: &mut IndexRegistry, plan: &Arc<IndexPlan>) {
    registry.begin_load(rack, plan.clone()).unwrap();
    while registry.load_step(rack, 5).unwrap() != LoadStep::Done {
        rack.now += Duration::from_millis(10);
    }
    registry.activate(rack).unwrap();
}

#[test]
fn queries_are_led_as_planned() {
    for (seed, configs) in racks().into_iter().cycle().take(6).enumerate() {
        let (mut rack, mut registry) = (Rack::new(&configs), IndexRegistry::default());
        enter(&mut rack, &mut registry);
        let (trees, plan) = trees(seed as u64);
        assert_eq!(rack.ask(0, 5), Some(ROOT), "nothing is loaded yet");
        load_all(&mut rack, &mut registry, &plan);
        let mut rng = Rng::new(seed as u64);
        let mut depths = 0;
        for (server, key) in keys(&[&plan], &mut rng) {
            let Led { node, depth, .. } = plan.lookup(key);
            assert_eq!(rack.ask(server, key), Some(node), "seed {seed}: {key:#x}");
            assert!(trees[usize::from(server)].way(key).contains(&node));
            depths |= 1 << depth;
        }
        assert_eq!(
            depths & !0b1110,
            0,
            "by the fat root and both layers: {depths:b}"
        );
        // Keys without an owner, or with another owner, are led to the root of the server that was
        // asked.
        for key in [(1 << 63) + 1, (3 << 62) - 1, 3 << 62, u64::MAX] {
            assert_eq!(rack.ask(0, key), Some(ROOT), "seed {seed}: {key:#x}");
        }
    }
}

#[test]
fn no_query_sees_parts_of_two_plans() {
    for (seed, configs) in racks().into_iter().cycle().take(6).enumerate() {
        let (mut rack, mut registry) = (Rack::new(&configs), IndexRegistry::default());
        enter(&mut rack, &mut registry);
        let mut rng = Rng::new(100 + seed as u64);
        let grace = Duration::from_micros(50);
        registry.set_grace(grace);
        let (_, mut old) = trees(seed as u64);
        load_all(&mut rack, &mut registry, &old);
        // Queries between the switches, with the plan that they began with.
        let mut under_way = Vec::new();
        for round in 0..4 {
            let (_, new) = trees(1000 + 10 * seed as u64 + round);
            registry.begin_load(&mut rack, new.clone()).unwrap();
            assert_eq!(registry.activate(&mut rack), Err(IndexLoadError::NotLoaded));
            let mut steps = 0;
            loop {
                for (server, key) in keys(&[&old, &new], &mut rng) {
                    let context = format!("seed {seed}, round {round}, key {key:#x}");
                    if rng.chance(0.2) {
                        let packet = rack.send(server, key);
                        let led = old.lookup(key).node;
                        under_way.push((rack.now, server, packet, led, context));
                    } else {
                        let led = old.lookup(key).node;
                        assert_eq!(rack.ask(server, key), Some(led), "{context}");
                    }
                }
                let step = registry.load_step(&mut rack, 7).unwrap();
                steps += 1;
                rack.now += Duration::from_micros(10);
                // Queries are in flight for less than the grace time.
                under_way.retain(|(sent, server, packet, led, context)| {
                    let is_old = rack.now.since(*sent) >= Duration::from_micros(40);
                    if is_old {
                        let found = rack.arrive(*server, packet.clone());
                        assert_eq!(found, Some(*led), "{context}");
                    }
                    !is_old
                });
                if step == LoadStep::Done {
                    break;
                }
            }
            assert!(steps > 3, "piece by piece");
            registry.activate(&mut rack).unwrap();
            old = new;
        }
    }
}

#[test]
fn a_bank_is_filled_again_only_after_the_grace_time() {
    let (mut rack, mut registry) = (Rack::new(&[ALL]), IndexRegistry::default());
    enter(&mut rack, &mut registry);
    registry.set_grace(Duration::from_millis(2));
    let (_, plan) = trees(1);
    load_all(&mut rack, &mut registry, &plan);
    assert_eq!(
        (registry.active_bank(), registry.free_from()),
        (Some(0), Instant::ZERO)
    );
    load_all(&mut rack, &mut registry, &plan);
    let until = rack.now + Duration::from_millis(2);
    assert_eq!(
        (registry.active_bank(), registry.free_from()),
        (Some(1), until)
    );
    registry.begin_load(&mut rack, plan.clone()).unwrap();
    let step = registry.load_step(&mut rack, 1000).unwrap();
    assert_eq!(step, LoadStep::Wait { until });
    rack.now = until;
    assert_eq!(registry.load_step(&mut rack, 1000), Ok(LoadStep::Done));
    registry.activate(&mut rack).unwrap();
    assert_eq!(registry.active_bank(), Some(0));
    registry.deactivate(&mut rack).unwrap();
    assert_eq!(rack.ask(0, 5), Some(ROOT));
    assert_eq!(registry.free_from(), until + Duration::from_millis(2));
    assert!(registry.active().is_none() && registry.targets().is_empty());
}

#[test]
fn a_switch_that_restarts_is_given_everything_again() {
    for (seed, configs) in racks().into_iter().cycle().take(4).enumerate() {
        let (mut rack, mut registry) = (Rack::new(&configs), IndexRegistry::default());
        enter(&mut rack, &mut registry);
        let (trees_of, plan) = trees(seed as u64);
        load_all(&mut rack, &mut registry, &plan);
        let mut rng = Rng::new(seed as u64);
        for at in 0..configs.len() {
            let (_, next) = trees(50 + seed as u64);
            registry.begin_load(&mut rack, next).unwrap();
            rack.now += Duration::from_secs(1);
            registry.load_step(&mut rack, 6).unwrap();
            rack.restart(at);
            assert_eq!(rack.ask(0, 5), None, "queue pairs are not known");
            registry.switch_restarted(&mut rack, at).unwrap();
            assert!(registry.is_behind());
            while registry.is_behind() {
                for (server, key) in keys(&[&plan], &mut rng) {
                    let led = rack.ask(server, key).unwrap();
                    if at == 0 {
                        assert_eq!(led, ROOT, "its first switch has no plan");
                    }
                    let way = trees_of[usize::from(server)].way(key);
                    let end = way.iter().position(|&node| node == plan.lookup(key).node);
                    assert!(
                        way[..=end.unwrap()].contains(&led),
                        "less deep, never wrong"
                    );
                }
                registry.load_step(&mut rack, 3).unwrap();
            }
            for (server, key) in keys(&[&plan], &mut rng) {
                assert_eq!(rack.ask(server, key), Some(plan.lookup(key).node));
            }
        }
        // The plan that was being loaded is loaded there, too.
        while registry.load_step(&mut rack, 6).unwrap() != LoadStep::Done {}
        registry.activate(&mut rack).unwrap();
        let next = registry.active().unwrap().clone();
        for (server, key) in keys(&[&next], &mut rng) {
            assert_eq!(rack.ask(server, key), Some(next.lookup(key).node));
        }
    }
}

#[test]
fn hits_say_what_was_asked_for() {
    for configs in racks() {
        let (mut rack, mut registry) = (Rack::new(&configs), IndexRegistry::default());
        enter(&mut rack, &mut registry);
        assert!(registry.take_hits(&mut rack).is_empty());
        let (_, plan) = trees(3);
        load_all(&mut rack, &mut registry, &plan);
        assert!(registry.take_hits(&mut rack).is_empty());
        let mut rng = Rng::new(8);
        let asked = keys(&[&plan], &mut rng);
        for &(server, key) in &asked {
            rack.ask(server, key);
        }
        let hits = registry.take_hits(&mut rack);
        assert_eq!(hits.total(), asked.len() as f64);
        for lead in plan.leads.iter() {
            let within = |(_, key): &&(u16, u64)| (lead.low..=lead.last).contains(key);
            let expect = asked.iter().filter(within).count() as f64;
            let found = hits.of(lead.low, lead.last);
            assert!(
                (found - expect).abs() < 1e-6,
                "{lead:?}: {found}, not {expect}"
            );
        }
        assert!(registry.take_hits(&mut rack).is_empty(), "taken once");
        let queries: u64 = (0..configs.len()).map(|at| rack.counters(at).queries).sum();
        assert_eq!(queries, asked.len() as u64);
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let (_, plan) = trees(2);
    let refusal = |configs: &[IndexConfig]| {
        let (mut rack, mut registry) = (Rack::new(configs), IndexRegistry::default());
        if configs.iter().any(|config| config.servers > 0) {
            enter(&mut rack, &mut registry);
        }
        let error = registry.begin_load(&mut rack, plan.clone()).unwrap_err();
        assert_eq!(
            registry.load_step(&mut rack, 9),
            Ok(LoadStep::Done),
            "nothing begun"
        );
        error
    };
    let [_, two] = racks();
    assert_eq!(refusal(&[IndexConfig::NONE]), IndexLoadError::NoIndex);
    let [first, second] = [two[0], two[1]];
    assert_eq!(refusal(&[second]), IndexLoadError::NoFatRoot);
    let no_layer = IndexLoadError::NoLayer {
        layer: 2,
        layers: 2,
    };
    assert_eq!(refusal(&[first]), no_layer);
    let small = IndexConfig {
        fat_ranges: 3,
        ..ALL
    };
    let said = refusal(&[small]).to_string();
    assert!(said.contains("room for 3; raise fat_ranges"), "{said}");
    let small = IndexConfig { nodes: 2, ..second };
    let said = refusal(&[first, small]).to_string();
    assert!(
        said.contains("switch 1 has room for 2; raise nodes"),
        "{said}"
    );
    // Servers and queue pairs.
    let (mut rack, mut registry) = (Rack::new(&[ALL]), IndexRegistry::default());
    let unknown = IndexLoadError::UnknownServer { server: 0 };
    assert_eq!(
        registry.begin_load(&mut rack, plan.clone()),
        Err(unknown.clone())
    );
    let entry = QueryEntry {
        server: 0,
        rkey: Rkey(1),
    };
    let pair = (ip(1), Qpn(1));
    assert_eq!(
        registry.set_query(&mut rack, pair, Some(entry)),
        Err(unknown)
    );
    enter(&mut rack, &mut registry);
    for number in 3..8 {
        registry
            .set_query(&mut rack, (ip(1), Qpn(number)), Some(entry))
            .unwrap();
    }
    let full = registry
        .set_query(&mut rack, pair, Some(entry))
        .unwrap_err();
    assert!(full.to_string().contains("full"), "{full}");
    registry
        .set_query(&mut rack, (ip(1), Qpn(7)), None)
        .unwrap();
    registry.set_query(&mut rack, pair, Some(entry)).unwrap();
}

#[test]
fn a_number_is_one_endpoints_until_that_is_removed() {
    let (mut rack, mut registry) = (Rack::new(&[ALL]), IndexRegistry::default());
    enter(&mut rack, &mut registry);
    let [of, other] = [0, 1].map(|server| ip(server_host(server)));
    let at_other = ServerEntry {
        ip: other,
        address: 0,
        node_shift: 8,
    };
    assert_eq!(
        registry.set_server(&mut rack, 0, Some(at_other)),
        Err(IndexLoadError::ServerTaken { server: 0 })
    );
    assert!(registry.is_at(0, of));
    registry.remove_server(&mut rack, 0, of).unwrap();
    registry.set_server(&mut rack, 0, Some(at_other)).unwrap();
    assert!(registry.is_at(0, other));
}

#[test]
fn a_node_that_dies_takes_its_servers_and_their_queue_pairs_with_it() {
    let (mut rack, mut registry) = (Rack::new(&[ALL]), IndexRegistry::default());
    enter(&mut rack, &mut registry);
    let [dead, other] = [0, 1].map(|server| ip(server_host(server)));
    assert!(registry.is_at(0, dead) && registry.is_at(1, other));
    registry.node_died(&mut rack, dead);
    assert!(!registry.is_at(0, dead) && registry.is_at(1, other));
    let mut left: Vec<_> = registry.queries.keys().map(|(ip, _)| *ip).collect();
    left.dedup();
    assert!(!left.contains(&dead) && left.contains(&other), "{left:?}");
}
