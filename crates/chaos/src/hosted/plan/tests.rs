//! Tests of `plan`.

use super::*;

#[test]
fn a_seed_has_one_plan_and_seeds_differ() {
    let text = |seed| HostedPlan::new(seed, None, true).to_string();
    assert_eq!(text(3), text(3));
    let plans: std::collections::BTreeSet<_> = (0..100).map(text).collect();
    assert!(plans.len() > 15, "{plans:?}");
    for word in [
        "shared-memory",
        "unix",
        "udp",
        "kill",
        "stop",
        "cut off",
        "end",
        "stall",
        "slow",
        "the switch",
        "the standby",
        "cut off the switch",
        "stop etcd",
        "empty etcd",
        "program",
        "freeze",
        "wake",
        "TLS",
    ] {
        assert!(
            plans.iter().any(|plan| plan.contains(word)),
            "{word}: {plans:?}"
        );
    }
    for seed in 0..200 {
        let plan = HostedPlan::new(seed, None, true);
        plan.config.check().unwrap();
        for fault in plan.faults {
            if let Deed::Stall(other) | Deed::Slow(other, _) = fault.deed {
                assert_ne!(fault.victim, Victim::Node(other.node));
                assert!(matches!(fault.victim, Victim::Node(_)));
            }
        }
    }
}

#[test]
fn a_template_keeps_its_links() {
    let text = "[hosted]\nlink = \"unix\"\nsecurity = \"plain\"\n";
    let template = RackConfig::parse(text, "rack.toml").unwrap();
    for seed in 0..20 {
        let hosted = HostedPlan::new(seed, Some(&template), true).config.hosted();
        assert_eq!(hosted.link, LinkKind::Unix);
        assert_eq!(hosted.security, SecurityKind::Plain);
    }
}
