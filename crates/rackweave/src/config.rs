//! The configuration of a rack: nodes, roles, stores, the switch and its programs, links, faults.
//!
//! One TOML file describes it, and every setting has a default: `docs/configuration.md` in the
//! repository lists them all, and `rackweave info` prints a file to start from. Unknown keys are
//! refused with the nearest known name; values are checked before anything is built.
//!
//! ```
//! use rackweave::config::{NodeConfig, Role};
//! use rackweave::{Rack, RackConfig};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut config = RackConfig::parse("seed = 7\n[switch]\nsequencers = 4\n", "my rack");
//! // Flows and sequencers together fit no first-generation Tofino, and the error says what lacks.
//! assert!(Rack::builder().config(config?).build().is_err_and(|error| error.to_string().contains("tofino1")));
//!
//! let mut config = RackConfig::with_all_programs(); // in a switch that is software
//! config.node.push(NodeConfig::new("compute2", Role::Compute));
//! let rack = Rack::builder().config(config).build()?;
//! assert!(rack.node("compute2").is_ok());
//! # Ok(())
//! # }
//! ```

#[doc(no_inline)]
pub use rackweave_rack::RackConfig;
pub use rackweave_rack::RackError;
pub use rackweave_rack::config::{
    BudgetName, CheckPolicy, ConfigError, Endianness, FaultSection, FlowSection, HostConfig,
    HostedSection, IcrcMethod, LinkKind, LinkSection, Medium, NicSection, NodeConfig, NodeFaults,
    Role, SecurityKind, StoreConfig, StoreError, SwitchSection, TopologyName, TransferSection,
};
