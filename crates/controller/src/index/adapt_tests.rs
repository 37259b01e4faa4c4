//! A workload whose hot keys move.

use super::super::test_trees::{Shape, TestTree, tree};
use super::*;
use rackweave_base::Rng;

const LIMITS: PlanLimits = PlanLimits {
    ranges: 32,
    nodes_per_layer: 16,
    layers: 2,
};

const CONFIG: AdapterConfig = AdapterConfig {
    every: Duration::from_secs(1),
    half_life: Duration::from_secs(2),
    gain: 0.1,
    weight_min: 100.0,
    ranges_max: 1000,
};

/// 4096 leaves.
fn big() -> TestTree {
    let shape = Shape {
        fan_out: 8,
        full: true,
        levels: 4,
    };
    tree(0, (0, u64::MAX), shape, &mut Rng::new(5))
}

/// A second of queries, the most for the leaf with number `hot`, the others for those after it by
/// Zipf's law: with an exponent of 1, the logarithm of the rank is spread evenly.
fn queries(tree: &TestTree, hot: usize, rng: &mut Rng) -> KeyWeights {
    let mut leaves: Vec<_> = tree.nodes.iter().filter(|node| node.level == 0).collect();
    leaves.sort_by_key(|leaf| leaf.low);
    let keys: Vec<u64> = (0..2000)
        .map(|_| {
            let rank = (leaves.len() as f64).powf(rng.fraction()) as usize - 1;
            let leaf = leaves[(hot + rank) % leaves.len()];
            rng.between(leaf.low, leaf.last)
        })
        .collect();
    KeyWeights::from_samples(&keys)
}

fn reads(verdict: &Verdict) -> (f64, f64) {
    match verdict {
        Verdict::Keep { reads, reads_best } => (*reads, *reads_best),
        Verdict::Replace {
            reads, reads_best, ..
        } => (*reads, *reads_best),
        Verdict::Unknown => panic!("enough is known"),
    }
}

#[test]
fn a_new_plan_follows_the_workload() {
    let tree = big();
    let trees = [tree.outline()];
    let mut rng = Rng::new(77);
    let mut now = Instant::ZERO;
    let mut adapter = Adapter::new(CONFIG, now);
    let unknown = adapter.judge(None, &trees, &LIMITS).unwrap();
    assert_eq!(unknown, Verdict::Unknown);
    let (mut active, mut replaced) = (None::<IndexPlan>, Vec::new());
    let mut best = 0.0;
    for second in 0..40 {
        now = adapter.poll_timeout();
        // After 20 seconds other keys are hot.
        let hot = if second < 20 { 300 } else { 2900 };
        adapter.handle_weights(now, &queries(&tree, hot, &mut rng));
        let verdict = adapter.judge(active.as_ref(), &trees, &LIMITS).unwrap();
        match second {
            0 => assert_eq!(reads(&verdict).0, 5.0, "five levels without a plan"),
            19 => best = reads(&verdict).0,
            39 => {
                let (is, _) = reads(&verdict);
                assert!(
                    is < best * 1.1,
                    "{is} READs a query, {best} before the shift"
                );
            }
            _ => {}
        }
        if let Verdict::Replace {
            plan,
            reads,
            reads_best,
        } = verdict
        {
            assert!(reads_best < reads * 0.9, "second {second}");
            replaced.push(second);
            active = Some(*plan);
        }
    }
    // At once, and never while the workload is unchanged. After a change, at once for what is known
    // then, and again as the old weights fade.
    assert_eq!(replaced[..2], [0, 20], "replaced in seconds {replaced:?}");
    assert!(replaced.len() <= 5, "replaced in seconds {replaced:?}");
    assert!(best < 2.5, "{best} READs a query");
}

#[test]
fn what_was_long_ago_counts_less() {
    let mut adapter = Adapter::new(CONFIG, Instant::ZERO);
    let at = |secs: u64| Instant::from_nanos(secs * 1_000_000_000);
    adapter.handle_weights(at(1), &KeyWeights::from_counts([(0, 9, 800)]));
    assert_eq!(adapter.poll_timeout(), at(2));
    adapter.handle_weights(at(5), &KeyWeights::from_counts([(100, 109, 50)]));
    assert!(
        (adapter.weights().of(0, 9) - 200.0).abs() < 1e-9,
        "two half lives"
    );
    assert_eq!(adapter.weights().of(100, 109), 50.0);
    // A clock that has not advanced changes nothing.
    adapter.handle_weights(at(4), &KeyWeights::default());
    assert!((adapter.weights().of(0, 9) - 200.0).abs() < 1e-9);
}

#[test]
fn a_plan_ages_as_the_tree_is_split() {
    let tree = big();
    let mut trees = [tree.outline()];
    let weights = KeyWeights::from_counts([(0, u64::MAX, 1 << 20)]);
    let limits = PlanLimits {
        ranges: 4096,
        ..LIMITS
    };
    let plan = plan(&trees, &weights, &limits).unwrap();
    assert_eq!(LevelsNow::new(&trees).reads(Some(&plan), &weights), 1.0);
    // Every leaf is split in the middle of its keys: half of the keys need one more step.
    for inner in trees[0].nodes.iter_mut().filter(|inner| inner.level == 1) {
        let ends = inner.children.iter().skip(1).map(|child| child.0 - 1);
        let ends: Vec<u64> = ends.chain([inner.last]).collect();
        let halves = inner
            .children
            .iter()
            .zip(ends)
            .flat_map(|(&(low, node), last)| {
                [(low, node), (low + (last - low).div_ceil(2), node + 10_000)]
            });
        inner.children = halves.collect();
    }
    let reads = LevelsNow::new(&trees).reads(Some(&plan), &weights);
    assert!((reads - 1.5).abs() < 0.01, "{reads}");
    assert_eq!(LevelsNow::new(&trees).reads(None, &weights), 5.0);
}
