//! The campaigns of all simulated systems, one after another, with one verdict. Racks of processes
//! are not included: their seeds take seconds each.

use super::args::ChaosArgs;
use super::report::CampaignReport;
use super::{Attack, options};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::report::{Text, object};
use rackweave_chaos::{IndexAccess, Options, System};
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// The name on the command line.
pub const NAME: &str = "all";

/// All campaigns. An index has two: in one, seeds choose how clients read; in the other, switches
/// lead all clients, which has the most failure modes.
///
/// # Errors
/// If an option is given that applies to one system only.
pub fn attacks(args: &ChaosArgs) -> Result<Vec<Attack>, CliError> {
    if args.access.is_some() {
        return Err(CliError::usage(
            "--access is for --system index; `all` has campaigns of an index with and without \
             the network's help",
        ));
    }
    let mut attacks = Vec::new();
    for system in System::ALL {
        let options = options(args, system)?;
        attacks.push(Attack { system, options });
        if system == System::Index {
            let access = Some(IndexAccess::InNetwork);
            let options = Options { access };
            attacks.push(Attack { system, options });
        }
    }
    Ok(attacks)
}

/// Prints the results of all campaigns.
///
/// # Errors
/// If standard output cannot be written.
pub fn conclude(campaigns: Vec<CampaignReport>, globals: &Globals) -> Result<Verdict, CliError> {
    let report = AllReport {
        system: NAME,
        seeds: campaigns.iter().map(|campaign| campaign.seeds).sum(),
        seeds_run: campaigns.iter().map(|campaign| campaign.seeds_run).sum(),
        violations: campaigns.iter().map(|campaign| campaign.violations).sum(),
        seeds_stuck: campaigns.iter().map(|campaign| campaign.seeds_stuck).sum(),
        verified: campaigns.iter().all(|campaign| campaign.verified),
        campaigns,
    };
    output::print(globals, "chaos", &report)?;
    Ok(Verdict::of(report.verified))
}

/// The results of all campaigns.
#[derive(Serialize)]
struct AllReport {
    system: &'static str,
    /// Requested seeds of all campaigns together.
    seeds: u64,
    /// Seeds run; fewer after an interruption.
    seeds_run: u64,
    violations: u64,
    seeds_stuck: u64,
    verified: bool,
    campaigns: Vec<CampaignReport>,
}

impl fmt::Display for AllReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A failed campaign is reported in full, with the commands that reproduce it.
        for failed in self.campaigns.iter().filter(|one| one.seeds_failed > 0) {
            writeln!(f, "{failed}\n")?;
        }
        let row = |one: &CampaignReport| -> Value {
            let checked = one.of_system().take(2);
            let checked = checked.map(|(what, n)| format!("{n} {}", what.replace('_', " ")));
            json!({
                "campaign": one.name(),
                "seeds": one.seeds_run,
                "disturbed": one.counts["packets_disturbed"],
                "crashes": one.counts["node_crashes"],
                "violations": one.violations,
                "stuck": one.seeds_stuck,
                "checked": checked.collect::<Vec<_>>().join(", "),
            })
        };
        let mut found = object(self);
        found["campaigns"] = self.campaigns.iter().map(row).collect();
        if self.seeds_run == self.seeds {
            found.shift_remove("seeds");
        }
        write!(
            f,
            "{}",
            Text::new(found).titled("chaos all".into(), &["system"])
        )
    }
}
