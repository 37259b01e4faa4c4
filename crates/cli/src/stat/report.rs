//! What `stat` prints.

use crate::live::words::{ANSWERS, binary, bits, clock, depth, ends, share, si, with_unit};
use crate::live::{Change, Snapshot};
use crate::report::{COLUMNS, wrapped};
use rackweave_rack::statistics::{
    Counters, FlowStatistics, IndexStatistics, NodeStatistics, PageStatistics, RackStatistics,
    SwitchStatistics,
};
use serde::Serialize;
use std::fmt;

/// What a command has counted, and what happened since the look before.
#[derive(Serialize, Clone, Debug)]
pub struct StatReport {
    pub pid: u32,
    pub version: String,
    pub command: String,
    pub phase: String,
    pub phase_seconds: f64,
    pub up_seconds: f64,
    pub rack: Option<RackStatistics>,
    /// Nothing at the first look.
    pub change: Option<Change>,
    /// As it was told, for the next report.
    #[serde(skip)]
    pub snapshot: Snapshot,
    #[serde(skip)]
    all: bool,
}

impl StatReport {
    /// Of a look, and the one before; without counters that are zero, unless `all`.
    pub fn new(before: Option<&Snapshot>, now: Snapshot, all: bool) -> Self {
        let change = before.and_then(|before| Change::between(Some(before), &now));
        let mut rack = now.rack.clone();
        if let (Some(rack), false) = (&mut rack, all) {
            hide_zeros(rack);
        }
        Self {
            pid: now.pid,
            version: now.version.clone(),
            command: now.command.clone(),
            phase: now.phase.clone(),
            phase_seconds: now.phase_seconds,
            up_seconds: now.up_seconds,
            rack,
            change,
            snapshot: now,
            all,
        }
    }
}

fn hide_zeros(rack: &mut RackStatistics) {
    let nodes = rack.nodes.iter_mut();
    let nodes = nodes.flat_map(|node| [&mut node.counters, &mut node.drops]);
    let switches = rack.switches.iter_mut();
    let switches = switches.flat_map(|switch| [&mut switch.counters, &mut switch.drops]);
    let pages = rack.pages.iter_mut().map(|pages| &mut pages.answers);
    let index = rack.index.iter_mut().map(|index| &mut index.other);
    let all = nodes.chain(switches).chain(pages).chain(index);
    all.for_each(|counters| counters.retain(|_, count| *count > 0));
}

impl fmt::Display for StatReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (process {}", self.command, self.pid)?;
        writeln!(f, ", up {})", clock(self.up_seconds))?;
        if !self.phase.is_empty() {
            writeln!(f, "{} for {}", self.phase, clock(self.phase_seconds))?;
        }
        let Some(rack) = &self.rack else {
            return writeln!(f, "It has no rack at the moment.");
        };
        if let Some(change) = &self.change {
            rates(f, change)?;
        }
        for node in &rack.nodes {
            write_node(f, node)?;
        }
        for (at, switch) in rack.switches.iter().enumerate() {
            write_switch(f, at, switch, rack.switches.len())?;
        }
        if rack.flows_made > 0 {
            writeln!(f, "\nflows: {} were set up", rack.flows_made)?;
        }
        for flow in &rack.flows {
            write_flow(f, flow)?;
        }
        if let Some(pages) = &rack.pages {
            write_pages(f, pages)?;
        }
        if let Some(index) = &rack.index {
            write_index(f, index, self.all)?;
        }
        if !rack.sequencers.is_empty() {
            writeln!(f, "\nsequencers")?;
        }
        for sequencer in &rack.sequencers {
            writeln!(
                f,
                "  sequencer {}: next is {}",
                sequencer.id, sequencer.next
            )?;
        }
        Ok(())
    }
}

fn rates(f: &mut fmt::Formatter<'_>, change: &Change) -> fmt::Result {
    if change.is_since_start {
        writeln!(f, "\nper second, since the rack was built")?;
    } else {
        writeln!(f, "\nper second, of the last {:.2} s", change.seconds)?;
    }
    let width = change.nodes.iter().map(|node| node.name.len());
    let width = width.fold(4, usize::max);
    writeln!(
        f,
        "  {:<width$} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "node", "in bit", "out bit", "in pkt", "out pkt", "retries", "drops"
    )?;
    for node in &change.nodes {
        writeln!(
            f,
            "  {:<width$} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}",
            node.name,
            bits(node.bytes_in_per_s),
            bits(node.bytes_out_per_s),
            si(node.packets_in_per_s),
            si(node.packets_out_per_s),
            si(node.retries_per_s),
            si(node.drops_per_s),
        )?;
    }
    for flow in change.flows.iter().filter(|flow| flow.items_per_s > 0.0) {
        let items = si(flow.items_per_s);
        let bytes = with_unit(flow.bytes_per_s, "B");
        writeln!(f, "  flow {}: {items} items, {bytes}", flow.id)?;
    }
    let answers = change.pages.iter().filter(|(_, rate)| **rate > 0.0);
    let answers: Vec<String> = answers
        .map(|(kind, &rate)| format!("{kind} {}", si(rate)))
        .collect();
    if !answers.is_empty() {
        words(f, "  pages: ", 4, &answers)?;
    }
    if change.index_queries > 0.0 {
        writeln!(f, "  index: {} queries", si(change.index_queries))?;
    }
    Ok(())
}

fn write_node(f: &mut fmt::Formatter<'_>, node: &NodeStatistics) -> fmt::Result {
    let dead = if node.dead { ", dead" } else { "" };
    writeln!(f, "\nnode {} ({}{dead})", node.name, node.role)?;
    counted(f, &node.counters, &node.drops)?;
    if let Some(target) = &node.target {
        writeln!(
            f,
            "  NVMe target: {} reads ({}), {} writes ({}), {} errors",
            target.reads,
            with_unit(target.bytes_read as f64, "B"),
            target.writes,
            with_unit(target.bytes_written as f64, "B"),
            target.errors
        )?;
    }
    Ok(())
}

fn write_switch(
    f: &mut fmt::Formatter<'_>,
    at: usize,
    switch: &SwitchStatistics,
    of: usize,
) -> fmt::Result {
    match of {
        1 => writeln!(f, "\nswitch")?,
        _ => writeln!(f, "\nswitch {at} ({})", switch.role)?,
    }
    counted(f, &switch.counters, &switch.drops)
}

fn write_flow(f: &mut fmt::Formatter<'_>, flow: &FlowStatistics) -> fmt::Result {
    let each = COLUMNS / 2 - 20;
    let (from, to) = (ends(&flow.producers, each), ends(&flow.consumers, each));
    let weight = flow.weight.map(|weight| format!(", weight {weight}"));
    writeln!(f, "  flow {}: {} from {from} to {to}", flow.id, flow.shape)?;
    writeln!(
        f,
        "    items of {} bytes{}; {}",
        flow.item_bytes,
        weight.unwrap_or_default(),
        flow.state
    )?;
    writeln!(
        f,
        "    pushed {} delivered {} waiting {}, {} delivered",
        flow.items_pushed,
        flow.items_delivered,
        flow.items_waiting,
        with_unit(flow.bytes_delivered as f64, "B")
    )
}

fn write_pages(f: &mut fmt::Formatter<'_>, pages: &PageStatistics) -> fmt::Result {
    writeln!(
        f,
        "\npages: {} pages of {}, {} indexed by the switch, {} lost",
        pages.pages,
        binary(pages.page_bytes),
        pages.pages_indexed,
        pages.pages_lost
    )?;
    let count = |kind: &str| pages.answers.get(kind).copied();
    let one_each = ANSWERS.iter().filter(|(.., one)| *one);
    let whole: u64 = one_each.filter_map(|(kind, ..)| count(kind)).sum();
    for (kind, words, one) in ANSWERS {
        let Some(count) = count(kind) else {
            continue;
        };
        let part = match one {
            true => share(count as f64, whole as f64),
            false => String::new(),
        };
        writeln!(f, "  {kind:<18} {count:>14} {part:>8}  {words}")?;
    }
    Ok(())
}

fn write_index(f: &mut fmt::Formatter<'_>, index: &IndexStatistics, all: bool) -> fmt::Result {
    writeln!(
        f,
        "\nindex in the network: {} queries by READ, {} requests by UDP",
        index.queries, index.lookups
    )?;
    let whole = index.by_depth.iter().sum::<u64>() as f64;
    for (at, &count) in index.by_depth.iter().enumerate() {
        if count > 0 || all {
            let part = share(count as f64, whole);
            writeln!(f, "  {:<18} {count:>14} {part:>8}", depth(at))?;
        }
    }
    counted(f, &index.other, &Counters::new())
}

fn counted(f: &mut fmt::Formatter<'_>, counters: &Counters, drops: &Counters) -> fmt::Result {
    for (first, indent, counters) in [("  ", 2, counters), ("  dropped: ", 4, drops)] {
        let all = counters.iter();
        let all: Vec<String> = all.map(|(name, count)| format!("{name} {count}")).collect();
        words(f, first, indent, &all)?;
    }
    Ok(())
}

/// Words in lines, nothing if there are none.
fn words(f: &mut fmt::Formatter<'_>, first: &str, indent: usize, words: &[String]) -> fmt::Result {
    if words.is_empty() {
        return Ok(());
    }
    let whole: Vec<_> = words
        .iter()
        .map(|word| word.replace(' ', "\u{a0}"))
        .collect();
    f.write_str(&wrapped(&format!("{first}{}", whole.join(" ")), indent))
}
