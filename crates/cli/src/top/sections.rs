//! The tables: nodes, flows, pages, index, sequencers, drops.

use super::state::{History, State, View};
use super::view::sparkline;
use crate::live::Change;
use crate::live::change::NodeChange;
use crate::live::words::{ANSWERS, binary, bits, depth, ends, share, si};
use rackweave_rack::statistics::{
    FlowStatistics, IndexStatistics, NodeStatistics, PageStatistics, RackStatistics,
};
use ratatui::style::{Color, Stylize};
use ratatui::text::{Line, Span};

/// From this width on there is room for pictures beside the nodes.
const WIDE: usize = 100;

/// A table.
pub struct Section {
    /// The view that shows all of it.
    pub view: View,
    /// Its title, and the names of its columns.
    pub head: Vec<Line<'static>>,
    /// All rows.
    pub rows: Vec<Line<'static>>,
    /// Those worth a place where everything is shown.
    pub brief: Vec<Line<'static>>,
}

impl Section {
    /// A table all of which is worth a place; of one that is at rest, the title is.
    fn new(view: View, head: Vec<Line<'static>>, rows: Vec<Line<'static>>, rests: bool) -> Self {
        let brief = if rests { Vec::new() } else { rows.clone() };
        Self {
            view,
            head,
            rows,
            brief,
        }
    }

    /// The head where everything is shown: no columns without rows.
    pub fn brief_head(&self) -> &[Line<'static>] {
        let lines = if self.brief.is_empty() {
            1
        } else {
            self.head.len()
        };
        &self.head[..lines]
    }
}

/// All tables, the most important ones first.
pub fn sections(state: &State, width: usize) -> Vec<Section> {
    let Some((snapshot, Some(change))) = &state.shown else {
        return Vec::new();
    };
    let Some(rack) = &snapshot.rack else {
        return Vec::new();
    };
    let mut all = vec![nodes(state, rack, change, width)];
    if rack.flows_made > 0 {
        all.push(flows(rack, change, width));
    }
    if let Some(pages) = &rack.pages {
        all.push(self::pages(pages, change, width));
    }
    if let Some(index) = &rack.index {
        all.push(self::index(index, change, width));
    }
    if !rack.sequencers.is_empty() {
        all.push(sequencers(rack, change));
    }
    all.push(drops(change));
    all
}

fn title(name: &str, rest: String) -> Line<'static> {
    Line::from(vec![
        Span::from(name.to_owned()).bold().fg(Color::Cyan),
        Span::from(rest),
    ])
}

fn columns(names: String) -> Line<'static> {
    Line::from(names).dim()
}

/// `text` in `width` characters, cut if need be.
fn cell(text: &str, width: usize) -> String {
    match text.chars().count() > width {
        true => text.chars().take(width - 1).chain(['…']).collect(),
        false => format!("{text:<width$}"),
    }
}

/// A rate of what should not happen.
fn bad(rate: f64, width: usize) -> Span<'static> {
    let span = Span::from(format!("{:>width$}", si(rate)));
    match rate > 0.0 {
        true => span.fg(Color::Yellow).bold(),
        false => span,
    }
}

fn nodes(state: &State, rack: &RackStatistics, change: &Change, width: usize) -> Section {
    let mut names = format!(
        "{:<14} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7}  {:<8}",
        "node", "in bit", "out bit", "in pkt", "out pkt", "retries", "drops", "role"
    );
    if width >= WIDE {
        names.push_str("in and out");
    }
    let row = |(node, change): (&NodeStatistics, &NodeChange)| {
        let numbers = [
            bits(change.bytes_in_per_s),
            bits(change.bytes_out_per_s),
            si(change.packets_in_per_s),
            si(change.packets_out_per_s),
        ];
        let mut spans = vec![Span::from(cell(&node.name, 14))];
        spans.extend(numbers.map(|number| Span::from(format!(" {number:>7}"))));
        spans.push(bad(change.retries_per_s, 8));
        spans.push(bad(change.drops_per_s, 8));
        spans.push(match node.dead {
            true => Span::from("  dead    ").fg(Color::Red).bold(),
            false => Span::from(format!("  {:<8}", node.role)).dim(),
        });
        if let (true, Some(history)) = (width >= WIDE, state.nodes.get(&node.name)) {
            spans.push(picture(history, width - 73));
        }
        Line::from(spans)
    };
    let rows = rack.nodes.iter().zip(&change.nodes).map(row);
    let rows: Vec<_> = rows.collect();
    let switches = match rack.switches.len() {
        1 => String::new(),
        many => format!(", {many} switches"),
    };
    let rest = format!("  {}{switches}; per second", rack.nodes.len());
    let head = vec![title("NODES", rest), columns(names)];
    Section::new(View::Nodes, head, rows, false)
}

fn picture(history: &History, width: usize) -> Span<'static> {
    Span::from(sparkline(history, width)).fg(Color::Cyan)
}

fn flows(rack: &RackStatistics, change: &Change, width: usize) -> Section {
    let running = rack.flows.iter().filter(|flow| flow.runs()).count();
    let row = |flow: &FlowStatistics| {
        let rates = change.flows.iter().find(|rates| rates.id == flow.id);
        let (items, bytes) = rates.map_or((0.0, 0.0), |it| (it.items_per_s, it.bytes_per_s));
        let text = format!(
            "{:<4} {:<9} {:>7} {:>7} {:>7} {:>7}  ",
            flow.id,
            flow.shape,
            si(items),
            bits(bytes),
            si(flow.items_waiting as f64),
            si(flow.items_delivered as f64),
        );
        // What is left of the line, in two.
        let each = width.saturating_sub(text.len() + 3) / 2;
        let (from, to) = (ends(&flow.producers, each), ends(&flow.consumers, each));
        let ends = format!("{from} > {to}");
        match (flow.runs(), flow.state == FlowStatistics::ENDED) {
            (true, _) => Line::from(vec![Span::from(text), Span::from(ends).dim()]),
            (false, true) => Line::from(format!("{text}ended: {ends}")).dim(),
            (false, false) => {
                let why = Span::from(flow.state.clone()).fg(Color::Yellow);
                Line::from(vec![Span::from(text), why])
            }
        }
    };
    // The newest are the most interesting, and those that run.
    let (mut runs, rest): (Vec<_>, Vec<_>) = rack.flows.iter().rev().partition(|it| it.runs());
    runs.reverse();
    let rows: Vec<_> = runs.into_iter().chain(rest).map(row).collect();
    let brief = rows.iter().take(running).cloned().collect();
    let rest = format!("  {running} running, {} set up so far", rack.flows_made);
    let names = format!(
        "{:<4} {:<9} {:>7} {:>7} {:>7} {:>7}  from > to",
        "flow", "shape", "items/s", "bit/s", "waiting", "items"
    );
    let head = vec![title("FLOWS", rest), columns(names)];
    Section {
        brief,
        ..Section::new(View::Flows, head, rows, true)
    }
}

fn pages(pages: &PageStatistics, change: &Change, width: usize) -> Section {
    let rate = |kind: &str| change.pages.get(kind).copied().unwrap_or(0.0);
    let one_each = ANSWERS.iter().filter(|(.., one)| *one);
    let whole: f64 = one_each.map(|(kind, ..)| rate(kind)).sum();
    let has = |kind: &str| pages.answers.get(kind).is_some_and(|&count| count > 0);
    let kinds = ANSWERS.iter().filter(|(kind, ..)| has(kind));
    let cells = kinds.map(|&(kind, words, one)| {
        let part = match one {
            true => share(rate(kind), whole),
            false => String::new(),
        };
        format!("{words:<21} {:>7} {part:>7}", si(rate(kind)))
    });
    let rows = in_columns(&cells.collect::<Vec<_>>(), width);
    let indexed = match pages.pages == pages.pages_indexed {
        true => "all indexed".to_owned(),
        false => format!("{} indexed", si(pages.pages_indexed as f64)),
    };
    let lost = match pages.pages_lost {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    let rest = format!(
        "  {} pages of {}, {indexed}{lost}; {} answers/s",
        si(pages.pages as f64),
        binary(pages.page_bytes),
        si(whole)
    );
    Section::new(
        View::Programs,
        vec![title("PAGES", rest)],
        rows,
        whole <= 0.0,
    )
}

/// Cells of 37 characters in two columns, read downwards, where there is room for two.
fn in_columns(cells: &[String], width: usize) -> Vec<Line<'static>> {
    const CELL: usize = 37;
    const GAP: &str = "      ";
    if width < 2 * CELL + GAP.len() {
        return cells.iter().cloned().map(Line::from).collect();
    }
    let half = cells.len().div_ceil(2);
    let (left, right) = cells.split_at(half);
    let right = right.iter().map(String::as_str);
    let right = right.chain(std::iter::repeat(""));
    left.iter()
        .zip(right)
        .map(|(left, right)| Line::from(format!("{left:<CELL$}{GAP}{right}")))
        .collect()
}

fn index(index: &IndexStatistics, change: &Change, width: usize) -> Section {
    let whole: f64 = change.index_by_depth.iter().sum();
    let told = index.by_depth.iter().zip(&change.index_by_depth);
    let told: Vec<_> = told.collect();
    let told = told.into_iter().enumerate();
    let told = told.filter(|(_, (count, _))| **count > 0);
    let room = width.saturating_sub(42).min(40);
    // The deepest first: that is where most are led, if all is well.
    let mut rows: Vec<Line<'static>> = told
        .rev()
        .map(|(at, (_, &rate))| {
            let part = share(rate, whole);
            let text = format!("led {:<18} {:>7} {part:>8}  ", depth(at), si(rate));
            let length = if whole > 0.0 { rate / whole } else { 0.0 };
            let bar = "█".repeat((length * room as f64).round() as usize);
            Line::from(vec![Span::from(text), Span::from(bar).fg(Color::Cyan)])
        })
        .collect();
    let other = index.other.iter().filter(|(_, count)| **count > 0);
    let other: Vec<String> = other
        .map(|(name, &count)| format!("{name} {}", si(count as f64)))
        .collect();
    if !other.is_empty() {
        rows.push(Line::from(format!("in all: {}", other.join(", "))).dim());
    }
    let rest = format!("  in the network; {} queries/s", si(change.index_queries));
    let rests = change.index_queries <= 0.0;
    Section::new(View::Programs, vec![title("INDEX", rest)], rows, rests)
}

fn sequencers(rack: &RackStatistics, change: &Change) -> Section {
    let both = rack.sequencers.iter().zip(&change.sequencers);
    let rows: Vec<Line<'static>> = both
        .map(|(it, &rate)| {
            let rate = si(rate);
            Line::from(format!(
                "{:<4} {rate:>7} numbers/s, next is {}",
                it.id, it.next
            ))
        })
        .collect();
    let all: f64 = change.sequencers.iter().sum();
    let rest = format!("  in the switch; {} numbers/s", si(all));
    Section::new(
        View::Programs,
        vec![title("SEQUENCERS", rest)],
        rows,
        all <= 0.0,
    )
}

fn drops(change: &Change) -> Section {
    let rows = change.drops.iter().map(|drop| {
        let reason = drop.reason.strip_prefix("drop_").unwrap_or(&drop.reason);
        Line::from(vec![
            Span::from(format!("{} {} ", cell(&drop.place, 14), cell(reason, 26))),
            bad(drop.per_s, 7),
            Span::from(format!(" {:>12}", drop.total)),
        ])
    });
    let rows: Vec<_> = rows.collect();
    let now: f64 = change.drops.iter().map(|drop| drop.per_s).sum();
    let ever: u64 = change.drops.iter().map(|drop| drop.total).sum();
    let rest = match (ever, now > 0.0) {
        (0, _) => "  none".to_owned(),
        (_, false) => format!("  none now, {} in all", si(ever as f64)),
        (_, true) => format!("  {} per second, {} in all", si(now), si(ever as f64)),
    };
    let names = format!(
        "{:<14} {:<26} {:>7} {:>12}",
        "at", "reason", "per s", "in all"
    );
    let head = match rows.is_empty() {
        true => vec![title("DROPS", rest)],
        false => vec![title("DROPS", rest), columns(names)],
    };
    Section::new(View::Drops, head, rows, now <= 0.0)
}
