//! The judge must notice every kind of fault, and nothing else.

use super::*;

fn runs(runs: &[(u32, u64, u64)]) -> Vec<Run> {
    runs.iter()
        .map(|&(producer, first, end)| Run {
            producer,
            first,
            end,
        })
        .collect()
}

/// The judgement of consumers that were present all the time, after `changed` has modified them.
fn said(
    shape: FlowShape,
    pushed: &[&[u64]],
    seen: &[&[(u32, u64, u64)]],
    changed: impl FnOnce(&mut Evidence<'_>),
) -> String {
    let seen: Vec<Vec<Run>> = seen.iter().map(|seen| runs(seen)).collect();
    let mut evidence = Evidence {
        shape,
        pushed: pushed.iter().map(|rings| rings.to_vec()).collect(),
        seen: seen
            .iter()
            .map(|runs| Seen {
                runs,
                joined: false,
                left: false,
            })
            .collect(),
        is_cut: false,
    };
    changed(&mut evidence);
    judge(&evidence).join("; ")
}

fn same(_: &mut Evidence<'_>) {}

#[test]
fn a_shuffle_is_judged_ring_by_ring() {
    use FlowShape::Shuffle;
    let pushed: &[&[u64]] = &[&[5, 3], &[2, 0]];
    let good: &[&[(u32, u64, u64)]] = &[&[(0, 0, 2), (1, 0, 2), (0, 2, 5)], &[(0, 0, 3)]];
    assert_eq!(said(Shuffle, pushed, good, same), "");
    let lost: &[&[(u32, u64, u64)]] = &[&[(0, 0, 2), (1, 0, 2), (0, 3, 5)], &[(0, 0, 3)]];
    assert_eq!(
        said(Shuffle, pushed, lost, same),
        "from producer 0 to consumer 0: items 2 to 2 are lost"
    );
    let short: &[&[(u32, u64, u64)]] = &[&[(0, 0, 5)], &[(0, 0, 3)]];
    assert_eq!(
        said(Shuffle, pushed, short, same),
        "from producer 1 to consumer 0: items 0 to 1 are lost"
    );
    assert_eq!(said(Shuffle, pushed, short, |flow| flow.is_cut = true), "");
    assert_ne!(said(Shuffle, pushed, lost, |flow| flow.is_cut = true), "");
}

#[test]
fn a_balanced_flow_is_judged_over_all_consumers() {
    use FlowShape::Balance;
    let good: &[&[(u32, u64, u64)]] = &[&[(0, 0, 3), (0, 7, 9)], &[(0, 3, 7), (1, 0, 4)]];
    assert_eq!(said(Balance, &[&[9], &[4]], good, same), "");
    assert_eq!(
        said(Balance, &[&[10], &[4]], good, same),
        "of producer 0: items 9 to 9 are lost"
    );
    let twice: &[&[(u32, u64, u64)]] = &[&[(0, 0, 3)], &[(0, 2, 5)]];
    assert_eq!(
        said(Balance, &[&[5]], twice, same),
        "of producer 0: item 2 came twice"
    );
    assert_ne!(said(Balance, &[&[5]], twice, |flow| flow.is_cut = true), "");
    let backwards: &[&[(u32, u64, u64)]] = &[&[(0, 3, 5), (0, 0, 3)]];
    assert_eq!(
        said(Balance, &[&[5]], backwards, same),
        "consumer 0: item 0 of producer 0 came after item 4"
    );
    let made_up: &[&[(u32, u64, u64)]] = &[&[(0, 0, 6)]];
    assert_eq!(
        said(Balance, &[&[5]], made_up, same),
        "of producer 0: item 5 came, and was never pushed"
    );
}

#[test]
fn replicas_see_one_order() {
    use FlowShape::Replicate;
    let pushed: &[&[u64]] = &[&[4], &[4]];
    let one: &[(u32, u64, u64)] = &[(0, 0, 2), (1, 0, 4), (0, 2, 4)];
    let other: &[(u32, u64, u64)] = &[(0, 0, 4), (1, 0, 4)];
    assert_eq!(said(Replicate, pushed, &[one, one], same), "");
    assert_eq!(
        said(Replicate, pushed, &[one, other], same),
        "replicas 0 and 1 saw different orders"
    );
    let late: &[(u32, u64, u64)] = &[(1, 1, 4), (0, 2, 4)];
    let early: &[(u32, u64, u64)] = &[(0, 0, 2), (1, 0, 2)];
    let members = |flow: &mut Evidence<'_>| {
        flow.seen[1].joined = true;
        flow.seen[2].left = true;
    };
    assert_eq!(said(Replicate, pushed, &[one, late, early], members), "");
    let wrong: &[(u32, u64, u64)] = &[(0, 2, 4), (1, 1, 4)];
    let text = said(Replicate, pushed, &[one, wrong, early], members);
    assert!(
        text.contains("replicas 0 and 1 saw different orders"),
        "{text}"
    );
    assert_eq!(
        said(Replicate, pushed, &[one, early], same),
        "replica 1, of producer 0: items 2 to 3 are lost; replica 1, of producer 1: items 2 to 3 \
         are lost"
    );
}
