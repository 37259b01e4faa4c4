//! The tables: nodes, flows, pages, index, sequencers, drops.

use super::state::{State, View};
use super::view::sparkline;
use crate::live::Change;
use crate::live::change::NodeChange;
use crate::report::words::{ANSWERS, binary, bits, depth, ends, share, si};
use crate::report::{object, table};
use rackweave_rack::statistics::{
    FlowStatistics, IndexStatistics, NodeStatistics, PageStatistics, RackStatistics,
};
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use serde_json::{Map, Value, json};

/// Minimum width at which small charts are shown beside the nodes.
const WIDE: usize = 100;

/// A table.
pub struct Section {
    /// The view that shows all of it.
    pub view: View,
    /// Its title, and the names of its columns if it has rows.
    pub head: Vec<Line<'static>>,
    /// All rows.
    pub rows: Vec<Line<'static>>,
    /// Number of rows worth showing in the overview.
    pub brief: usize,
}

/// A row: its cells by column name, and its style.
type Row = (Map<String, Value>, Style);

impl Section {
    /// A table all of whose rows are worth showing.
    fn new(view: View, (name, rest): (&'static str, String), rows: &[Row]) -> Self {
        let cells: Vec<_> = rows.iter().map(|(cells, _)| cells).collect();
        let text = table(&cells, None);
        let mut lines = text.lines().map(str::to_owned);
        let names = lines.next().filter(|_| !rows.is_empty());
        let title = Line::from(vec![Span::from(name).bold().fg(Color::Cyan), rest.into()]);
        let styles = rows.iter().map(|(_, style)| *style);
        let rows = lines.zip(styles);
        let rows: Vec<_> = rows.map(|(row, style)| Line::styled(row, style)).collect();
        Self {
            view,
            head: std::iter::once(title)
                .chain(names.map(|names| Line::from(names).dim()))
                .collect(),
            brief: rows.len(),
            rows,
        }
    }

    /// Reduces the table to its title in the overview, if it is at rest.
    fn unless(self, rests: bool) -> Self {
        let brief = if rests { 0 } else { self.brief };
        Self { brief, ..self }
    }

    /// The head in the overview: no column names without rows.
    pub fn brief_head(&self) -> &[Line<'static>] {
        let lines = if self.brief == 0 { 1 } else { self.head.len() };
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
    all.extend(rack.pages.iter().map(|of| pages(of, change)));
    all.extend(rack.index.iter().map(|of| index(of, change, width)));
    if !rack.sequencers.is_empty() {
        all.push(sequencers(rack, change));
    }
    all.push(drops(change));
    all
}

/// `text` in this many characters, cut if necessary.
pub(super) fn cell(text: &str, width: usize) -> String {
    let kept = width.saturating_sub(1);
    match text.chars().count() > width {
        true => text.chars().take(kept).chain(['…']).collect(),
        false => text.to_owned(),
    }
}

/// The style of a row in which something unexpected happens.
fn warning(is_so: bool) -> Style {
    match is_so {
        true => Style::new().fg(Color::Yellow).bold(),
        false => Style::new(),
    }
}

fn nodes(state: &State, rack: &RackStatistics, change: &Change, width: usize) -> Section {
    let row = |(node, change): (&NodeStatistics, &NodeChange)| {
        let mut cells = object(json!({
            "node": cell(&node.name, 14),
            "in bit": bits(change.bytes_in_per_s),
            "out bit": bits(change.bytes_out_per_s),
            "in pkt": si(change.packets_in_per_s),
            "out pkt": si(change.packets_out_per_s),
            "retries": si(change.retries_per_s),
            "drops": si(change.drops_per_s),
            "role": if node.dead { "dead" } else { &node.role },
        }));
        if let (true, Some(history)) = (width >= WIDE, state.nodes.get(&node.name)) {
            cells.insert("in and out".into(), sparkline(history, width - 73).into());
        }
        let style = match node.dead {
            true => Style::new().fg(Color::Red).bold(),
            false => warning(change.retries_per_s + change.drops_per_s > 0.0),
        };
        (cells, style)
    };
    let rows: Vec<_> = rack.nodes.iter().zip(&change.nodes).map(row).collect();
    let switches = match rack.switches.len() {
        1 => String::new(),
        many => format!(", {many} switches"),
    };
    let rest = format!("  {}{switches}; per second", rack.nodes.len());
    Section::new(View::Nodes, ("NODES", rest), &rows)
}

fn flows(rack: &RackStatistics, change: &Change, width: usize) -> Section {
    let row = |flow: &FlowStatistics| {
        let rates = change.flows.iter().find(|rates| rates.id == flow.id);
        let (items, bytes) = rates.map_or((0.0, 0.0), |it| (it.items_per_s, it.bytes_per_s));
        // The rest of the line, divided into two.
        let each = width.saturating_sub(53) / 2;
        let (from, to) = (ends(&flow.producers, each), ends(&flow.consumers, each));
        let (words, style) = match (flow.runs(), flow.state == FlowStatistics::ENDED) {
            (true, _) => (format!("{from} > {to}"), Style::new()),
            (false, true) => (format!("ended: {from} > {to}"), Style::new().dim()),
            (false, false) => (flow.state.clone(), warning(true)),
        };
        let cells = object(json!({
            "flow": flow.id,
            "shape": flow.shape,
            "items/s": si(items),
            "bit/s": bits(bytes),
            "waiting": si(flow.items_waiting as f64),
            "items": si(flow.items_delivered as f64),
            "from > to": words,
        }));
        (cells, style)
    };
    // The newest flows are the most interesting, and the running ones.
    let (mut runs, rest): (Vec<_>, Vec<_>) = rack.flows.iter().rev().partition(|it| it.runs());
    runs.reverse();
    let brief = runs.len();
    let rows: Vec<_> = runs.into_iter().chain(rest).map(row).collect();
    let rest = format!("  {brief} running, {} set up so far", rack.flows_made);
    let section = Section::new(View::Flows, ("FLOWS", rest), &rows);
    Section { brief, ..section }
}

fn pages(pages: &PageStatistics, change: &Change) -> Section {
    let rate = |kind: &str| change.pages.get(kind).copied().unwrap_or(0.0);
    let one_each = ANSWERS.iter().filter(|(.., one)| *one);
    let whole: f64 = one_each.map(|(kind, ..)| rate(kind)).sum();
    let has = |kind: &str| pages.answers.get(kind).is_some_and(|&count| count > 0);
    let kinds = ANSWERS.iter().filter(|(kind, ..)| has(kind));
    let rows = kinds.map(|&(kind, words, one)| {
        let part = match one {
            true => share(rate(kind), whole),
            false => String::new(),
        };
        let rate = si(rate(kind));
        let cells = json!({"answer": words, "per second": rate, "of all": part});
        (object(cells), Style::new())
    });
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
        binary(pages.page_bytes.into()),
        si(whole)
    );
    let rows: Vec<_> = rows.collect();
    Section::new(View::Programs, ("PAGES", rest), &rows).unless(whole <= 0.0)
}

fn index(index: &IndexStatistics, change: &Change, width: usize) -> Section {
    let whole: f64 = change.index_by_depth.iter().sum();
    let space = width.saturating_sub(46).min(40);
    let row = |(at, (&count, &rate)): (usize, (&u64, &f64))| {
        let length = if whole > 0.0 { rate / whole } else { 0.0 };
        let cells = json!({
            "led": depth(at),
            "per second": si(rate),
            "of all": share(rate, whole),
            " ": "█".repeat((length * space as f64).round() as usize),
        });
        (count > 0).then(|| (object(cells), Style::new()))
    };
    let reported = index.by_depth.iter().zip(&change.index_by_depth);
    // The deepest first: most queries are led there, if all is well.
    let mut rows: Vec<_> = reported.enumerate().filter_map(row).collect();
    rows.reverse();
    let rest = format!("  in the network; {} queries/s", si(change.index_queries));
    let mut section = Section::new(View::Programs, ("INDEX", rest), &rows);
    let other = index.other.iter().filter(|(_, count)| **count > 0);
    let other = other.map(|(name, &count)| format!("{name} {}", si(count as f64)));
    let other = other.collect::<Vec<_>>().join(", ");
    if !other.is_empty() {
        section.brief += 1;
        section
            .rows
            .push(Line::from(format!("in all: {other}")).dim());
    }
    section.unless(change.index_queries <= 0.0)
}

fn sequencers(rack: &RackStatistics, change: &Change) -> Section {
    let both = rack.sequencers.iter().zip(&change.sequencers);
    let rows = both.map(|(it, &rate)| {
        let cells = json!({"sequencer": it.id, "numbers/s": si(rate), "next is": it.next});
        (object(cells), Style::new())
    });
    let all: f64 = change.sequencers.iter().sum();
    let rest = format!("  in the switch; {} numbers/s", si(all));
    let rows: Vec<_> = rows.collect();
    Section::new(View::Programs, ("SEQUENCERS", rest), &rows).unless(all <= 0.0)
}

fn drops(change: &Change) -> Section {
    let rows = change.drops.iter().map(|drop| {
        let reason = drop.reason.strip_prefix("drop_").unwrap_or(&drop.reason);
        let cells = json!({
            "at": cell(&drop.place, 14),
            "reason": cell(reason, 26),
            "per second": si(drop.per_s),
            "in all": drop.total,
        });
        (object(cells), warning(drop.per_s > 0.0))
    });
    let now: f64 = change.drops.iter().map(|drop| drop.per_s).sum();
    let ever: u64 = change.drops.iter().map(|drop| drop.total).sum();
    let rest = match (ever, now > 0.0) {
        (0, _) => "  none".to_owned(),
        (_, false) => format!("  none now, {} in all", si(ever as f64)),
        (_, true) => format!("  {} per second, {} in all", si(now), si(ever as f64)),
    };
    let rows: Vec<_> = rows.collect();
    Section::new(View::Drops, ("DROPS", rest), &rows).unless(now <= 0.0)
}
