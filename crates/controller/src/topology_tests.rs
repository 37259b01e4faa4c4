//! Shapes, places and paths.

use super::*;

fn tree(pods: u16, nodes: usize) -> Topology {
    Topology::new(Shape::FatTree { pods }, &vec![None; nodes]).unwrap()
}

/// Follows ports and cables from a node to another; returns the switches on the path.
fn walk(topology: &Topology, from: NodeId, to: NodeId) -> Vec<usize> {
    let mut at = topology.place(from).unwrap().switch;
    let mut passed = vec![at];
    loop {
        let port = topology.port_towards(at, to).unwrap();
        let here = topology.place(to).unwrap();
        if (here.switch, here.port) == (at, port) {
            return passed;
        }
        let mut ends = topology
            .cables()
            .flat_map(|cable| [(cable.upper, cable.lower), (cable.lower, cable.upper)]);
        let (_, (next, _)) = ends.find(|(near, _)| *near == (at, port)).unwrap();
        at = next;
        passed.push(at);
        assert!(passed.len() <= 5, "goes round: {passed:?}");
    }
}

#[test]
fn a_fat_tree_of_four_pods_has_13_switches_and_16_places() {
    let topology = tree(4, 16);
    assert_eq!(topology.switches(), 13);
    let of = |role| (0..13).filter(|&at| topology.role(at) == role).count();
    let roles = [SwitchRole::Core, SwitchRole::Aggregation, SwitchRole::Edge];
    assert_eq!(roles.map(of), [1, 4, 8]);
    assert_eq!(topology.cables().count(), 12);
    assert_eq!(topology.ports(0), 4);
    assert!((1..13).all(|at| topology.ports(at) == 3));
    let places: Vec<_> = topology.nodes().map(|(_, place)| place.switch).collect();
    let expected: Vec<_> = (5..13).flat_map(|edge| [edge, edge]).collect();
    assert_eq!(places, expected);
}

#[test]
fn every_node_reaches_every_other_by_the_shortest_way() {
    let two = Topology::new(Shape::Two, &[Some(0), Some(1), Some(0), Some(1)]).unwrap();
    let one = Topology::one((0..4).map(|at| (NodeId(at), PortId(7 * at))));
    for topology in [one, two, tree(2, 2), tree(4, 16), tree(8, 128)] {
        let nodes: Vec<_> = topology.nodes().map(|(node, _)| node).collect();
        for &from in &nodes {
            for &to in &nodes {
                let passed = walk(&topology, from, to);
                assert_eq!(topology.hops(from, to), Some(passed.len()), "{passed:?}");
                let mut unique = passed.clone();
                unique.sort_unstable();
                unique.dedup();
                assert_eq!(
                    unique.len(),
                    passed.len(),
                    "twice by one switch: {passed:?}"
                );
            }
        }
    }
    let topology = tree(4, 16);
    let hops = |to| topology.hops(NodeId(0), NodeId(to)).unwrap();
    assert_eq!([1, 2, 4].map(hops), [1, 3, 5], "edge, pod, core");
}

#[test]
fn no_port_has_two_things() {
    for topology in [tree(2, 2), tree(4, 9), tree(8, 100)] {
        for at in 0..topology.switches() {
            let nodes = topology.nodes().filter(|(_, place)| place.switch == at);
            let mut ports: Vec<_> = nodes.map(|(_, place)| place.port.0).collect();
            ports.extend(topology.cable_ports(at).map(|port| port.0));
            let count = ports.len();
            ports.sort_unstable();
            ports.dedup();
            assert_eq!(ports.len(), count);
            assert!(ports.iter().all(|&port| port < topology.ports(at)));
        }
    }
}

#[test]
fn who_has_a_wish_gets_it_and_the_others_fill_up() {
    let wishes = [None, Some(5), None, Some(12)];
    let topology = Topology::new(Shape::FatTree { pods: 4 }, &wishes).unwrap();
    let places: Vec<_> = topology
        .nodes()
        .map(|(_, at)| (at.switch, at.port.0))
        .collect();
    assert_eq!(places, [(5, 0), (5, 1), (6, 0), (12, 0)]);
    assert!(topology.is_local(6, NodeId(2)) && !topology.is_local(5, NodeId(2)));
    assert_eq!(topology.up(0), None);
    assert_eq!(topology.up(12), Some(PortId(2)));
    assert_eq!(topology.port_towards(0, NodeId(9)), None);
}

#[test]
fn what_cannot_be_is_told_with_a_remedy() {
    let fat = Shape::FatTree { pods: 4 };
    for (shape, wishes, says) in [
        (
            Shape::FatTree { pods: 3 },
            vec![None],
            "a fat tree of 3 pods cannot be: take an even number from 2 to 8",
        ),
        (
            Shape::FatTree { pods: 10 },
            vec![None],
            "an even number from 2 to 8",
        ),
        (
            Shape::One,
            vec![None, Some(1)],
            "node1 is to hang at switch 1; there are switches 0 to 0",
        ),
        (Shape::Two, vec![Some(2)], "there are switches 0 to 1"),
        (
            fat,
            vec![Some(3)],
            "switch 3, which is aggregation and has other switches only; take one of 5 to 12",
        ),
        (
            fat,
            vec![Some(5); 3],
            "node2 finds no port at switch 5, which has 2 for nodes; let it hang",
        ),
        (
            fat,
            vec![None; 17],
            "17 nodes are too many: the edge switches have 16 ports for them",
        ),
    ] {
        let error = Topology::new(shape, &wishes).unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn every_layer_is_met_once_and_in_order_on_the_way_down() {
    for shape in [Shape::One, Shape::Two, Shape::FatTree { pods: 4 }] {
        let wishes = vec![Some(shape.roles().len() as u16 - 1)];
        let topology = Topology::new(shape, &wishes).unwrap();
        let mut at = topology.place(NodeId(0)).unwrap().switch;
        let mut down = vec![topology.role(at)];
        while let Some(cable) = topology.cables().find(|cable| cable.lower.0 == at) {
            at = cable.upper.0;
            down.insert(0, topology.role(at));
        }
        let parts: Vec<_> = down.iter().map(|role| role.index_part()).collect();
        assert_eq!(parts.iter().filter(|part| part.fat_root).count(), 1);
        assert!(parts[0].fat_root, "the fat root is on top");
        let mut next = 1;
        for part in parts {
            assert_eq!(part.first_layer, next);
            next += part.layers_max;
        }
        assert_eq!(next - 1, shape.layers_max());
    }
}
