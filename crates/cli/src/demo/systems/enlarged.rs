//! Enlarges a rack's configuration for all systems together, and reports what was added.

use super::pages::PagesPlan;
use super::tree::TreePlan;
use super::{Scale, SystemName};
use crate::demo::DemoPlan;
use crate::outcome::CliError;
use crate::switch_shape;
use rackweave_rack::RackConfig;
use rackweave_rack::config::{BudgetName, NicSection};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Bytes of regions of a connection's two nodes, including the data that they send.
const MESSAGING_BYTES: u64 = 96 << 20;

/// Queue pairs, completion queues and regions of a node for messages and sequencers.
const OBJECTS: u32 = 64;

pub struct EnlargedConfig {
    pub config: RackConfig,
    /// Settings that differ from the user's, by name.
    pub added: BTreeMap<String, Value>,
}

impl EnlargedConfig {
    /// The configuration of `plan`, enlarged for `chosen`. A setting that the user has given is
    /// raised if it is too low and kept otherwise. A system that cannot fit at all is not part of
    /// the rack.
    ///
    /// # Errors
    /// If the resulting configuration is invalid.
    pub fn new(plan: &DemoPlan, scale: Scale, chosen: &[SystemName]) -> Result<Self, CliError> {
        let mut config = plan.config.clone();
        if chosen != [SystemName::Flows] {
            // A hardware switch cannot hold all programs.
            config.switch.budget = BudgetName::Software;
        }
        let wants = |name| chosen.contains(&name);
        let pages = wants(SystemName::Pages).then(|| PagesPlan::new(plan, scale));
        if let Some(Ok(pages)) = pages {
            let needs = pages.rack(&bare(&config))?;
            with(&mut config, &needs);
        }
        let trees = wants(SystemName::Tree).then(|| TreePlan::new(plan, scale));
        for job in trees
            .into_iter()
            .flatten()
            .flat_map(|trees| [trees.wide, trees.led])
        {
            let needs = job.options.rack(&bare(&config), &job.nodes);
            with(&mut config, &needs);
        }
        if wants(SystemName::Messaging) {
            config.memory_limit += MESSAGING_BYTES;
        }
        if wants(SystemName::Sequencer) {
            config.switch.sequencers = config.switch.sequencers.max(1);
        }
        if chosen != [SystemName::Flows] {
            let nic = &mut config.nic;
            nic.queue_pairs += OBJECTS;
            nic.completion_queues += OBJECTS;
            nic.regions += OBJECTS;
            let ledger = switch_shape::ledger(&switch_shape::pipeline_config(&config));
            let needs = (ledger.bytes_registers() + ledger.bytes_tables()) as u64;
            if needs > config.switch.memory {
                config.switch.memory = needs.next_power_of_two();
            }
        }
        config.check()?;
        let added = differences(&plan.config, &config);
        Ok(Self { config, added })
    }

    /// What was added, in the form of a configuration file; none if nothing was.
    pub fn in_words(&self) -> Option<String> {
        let settings = self.added.iter();
        let settings: Vec<_> = settings
            .map(|(name, value)| format!("{name} = {value}"))
            .collect();
        (!settings.is_empty()).then(|| settings.join(", "))
    }
}

/// `config` without the resources that systems add up.
fn bare(config: &RackConfig) -> RackConfig {
    RackConfig {
        memory_limit: 0,
        nic: NicSection {
            queue_pairs: 0,
            completion_queues: 0,
            regions: 0,
            ..config.nic.clone()
        },
        ..config.clone()
    }
}

/// Adds what a system needs: its own settings, and its part of the shared resources.
fn with(config: &mut RackConfig, needs: &RackConfig) {
    config.switch = needs.switch.clone();
    config.memory_limit += needs.memory_limit;
    config.nic.queue_pairs += needs.nic.queue_pairs;
    config.nic.completion_queues += needs.nic.completion_queues;
    config.nic.regions += needs.nic.regions;
}

/// The settings of `after` that differ from those of `before`, by name.
fn differences<T: Serialize>(before: &T, after: &T) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    let tree = |config: &T| serde_json::to_value(config).unwrap_or_default();
    compare("", &tree(before), &tree(after), &mut found);
    found
}

fn compare(name: &str, before: &Value, after: &Value, found: &mut BTreeMap<String, Value>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in after {
                let name = if name.is_empty() {
                    key.clone()
                } else {
                    format!("{name}.{key}")
                };
                compare(&name, before.get(key).unwrap_or(&Value::Null), value, found);
            }
        }
        _ if before != after => {
            found.insert(name.to_owned(), after.clone());
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::DemoArgs;
    use crate::globals::Mode;

    #[test]
    fn what_was_added_is_named() {
        let (args, config) = (DemoArgs::default(), RackConfig::default());
        let plan = crate::demo::plan(&args, Mode::Embedded, config).expect("it is sound");
        let enlarged = |chosen: &[SystemName]| {
            EnlargedConfig::new(&plan, Scale::new(1.0), chosen).expect("there is capacity")
        };
        let same = enlarged(&[SystemName::Flows]);
        assert_eq!((same.in_words(), &same.config), (None, &plan.config));
        let enlarged = enlarged(&[SystemName::Flows, SystemName::Sequencer]);
        let words = enlarged.in_words().expect("something was added");
        assert!(words.contains("switch.budget = \"software\""), "{words}");
        assert!(words.contains("switch.sequencers = 1"), "{words}");
        assert!(!words.contains("seed"), "{words}");
    }
}
