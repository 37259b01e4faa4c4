//! The papers' claims beside our results: as a text table and as CSV.

use super::{Claim, Figure, csv, number};
use std::borrow::Cow;
use textwrap::{Options, WordSplitter};

/// Width of a line of a claim's text, and of its source, in characters.
const WHAT: usize = 44;
const SOURCE: usize = 22;

/// A table of all claims: what | paper | ours | ratio | source. Empty if there are no claims.
pub fn claims_table(figures: &[Figure]) -> String {
    let mut table = String::new();
    for figure in figures {
        for claim in &figure.claims {
            if table.is_empty() {
                let heads = ["figure", "claim", "paper", "ours", "ratio", "source"];
                table.push_str(&line(heads));
            }
            let (what, source) = (wrapped(&claim.what, WHAT), wrapped(&claim.source, SOURCE));
            let [paper, ours] = [claim.paper, claim.ours].map(|value| short(value, &claim.unit));
            let mut values = [figure.name.clone(), paper, ours, ratio(claim)];
            for at in 0..what.len().max(source.len()) {
                let part = |lines: &[String]| lines.get(at).cloned().unwrap_or_default();
                let (what, source) = (part(&what), part(&source));
                let [figure, paper, ours, ratio] = values.each_mut().map(core::mem::take);
                table.push_str(&line([&figure, &what, &paper, &ours, &ratio, &source]));
            }
        }
    }
    table
}

/// The same table as CSV, with units in their own column.
pub fn claims_csv(figures: &[Figure]) -> String {
    let head = [
        "figure", "claim", "unit", "paper", "ours", "ratio", "source",
    ];
    let rows = figures.iter().flat_map(|figure| {
        figure.claims.iter().map(|claim| {
            vec![
                figure.name.clone(),
                claim.what.clone(),
                claim.unit.clone(),
                number(claim.paper),
                number(claim.ours),
                ratio(claim),
                claim.source.clone(),
            ]
        })
    });
    csv::text(std::iter::once(head.map(str::to_owned).into()).chain(rows))
}

fn line([figure, what, paper, ours, ratio, source]: [&str; 6]) -> String {
    let text = format!("{figure:<16} {what:<WHAT$} {paper:>13} {ours:>13} {ratio:>6}  {source}");
    format!("{}\n", text.trim_end())
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
