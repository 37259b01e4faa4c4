//! Plans for generated trees, compared with plain searches of these trees.

use super::fat_root::choose;
use super::outline::{Forest, Inner, TreeOutline};
use super::plan::{IndexPlan, PlanError, PlanLimits, Target, plan};
use super::test_trees::{Shape, TestTree, read_plan, tree};
use super::{KeyWeights, NOBODY};
use rackweave_base::Rng;
use rackweave_programs::index::entries::{NO_SLOT, ROOT};
use std::collections::BTreeSet;

const LIMITS: PlanLimits = PlanLimits {
    ranges: 40,
    nodes_per_layer: 12,
    layers: 2,
};

fn everywhere() -> KeyWeights {
    KeyWeights::from_counts([(0, u64::MAX, 1 << 20)])
}

/// Keys to test: around all bounds.
fn probes(trees: &[TestTree]) -> Vec<u64> {
    let bounds = trees.iter().flat_map(|tree| tree.nodes.iter());
    let lows = bounds.map(|node| node.low).chain([0, u64::MAX]);
    let around = |low: u64| [low.wrapping_sub(1), low, low.wrapping_add(1)];
    lows.flat_map(around).collect()
}

/// Asserts that each key is led to a tree node on its path, and to [`NOBODY`] only if it has no
/// owner.
fn check(plan: &IndexPlan, trees: &[TestTree], context: &str) {
    for key in probes(trees) {
        let led = read_plan(plan, key);
        assert_eq!(led, plan.lookup(key), "{context}: key {key:#x}");
        match trees.iter().find(|tree| tree.has(key)) {
            None => assert_eq!((led.server, led.depth), (NOBODY, 0), "{context}: {key:#x}"),
            Some(tree) => {
                assert_eq!(led.server, tree.server, "{context}: key {key:#x}");
                let way = tree.way(key);
                assert!(
                    way.contains(&led.node),
                    "{context}: {key:#x}: {led:?}, {way:?}"
                );
            }
        }
    }
    let summary = plan.summary();
    let fits = |stage: &usize| *stage <= 2 * summary.ranges;
    assert!(summary.entries.iter().all(fits), "{context}: {summary:?}");
}

fn forest(seed: u64) -> (Vec<TestTree>, Vec<TreeOutline>, KeyWeights) {
    let mut rng = Rng::new(seed);
    let servers = rng.between(1, 4) as u16;
    let part = u64::MAX / u64::from(servers);
    let trees: Vec<TestTree> = (0..servers)
        .map(|server| {
            let levels = rng.below(5) as u8;
            let shape = Shape {
                fan_out: rng.between(2, [16, 16, 16, 8, 5][usize::from(levels)]) as usize,
                full: rng.chance(0.3),
                levels,
            };
            // Some with gaps in between.
            let low = part * u64::from(server) + rng.below(2) * rng.below(part / 4);
            let last = part * (u64::from(server) + 1) - 1 - rng.below(2) * rng.below(part / 4);
            tree(server, (low, last), shape, &mut rng)
        })
        .collect();
    let outlines = trees.iter().map(TestTree::outline).collect();
    let hot = rng.next_u64();
    let spread = rng.between(30, 64) as u32;
    let samples: Vec<u64> = (0..500)
        .map(|_| hot.wrapping_add(rng.next_u64() >> (64 - spread)))
        .collect();
    (trees, outlines, KeyWeights::from_samples(&samples))
}

#[test]
fn every_key_is_led_to_a_tree_node_on_its_way() {
    for seed in 0..60 {
        let (trees, outlines, weights) = forest(seed);
        let mut rng = Rng::new(seed);
        let limits = PlanLimits {
            ranges: rng.between(9, 200) as usize,
            nodes_per_layer: rng.between(0, 40) as usize,
            layers: rng.below(4) as usize,
        };
        let plan = plan(&outlines, &weights, &limits).unwrap();
        check(&plan, &trees, &format!("seed {seed}"));
        let summary = plan.summary();
        assert!(summary.ranges <= limits.ranges && summary.nodes.len() <= limits.layers);
        assert!(
            summary
                .nodes
                .iter()
                .all(|&nodes| nodes <= limits.nodes_per_layer)
        );
        let by_depth = plan.forecast(&weights).by_depth;
        assert!(
            (by_depth.iter().sum::<f64>() - 1.0).abs() < 1e-9,
            "{by_depth:?}"
        );
    }
}

#[test]
fn with_room_for_all_every_key_is_led_to_its_leaf() {
    for seed in 0..20 {
        let (trees, outlines, weights) = forest(seed);
        // Four roots and five gaps.
        let limits = PlanLimits {
            ranges: 9,
            nodes_per_layer: 4096,
            layers: 6,
        };
        let plan = plan(&outlines, &weights, &limits).unwrap();
        for key in probes(&trees) {
            let Some(tree) = trees.iter().find(|tree| tree.has(key)) else {
                continue;
            };
            let leaf = tree.way(key).last().copied();
            assert_eq!(Some(plan.lookup(key).node), leaf, "seed {seed}: {key:#x}");
        }
        assert_eq!(plan.forecast(&everywhere()).reads, 1.0);
    }
}

#[test]
fn targets_are_what_entries_lead_to() {
    for seed in 0..30 {
        let (trees, outlines, weights) = forest(seed);
        let plan = plan(&outlines, &weights, &LIMITS).unwrap();
        let targets = plan.targets();
        let known: BTreeSet<_> = targets.iter().map(|it| (it.server, it.node)).collect();
        assert_eq!(known.len(), targets.len(), "each once");
        for key in probes(&trees) {
            let led = plan.lookup(key);
            let is_root = led.node == ROOT;
            assert!(led.server == NOBODY || is_root || known.contains(&(led.server, led.node)));
        }
        for target in targets {
            let tree = trees
                .iter()
                .find(|tree| tree.server == target.server)
                .unwrap();
            let node = tree
                .nodes
                .iter()
                .find(|node| node.index == target.node)
                .unwrap();
            assert_eq!(node.low, target.low, "seed {seed}: {target:?}");
        }
    }
}

#[test]
fn what_could_not_be_pinned_gives_way_to_what_is_above() {
    for seed in 0..30 {
        let (trees, outlines, weights) = forest(seed);
        let mut rng = Rng::new(seed);
        let before = plan(&outlines, &weights, &LIMITS).unwrap();
        let targets = before.targets().into_iter();
        let failed: Vec<Target> = targets.filter(|_| rng.chance(0.3)).collect();
        let gone: BTreeSet<_> = failed.iter().map(|it| (it.server, it.node)).collect();
        let after = before.clone().without(&failed);
        check(&after, &trees, &format!("seed {seed}"));
        let left: BTreeSet<_> = before.targets().into_iter().collect();
        for target in after.targets() {
            assert!(left.contains(&target) && !gone.contains(&(target.server, target.node)));
        }
        let all: BTreeSet<_> = left.iter().map(|it| (it.server, it.node)).collect();
        for key in probes(&trees) {
            let (was, is) = (before.lookup(key), after.lookup(key));
            if was.server == NOBODY {
                continue;
            }
            // The deepest remaining tree node on the path that an entry led to, or the root.
            let tree = trees.iter().find(|tree| tree.has(key)).unwrap();
            let way = tree.way(key);
            let end = way.iter().position(|&node| node == was.node).unwrap();
            let is_left = |node: &&u32| {
                let known = (was.server, **node);
                **node == ROOT || (all.contains(&known) && !gone.contains(&known))
            };
            let expect = way[..=end].iter().rfind(is_left);
            assert_eq!(Some(&is.node), expect, "seed {seed}: key {key:#x}");
        }
        assert_eq!(before.clone().without(&[]), before);
    }
}

/// The greatest weight of any choice of tree nodes that includes all ancestors of each.
fn best(tree: &TestTree, weights: &KeyWeights, ranges: usize) -> f64 {
    let inner: Vec<_> = tree.nodes.iter().filter(|node| node.level > 0).collect();
    assert!(inner.len() <= 16, "small trees only");
    let mut best: f64 = 0.0;
    for set in 0u32..1 << inner.len() {
        let has = |index: u32| {
            let at = inner.iter().position(|node| node.index == index);
            at.is_some_and(|at| set >> at & 1 == 1)
        };
        let taken = || inner.iter().filter(|node| has(node.index));
        let closed = taken().all(|node| node.parent.is_none_or(has));
        let size = 1 + taken().map(|node| node.children.len() - 1).sum::<usize>();
        if closed && size <= ranges {
            let weight = taken().map(|node| weights.of(node.low, node.last)).sum();
            best = best.max(weight);
        }
    }
    best
}

#[test]
fn the_greedy_choice_is_the_best_one_for_full_tree_nodes() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (fan_out, levels) = *rng.pick(&[(2, 4), (3, 3), (2, 3), (4, 2), (12, 2)]);
        let shape = Shape {
            fan_out,
            full: true,
            levels,
        };
        let tree = tree(0, (0, u64::MAX), shape, &mut rng);
        let samples: Vec<u64> = (0..60)
            .map(|_| rng.next_u64() >> rng.below(4) >> rng.below(4))
            .collect();
        let weights = KeyWeights::from_samples(&samples);
        let outlines = [tree.outline()];
        let forest = Forest::new(&outlines, &weights).unwrap();
        for ranges in 1..20 {
            let choice = choose(&forest, ranges).unwrap();
            assert!(choice.spots.len() <= ranges);
            let bounds: BTreeSet<u64> = choice.spots.iter().map(|spot| spot.low).collect();
            let inner = tree.nodes.iter().filter(|node| node.level > 0);
            let taken = inner.filter(|node| {
                let mut lows = node.children.iter().map(|child| child.0);
                node.children.len() > 1 && lows.all(|low| bounds.contains(&low))
            });
            let weight: f64 = taken.map(|node| weights.of(node.low, node.last)).sum();
            let best = best(&tree, &weights, ranges);
            assert_eq!(weight, best, "seed {seed}, {ranges} ranges");
        }
    }
}

#[test]
fn a_layer_takes_the_heaviest_of_what_the_one_above_leads_to() {
    let shape = Shape {
        fan_out: 4,
        full: true,
        levels: 4,
    };
    let mut rng = Rng::new(9);
    let tree = tree(3, (0, u64::MAX), shape, &mut rng);
    let samples: Vec<u64> = (0..300).map(|_| rng.next_u64() >> rng.below(8)).collect();
    let weights = KeyWeights::from_samples(&samples);
    let limits = PlanLimits {
        ranges: 4,
        nodes_per_layer: 3,
        layers: 2,
    };
    let plan = plan(&[tree.outline()], &weights, &limits).unwrap();
    let weigh = |index: u32| {
        let node = tree.nodes.iter().find(|node| node.index == index).unwrap();
        weights.of(node.low, node.last)
    };
    let ranges = plan.fat_root.ranges.iter().map(|range| range.child);
    let mut above: Vec<_> = ranges.collect();
    for layer in &plan.layers {
        let cached = above.iter().filter(|child| child.slot != NO_SLOT);
        let least = cached
            .map(|child| weigh(child.node))
            .fold(f64::MAX, f64::min);
        let others = above.iter().filter(|child| child.slot == NO_SLOT);
        let most = others.map(|child| weigh(child.node)).fold(0.0, f64::max);
        assert!(layer.len() == 3 && least >= most, "{least} {most}");
        above = layer
            .iter()
            .flat_map(|node| node.children[..4].to_vec())
            .collect();
    }
    assert_eq!(plan.summary().nodes, [3, 3]);
}

#[test]
fn more_than_sixteen_children_are_too_many_for_a_layer_but_not_for_the_fat_root() {
    let shape = Shape {
        fan_out: 17,
        full: true,
        levels: 2,
    };
    let tree = tree(0, (0, u64::MAX), shape, &mut Rng::new(1));
    let limits = |ranges| PlanLimits { ranges, ..LIMITS };
    let in_layer = plan(&[tree.outline()], &everywhere(), &limits(16)).unwrap();
    let summary = in_layer.summary();
    assert_eq!(
        (summary.ranges, summary.too_wide, summary.left_out),
        (1, 1, 1)
    );
    assert!(in_layer.layers.is_empty());
    let in_root = plan(&[tree.outline()], &everywhere(), &limits(17)).unwrap();
    let summary = in_root.summary();
    assert_eq!(
        (summary.ranges, summary.too_wide, summary.left_out),
        (17, 17, 17)
    );
    check(&in_root, &[tree], "17 children");
}

/// A tree of two levels whose tree nodes are from different moments.
fn torn() -> TreeOutline {
    let inner = |index, level, low, last, children| Inner {
        index,
        level,
        low,
        last,
        children,
    };
    TreeOutline {
        server: 0,
        root: ROOT,
        low: 0,
        last: u64::MAX,
        nodes: vec![
            inner(1, 2, 0, u64::MAX, vec![(0, 2), (100, 3), (200, 4)]),
            // Split since the root was read: 50 to 99 are in a new tree node.
            inner(2, 1, 0, 49, vec![(0, 10), (25, 11)]),
            // Its index was reused for a leaf, or for another level.
            inner(3, 2, 100, 199, vec![(100, 12), (150, 13)]),
            // Begins further to the right than in the root.
            inner(4, 1, 250, u64::MAX, vec![(250, 14), (300, 15)]),
        ],
    }
}

#[test]
fn an_outline_of_several_moments_never_leads_too_far_to_the_right() {
    for (ranges, nodes_per_layer) in [(1, 8), (3, 8), (8, 0)] {
        let limits = PlanLimits {
            ranges,
            nodes_per_layer,
            layers: 2,
        };
        let plan = plan(&[torn()], &everywhere(), &limits).unwrap();
        for (key, expect) in [(0, 10), (24, 10), (25, 11), (49, 11), (50, 2), (99, 2)] {
            let led = read_plan(&plan, key);
            assert_eq!(led.node, expect, "{limits:?}: key {key}");
            assert_eq!(led.node, plan.lookup(key).node);
        }
        for (key, expect) in [(100, 3), (199, 3), (200, 4), (300, 4)] {
            assert_eq!(read_plan(&plan, key).node, expect, "{limits:?}: key {key}");
        }
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn outlines_and_limits_that_make_no_sense_are_refused() {
    let shape = Shape {
        fan_out: 4,
        full: true,
        levels: 1,
    };
    let mut rng = Rng::new(4);
    let mut outline = |server, range| tree(server, range, shape, &mut rng).outline();
    let (left, right) = (outline(0, (10, 1000)), outline(1, (1000, 2000)));
    let weights = everywhere();
    let refusal =
        |trees: &[TreeOutline], limits: &PlanLimits| plan(trees, &weights, limits).unwrap_err();
    let overlap = PlanError::Overlap {
        left: 0,
        right: 1,
        key: 1000,
    };
    assert_eq!(refusal(&[left.clone(), right], &LIMITS), overlap);
    let few = PlanLimits {
        ranges: 2,
        ..LIMITS
    };
    let needs = PlanError::TooFewRanges { needs: 3, has: 2 };
    assert_eq!(refusal(std::slice::from_ref(&left), &few), needs);
    for (limits, what) in [
        (
            PlanLimits {
                layers: 7,
                ..LIMITS
            },
            "layers: 7",
        ),
        (
            PlanLimits {
                nodes_per_layer: 4097,
                ..LIMITS
            },
            "4097",
        ),
        (
            PlanLimits {
                ranges: 1 << 16,
                ..LIMITS
            },
            "65536",
        ),
    ] {
        let said = refusal(std::slice::from_ref(&left), &limits).to_string();
        assert!(said.contains(what), "{said}");
    }
    type Spoil = fn(&mut TreeOutline);
    let spoils: [(Spoil, &str); 9] = [
        (|it| it.nodes[0].children.clear(), "no children"),
        (
            |it| it.nodes[0].children.swap(0, 1),
            "begins behind its least",
        ),
        (|it| it.nodes[0].children.swap(1, 2), "do not ascend"),
        (|it| it.nodes[0].level = 0, "a leaf"),
        (|it| it.nodes[0].last = 1, "ends before"),
        (|it| it.nodes[0].last = 11, "its greatest key"),
        (|it| it.nodes.push(it.nodes[0].clone()), "there twice"),
        (|it| it.low = 2000, "ends before"),
        (|it| it.server = NOBODY, "no server's number"),
    ];
    for (spoil, what) in spoils {
        let mut spoilt = left.clone();
        spoil(&mut spoilt);
        let said = refusal(&[spoilt], &LIMITS).to_string();
        assert!(said.contains(what), "{said}");
    }
    let twice = refusal(&[left.clone(), left], &LIMITS).to_string();
    assert!(twice.contains("both"), "{twice}");
}

#[test]
fn no_tree_at_all_is_one_range_of_nobody() {
    let plan = plan(&[], &everywhere(), &LIMITS).unwrap();
    assert_eq!(plan.lookup(7).server, NOBODY);
    assert!(plan.targets().is_empty() && plan.layers.is_empty());
}
