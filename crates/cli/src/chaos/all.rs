//! The campaigns of all simulated systems, one after another, with one verdict. Racks of processes
//! are not included: their seeds take seconds each.

use super::{Attack, ChaosArgs, options, report};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::report::{object, titled};
use rackweave_chaos::{CampaignReport, IndexAccess, Options, System};
use serde_json::{Value, json};

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
        attacks.push((system, options(args, system)?));
        if system == System::Index {
            let access = Some(IndexAccess::InNetwork);
            attacks.push((system, Options { access }));
        }
    }
    Ok(attacks)
}

/// Prints the results of all campaigns, added up.
///
/// # Errors
/// If standard output cannot be written.
pub fn conclude(campaigns: &[CampaignReport], globals: &Globals) -> Result<Verdict, CliError> {
    let sum = |of: fn(&CampaignReport) -> u64| campaigns.iter().map(of).sum::<u64>();
    let verified = campaigns.iter().all(|campaign| campaign.verified);
    let found = json!({
        "system": NAME,
        "seeds": sum(|campaign| campaign.seeds),
        // Fewer after an interruption.
        "seeds_run": sum(|campaign| campaign.seeds_run),
        "violations": sum(|campaign| campaign.violations),
        "seeds_stuck": sum(|campaign| campaign.seeds_stuck),
        "verified": verified,
        "campaigns": campaigns,
    });
    output::print_as(globals, "chaos", &found, |found| text(found, campaigns))?;
    Ok(Verdict::of(verified))
}

fn text(found: &Value, campaigns: &[CampaignReport]) -> String {
    // A failed campaign is reported in full, with the commands that reproduce it.
    let failed = campaigns.iter().filter(|one| one.seeds_failed > 0);
    let failed: String = failed
        .map(|failed| format!("{}\n\n", report::simulated(failed)))
        .collect();
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
    let mut found = object(found);
    found["campaigns"] = campaigns.iter().map(row).collect();
    if found["seeds_run"] == found["seeds"] {
        found.shift_remove("seeds");
    }
    failed + &titled("chaos all", &["system"], found)
}
