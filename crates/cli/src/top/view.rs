//! Draws the screen, from state and size alone.

use super::sections::{Section, cell, sections};
use super::state::{History, State, View};
use crate::report::words::{clock, with_unit};
use ratatui::Frame;
use ratatui::style::{Color, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::Paragraph;

/// A key and what it does.
const HELP: [(&str, &str); 8] = [
    ("1 to 5, Tab, ← →", "choose a view"),
    ("↑ ↓, PgUp, PgDn", "scroll"),
    ("p, space", "pause; what is watched goes on"),
    ("? or h", "this page"),
    ("q, Esc, Ctrl-C", "end"),
    ("", ""),
    ("bit", "per second, headers and ICRC included"),
    ("k M G", "thousands; rates are those of the last interval"),
];

/// What the columns mean.
const MEANINGS: [&str; 6] = [
    "retries   times that requests were sent again (completer_retry_err)",
    "drops     packets that the NIC dropped, whatever the reason: see view 5",
    "waiting   items delivered that their consumer has not consumed",
    "pages     answers of the switch's directory; shares are of all requests",
    "index     tree nodes that the switches led queries to",
    "          `rackweave stat` has every counter by its name",
];

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let (width, height) = (usize::from(area.width), usize::from(area.height));
    let mut lines = header(state, width);
    let footer = usize::from(height > lines.len() + 2);
    let space = height.saturating_sub(lines.len() + footer);
    let mut body = match (&state.shown, state.help) {
        (_, true) => help(),
        (Some(_), false) => self::body(state, width, space),
        (None, false) => Vec::new(),
    };
    body.truncate(space);
    body.resize(space, Line::default());
    lines.append(&mut body);
    if footer > 0 {
        lines.push(keys(state, width));
    }
    lines.truncate(height);
    frame.render_widget(Paragraph::new(lines), area);
}

/// The observed command, and its state.
fn header(state: &State, width: usize) -> Vec<Line<'static>> {
    let bar = Style::new().reversed();
    let Some((snapshot, change)) = &state.shown else {
        let title = fill("rackweave top", "", width);
        return vec![Line::styled(title, bar), trouble(state)];
    };
    let up = clock(snapshot.up_seconds);
    let right = format!(
        "process {}  up {up}  every {} s",
        snapshot.pid, state.interval
    );
    let title = fill(&format!("rackweave {}", snapshot.command), &right, width);
    let mut second = match snapshot.phase.as_str() {
        "" => Vec::new(),
        phase => vec![
            Span::from(phase.to_owned()).bold(),
            Span::from(format!(" for {}  ", clock(snapshot.phase_seconds))),
        ],
    };
    if state.trouble.is_some() {
        return vec![Line::styled(title, bar), trouble(state)];
    }
    if state.paused {
        second.push(Span::from("paused  ").fg(Color::Yellow).bold());
    }
    match change {
        None => second.push("no rack at the moment".into()),
        Some(change) if change.is_since_start => {
            second.push("rates since the rack was built".dim());
        }
        Some(change) => {
            let sent = with_unit(change.bytes_out_per_s() * 8.0, "bit/s");
            second.push(format!("sent {sent} ").into());
            let used: usize = second.iter().map(Span::width).sum();
            let space = width.saturating_sub(used).min(30);
            second.push(Span::from(sparkline(&state.total, space)).fg(Color::Cyan));
        }
    }
    vec![Line::styled(title, bar), Line::from(second)]
}

fn trouble(state: &State) -> Line<'static> {
    let text = state.trouble.clone().unwrap_or_default();
    Line::from(text).fg(Color::Yellow).bold()
}

/// `left` and `right` at the ends of a line; `left` is cut if necessary.
fn fill(left: &str, right: &str, width: usize) -> String {
    let left_width = width.saturating_sub(right.chars().count() + 2);
    format!("{:<left_width$}  {right}", cell(left, left_width))
}

/// The most recent rates, as many as fit.
pub(super) fn sparkline(history: &History, width: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let skipped = history.len().saturating_sub(width);
    let most = history.iter().skip(skipped).copied().fold(0.0, f64::max);
    let bar = |&rate: &f64| {
        let eighth = if most > 0.0 { rate / most * 7.0 } else { 0.0 };
        BARS[(eighth.round() as usize).min(7)]
    };
    history.iter().skip(skipped).map(bar).collect()
}

fn body(state: &State, width: usize, space: usize) -> Vec<Line<'static>> {
    let sections = sections(state, width);
    let shown: Vec<&Section> = sections
        .iter()
        .filter(|section| state.view == View::All || section.view == state.view)
        .collect();
    if shown.is_empty() {
        let nothing = format!("There are no {} here.", state.view.name());
        return vec![Line::default(), Line::from(nothing)];
    }
    match state.view {
        View::All => overview(&shown, space),
        _ => scrolled(&shown, state.scroll, space),
    }
}

/// Some of each section; the first sections have priority.
fn overview(sections: &[&Section], space: usize) -> Vec<Line<'static>> {
    let mut fixed = 0;
    let fitting: Vec<&&Section> = sections
        .iter()
        .take_while(|section| {
            let least = section.brief_head().len() + usize::from(section.brief > 0);
            fixed += least;
            fixed <= space
        })
        .collect();
    let heads: usize = fitting
        .iter()
        .map(|section| section.brief_head().len())
        .sum();
    let wanted: Vec<usize> = fitting.iter().map(|section| section.brief).collect();
    let all: usize = wanted.iter().sum();
    // Blank lines between sections, if everything fits.
    let gaps = fitting.len().saturating_sub(1);
    let airy = heads + all + gaps <= space;
    let granted = allot(&wanted, space.saturating_sub(heads));
    let mut lines = Vec::new();
    for (section, granted) in fitting.iter().zip(granted) {
        if airy && !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(section.brief_head().iter().cloned());
        let (rows, cut) = (section.brief, granted < section.brief);
        // The last row is used for the number of omitted rows.
        let shown = granted.min(rows) - usize::from(cut && granted > 0);
        lines.extend(section.rows.iter().take(shown).cloned());
        if cut && granted > 0 {
            let number = View::ALL.iter().position(|view| *view == section.view);
            let key = number.map_or(1, |number| number + 1);
            let more = format!("  and {} more: press {key}", rows - granted + 1);
            lines.push(Line::from(more).dim());
        }
    }
    lines
}

/// Distributes rows: some for each section, then as many as wanted for the first ones.
fn allot(wanted: &[usize], mut space: usize) -> Vec<usize> {
    const FEW: usize = 2;
    const SOME: usize = 8;
    let mut granted = vec![0; wanted.len()];
    for most in [1, FEW, SOME, usize::MAX] {
        for (granted, &wanted) in granted.iter_mut().zip(wanted) {
            let more = wanted.min(most).saturating_sub(*granted).min(space);
            *granted += more;
            space -= more;
        }
    }
    granted
}

/// All rows of some sections, starting at a row.
fn scrolled(sections: &[&Section], scroll: usize, space: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for section in sections {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(section.head.iter().chain(&section.rows).cloned());
    }
    let above = scroll.min(lines.len().saturating_sub(space));
    let below = lines.len().saturating_sub(above + space);
    let mut shown: Vec<_> = lines.into_iter().skip(above).take(space).collect();
    if let (true, Some(last)) = (below > 0, shown.last_mut()) {
        *last = Line::from(format!("  and {} more: ↓", below + 1)).dim();
    }
    shown
}

fn help() -> Vec<Line<'static>> {
    let keys = HELP.iter().map(|(key, what)| {
        Line::from(vec![
            Span::from(format!("  {key:<18}")).bold(),
            Span::from(*what),
        ])
    });
    let meanings = MEANINGS.iter().map(|text| Line::from(format!("  {text}")));
    let gap = || std::iter::once(Line::default());
    gap().chain(keys).chain(gap()).chain(meanings).collect()
}

/// The available keys, with the current view marked.
fn keys(state: &State, width: usize) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, view) in View::ALL.into_iter().enumerate() {
        let name = format!(" {} {} ", at + 1, view.name());
        spans.push(match view == state.view {
            true => Span::from(name).reversed(),
            false => Span::from(name),
        });
    }
    let right = " p pause  ? help  q end";
    let used: usize = spans.iter().map(Span::width).sum();
    if used + right.len() > width {
        let name = Span::from(format!(" {} ", state.view.name())).reversed();
        return Line::from(vec![name, Span::from(" Tab  ? help  q end")]);
    }
    let gap = width - used - right.len();
    spans.push(Span::from(" ".repeat(gap)));
    spans.push(Span::from(right).dim());
    Line::from(spans)
}
