//! Every hardware number that the simulator uses, each with its unit and its source.
//!
//! This is the only folder with such numbers. None is ever changed to make a result match a
//! published figure: a number changes when a better source for that very number is found. If no
//! source is known, the comment says "assumed" and why.
//!
//! A source marked "unchecked" is cited from memory: the number is believed to be in it, but was
//! not looked up when it was written down. Remove the mark after looking it up.
//!
//! The text of a comment here is also what [`all`] returns when the program runs: one definition
//! makes the constant and its entry in the list. Sources are referred to by the short names of
//! [`SOURCES`].

mod bluefield;
mod communication;
mod constant;
mod fat_btree;
mod host;
mod network;
mod ssd;
mod units;
mod work;

pub use bluefield::*;
pub use communication::*;
pub use constant::{Constant, Testbed, Trust};
pub use fat_btree::*;
pub use host::*;
pub use network::*;
pub use ssd::*;
pub use units::*;
pub use work::*;

use constant::Listed;
use rackweave_base::Duration;

/// For constants that every testbed uses.
const EVERY: &[Testbed] = &Testbed::ALL;

/// Every constant, by group.
pub fn all() -> impl Iterator<Item = &'static Constant> {
    let lists = [
        network::LIST,
        host::LIST,
        bluefield::LIST,
        fat_btree::LIST,
        work::LIST,
        ssd::LIST,
        units::LIST,
        communication::LIST,
    ];
    lists.into_iter().flatten()
}

/// The constants of testbeds, by group.
pub fn of(testbeds: &[Testbed]) -> impl Iterator<Item = &'static Constant> {
    all().filter(|one| {
        one.testbeds
            .iter()
            .any(|testbed| testbeds.contains(testbed))
    })
}

/// The constants as text, one line `NAME = value unit` each, in the order of [`all`]; the input of
/// their hash.
pub fn as_text() -> String {
    let line = |one: &Constant| format!("{} = {} {}", one.name, one.value(), one.unit);
    let lines: Vec<String> = all().map(|one| line(one).trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// A source with a short name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Citation {
    /// The short name.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// Whether the cited facts were looked up.
    pub checked: bool,
}

const fn source(name: &'static str, about: &'static str) -> Citation {
    Citation {
        name,
        about,
        checked: true,
    }
}

const fn unchecked(name: &'static str, about: &'static str) -> Citation {
    Citation {
        name,
        about,
        checked: false,
    }
}

/// Sources by their short names.
pub const SOURCES: &[Citation] = &[
    source(
        "zero-sided",
        "Jasny et al., Zero-sided RDMA, SIGMOD 2024, section 7 \"Setup\": four nodes with an Intel \
         Xeon Gold 5120 at 2.2 GHz and a ConnectX-5, an Intel Tofino switch (APS Networks \
         BF2556X-1T-A1F), 100G RoCEv2",
    ),
    source(
        "bluefield",
        "Thostrup et al., A DBMS-centric Evaluation of BlueField DPUs, ADMS 2022, tables 1 and 2",
    ),
    source(
        "fat-btree",
        "Zhao et al., Fat-B+Tree: Fast B+tree Indexing with In-Network Memory, section V-A \
         \"Hardware platform\"",
    ),
    source(
        "seamless",
        "Binder et al., Seamless, DaMoN 2024, section 1 and its evaluation (four SSDs of 1 TB)",
    ),
    source(
        "communication-tier",
        "Geyer et al., Remote Direct Memory Access as Communication Tier for Disaggregated \
         Database Systems, GvDB 2022, section 4",
    ),
    unchecked(
        "HERD",
        "Kalia et al., Using RDMA Efficiently for Key-Value Services, SIGCOMM 2014",
    ),
    source(
        "ConnectX-3 news",
        "The Register, 6 June 2011, with Mellanox's words on the new adapter",
    ),
    unchecked(
        "pcie-bench",
        "Neugebauer et al., Understanding PCIe performance for end host networking, SIGCOMM 2018",
    ),
    unchecked(
        "DCQCN",
        "Zhu et al., Congestion Control for Large-Scale RDMA Deployments, SIGCOMM 2015",
    ),
    source(
        "ConnectX-5 brief",
        "Mellanox product briefs of ConnectX-5 EN and ConnectX-5 VPI",
    ),
    source(
        "UG1393",
        "Vitis Unified Software Platform Documentation: Application Acceleration Development, \
         \"HBM Configuration and Use\"",
    ),
    unchecked(
        "Kersten",
        "Kersten et al., Everything You Always Wanted to Know About Compiled and Vectorized \
         Queries But Were Afraid to Ask, VLDB 2018",
    ),
    unchecked(
        "Volta",
        "Jia et al., Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018",
    ),
    unchecked(
        "grid sync",
        "Zhang et al., A Study of Single and Multi-device Synchronization Methods in Nvidia GPUs, \
         IPDPS 2020",
    ),
    source(
        "LX2160A",
        "tinymembench on a SolidRun LX2160A (Cortex-A72 at 2.0 GHz, 1 MiB of L2 for each pair, \
         8 MiB of L3, DDR4), in the results of ThomasKaiser/sbc-bench, results/4ju5.txt. It stands \
         for the BlueField-2, which has the same cores, pairs and L2, and of whose measurement by \
         the same program bluefield prints only the picture (figure 8)",
    ),
    source(
        "pcie-lat",
        "andre-richter/pcie-lat, issue 4: what a Microsemi switch tells of itself",
    ),
    unchecked(
        "Shuhai",
        "Wang et al., Shuhai: Benchmarking High Bandwidth Memory on FPGAs, FCCM 2020",
    ),
];

#[cfg(test)]
mod tests;
