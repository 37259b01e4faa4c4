//! Values that the configuration leaves to the kind of rack, and the seed.

use super::{Group, Kind, Path};
use crate::config::RackConfig;
use crate::config::choices::{self, Choice};

pub(super) fn describe(config: &RackConfig, kind: Kind, paths: &mut Vec<Path>) {
    let mut setting = |name, choice: Choice<u64>| {
        let of = (Some(kind), Group::Setting, name);
        paths.push(Path::new(of, "value", choice, |value| value.to_string()));
    };
    setting("transfer.timeout_us", choices::timeout_us(config, kind));
    let Choice { value, why } = choices::batch_bytes(config, kind);
    setting("flow.batch_bytes", Choice::new(value.into(), why));
    let Choice { value, why } = choices::transfers(config, kind);
    setting("flow.transfers", Choice::new(value.into(), why));
    let poll = choices::poll_interval_max_us(config, kind, choices::doorbells(kind));
    setting("flow.poll_interval_max_us", poll);
}

pub(super) fn describe_seed(config: &RackConfig, paths: &mut Vec<Path>) {
    let why = match config.hosted {
        None => {
            "all that is random comes from it, save the keys of an embedded rack, which are the \
             system's"
        }
        Some(_) => "of an embedded or simulated rack; hosted racks draw from the system",
    };
    let of = (None, Group::Setting, "seed");
    let seed = Choice::new(config.seed, why);
    paths.push(Path::new(of, "value", seed, |seed| seed.to_string()));
}
