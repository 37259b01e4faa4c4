//! The papers' claims beside our results: as a text table and as CSV.

use super::{Claim, Figure, csv, number};
use std::borrow::Cow;
use std::fmt::Write as _;
use textwrap::{Options, WordSplitter};

/// Width of a line of a claim's text, and of its source, in characters.
const WHAT: usize = 44;
const SOURCE: usize = 22;

/// A table of all claims: what | paper | ours | ratio | source. Empty if there are no claims.
pub fn claims_table(figures: &[Figure]) -> String {
    let rows: Vec<Row> = figures.iter().flat_map(Row::all).collect();
    if rows.is_empty() {
        return String::new();
    }
    let mut table = String::new();
    line(
        &mut table,
        &["figure", "claim", "paper", "ours", "ratio", "source"],
    );
    for row in &rows {
        let (what, source) = (wrapped(&row.what, WHAT), wrapped(&row.source, SOURCE));
        for at in 0..what.len().max(source.len()) {
            let first = |text| if at == 0 { text } else { "" };
            let part = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
            let [figure, paper, ours, ratio] =
                [&row.figure, &row.paper, &row.ours, &row.ratio].map(|text| first(text.as_str()));
            let (what, source) = (part(&what), part(&source));
            line(&mut table, &[figure, &what, paper, ours, ratio, &source]);
        }
    }
    table
}

/// The same table as CSV, with units in their own column.
pub fn claims_csv(figures: &[Figure]) -> String {
    let mut text = String::new();
    let head = [
        "figure", "claim", "unit", "paper", "ours", "ratio", "source",
    ];
    csv::row(&mut text, head.into_iter().map(str::to_owned));
    for figure in figures {
        for claim in &figure.claims {
            let cells = [
                figure.name.clone(),
                claim.what.clone(),
                claim.unit.clone(),
                number(claim.paper),
                number(claim.ours),
                ratio(claim),
                claim.source.clone(),
            ];
            csv::row(&mut text, cells.into_iter());
        }
    }
    text
}

struct Row {
    figure: String,
    what: String,
    paper: String,
    ours: String,
    ratio: String,
    source: String,
}

impl Row {
    fn all(figure: &Figure) -> impl Iterator<Item = Self> {
        figure.claims.iter().map(|claim| Self {
            figure: figure.name.clone(),
            what: claim.what.clone(),
            paper: short(claim.paper, &claim.unit),
            ours: short(claim.ours, &claim.unit),
            ratio: ratio(claim),
            source: claim.source.clone(),
        })
    }
}

fn line(table: &mut String, cells: &[&str; 6]) {
    let [figure, what, paper, ours, ratio, source] = cells;
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "{figure:<16} {what:<WHAT$} {paper:>13} {ours:>13} {ratio:>6}  {source}"
    );
    table.push_str(text.trim_end());
    table.push('\n');
}

/// A value with three significant digits and its unit.
pub(crate) fn short(value: f64, unit: &str) -> String {
    let text = if value == 0.0 || !value.is_finite() {
        format!("{value}")
    } else {
        let digits = value.abs().log10().floor() as i32 + 1;
        format!("{value:.*}", (3 - digits).clamp(0, 9) as usize)
    };
    match unit {
        "" => text,
        unit => format!("{text} {unit}"),
    }
}

/// The ratio with two or three digits; a dash if it cannot be divided by the paper's value.
pub(crate) fn ratio(claim: &Claim) -> String {
    let ratio = claim.ratio();
    match ratio.abs() {
        size if !size.is_finite() => "-".to_owned(),
        size if size >= 100.0 => format!("{ratio:.0}"),
        size if size >= 10.0 => format!("{ratio:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{ratio:.2}"),
        _ => short(ratio, "").trim_end_matches('0').to_owned(),
    }
}

/// Breaks the text between words into lines of at most `width` characters. A longer word gets its
/// own line; a text without words is one empty line.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let options = Options::new(width)
        .break_words(false)
        .word_splitter(WordSplitter::NoHyphenation);
    let lines = textwrap::wrap(text, options).into_iter();
    lines.map(Cow::into_owned).collect()
}
