//! The link between each node and the switch.

use super::{Group, Kind, Path};
use crate::config::choices::{self, Choice, Reads, Way};
use crate::config::{ConfigError, FaultSection, RackConfig};
use rackweave_base::NodeId;
use rackweave_wire::Rewrite;

pub(super) fn describe(
    config: &RackConfig,
    kind: Kind,
    paths: &mut Vec<Path>,
) -> Result<(), ConfigError> {
    let topology = config.topology()?;
    for (at, node) in config.node.iter().enumerate() {
        let id = NodeId(at as u16);
        let of = (Some(kind), Group::Node, &*node.name);
        let way = choices::way(config, kind, node);
        let is_modelled = way.value == Way::Modelled;
        let packets = config.link.packets;
        paths.push(Path::new(of, "link", way, |way| match way {
            Way::InProcess => format!("in-process queue of {packets} packets"),
            Way::Modelled => "modelled cable".to_owned(),
            Way::Between(link) => link.name().to_owned(),
        }));
        if is_modelled {
            let rate = choices::bits_per_second(config, id);
            let gigabits = |bits: u64| format!("{} Gbit/s", bits as f64 / 1e9);
            paths.push(Path::new(of, "rate", rate, gigabits));
        }
        let wish = choices::switch_of(config, node);
        let place = topology.place(id).map_or(0, |place| place.switch);
        paths.push(Path::new(of, "switch", wish, |_| place.to_string()));
        let mtu = choices::mtu(config, kind, node);
        paths.push(Path::new(of, "MTU", mtu, |mtu| format!("{mtu} bytes")));
        paths.extend(icrc(config, of));
        let trains = choices::train_max(config, kind);
        paths.push(Path::new(of, "packets", trains, |most| match most {
            1 => "one by one".to_owned(),
            most => format!("trains of up to {most}"),
        }));
        let cut = choices::cut_through(config, kind);
        paths.push(Path::new(of, "to nodes", cut, |cut| match cut {
            true => "without packets, while no tap looks at them".to_owned(),
            false => "in packets".to_owned(),
        }));
        let reads = choices::reads(config, kind, node);
        paths.push(Path::new(of, "READs", reads, |reads| match reads {
            Reads::ByReference => "by reference".to_owned(),
            Reads::Serialised => "copied".to_owned(),
        }));
        let faults = choices::faults(config, id);
        paths.push(Path::new(of, "faults", faults, fault_text));
    }
    Ok(())
}

/// Whether the ICRC is computed, and how the switch keeps it valid in packets that it rewrites.
fn icrc(config: &RackConfig, of: (Option<Kind>, Group, &str)) -> [Path; 2] {
    let kind = of.0.unwrap_or(Kind::Embedded);
    let computed = choices::icrc(config, kind);
    let rewrite = match computed.value {
        true => choices::rewrite(config),
        false => Choice::new(
            choices::rewrite(config).value,
            "none is there to keep right",
        ),
    };
    let method = match (computed.value, rewrite.value) {
        (false, _) => "left alone",
        (true, Rewrite::Update) => "trailer updated",
        (true, Rewrite::Balance) => "header balanced",
    };
    let text = |computed| match computed {
        true => "computed and checked".to_owned(),
        false => "not computed".to_owned(),
    };
    [
        Path::new(of, "ICRC", computed, text),
        Path::new(of, "rewritten", rewrite, |_| method.to_owned()),
    ]
}

fn fault_text(faults: FaultSection) -> String {
    let FaultSection {
        loss,
        duplicate,
        reorder,
        corrupt,
        reorder_delay_us,
    } = faults;
    let rates = [
        ("loss", loss),
        ("duplicate", duplicate),
        ("reorder", reorder),
        ("corrupt", corrupt),
    ];
    let rates = rates.into_iter().filter(|&(_, rate)| rate > 0.0);
    let mut said: Vec<_> = rates.map(|(name, rate)| format!("{name} {rate}")).collect();
    if reorder > 0.0 {
        said.push(format!("held up to {reorder_delay_us} us"));
    }
    match said[..] {
        [] => "none".to_owned(),
        _ => said.join(", "),
    }
}
