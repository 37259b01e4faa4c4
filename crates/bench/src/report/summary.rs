//! All claims, those farthest off first.

use super::{Outcome, Report, list, table};
use crate::figure::{Claim, ratio, short};
use maud::{Markup, html};

/// A ratio that fills half of the bar.
const BAR_MOST: f64 = 4.0;

/// The heads of the table.
const HEADS: &[(&str, &str)] = &[
    ("", "Figure"),
    ("", "Claim"),
    ("number", "Paper"),
    ("number", "Ours"),
    ("number", "Ratio"),
    ("wide", "Below or above"),
];

/// The name of a figure, and a claim of it.
type Row<'a> = (&'a str, &'a Claim);

/// How far off a claim is: the absolute logarithm (base e) of its ratio; none if it has no ratio. A
/// claim whose ratio is zero or has the wrong sign is infinitely far off.
pub fn distance(claim: &Claim) -> Option<f64> {
    let ratio = claim.ratio();
    match ratio.is_finite() {
        true if ratio > 0.0 => Some(ratio.ln().abs()),
        true => Some(f64::INFINITY),
        false => None,
    }
}

/// The claims of all figures, the farthest off first, those without a ratio last; ties keep their
/// order.
pub fn sorted<'a>(report: &Report<'a>) -> Vec<Row<'a>> {
    let figures = report.made().map(|(_, figure, _)| figure);
    let rows = figures.flat_map(|figure| {
        let claims = figure.claims.iter();
        claims.map(|claim| (figure.name.as_str(), claim))
    });
    let mut rows: Vec<Row<'a>> = rows.collect();
    let key = |row: &Row<'_>| distance(row.1).unwrap_or(f64::NEG_INFINITY);
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
    rows
}

/// The table with what it comes to, and the contents.
pub fn section(report: &Report<'_>) -> Markup {
    let rows = sorted(report);
    html! {
        section #summary {
            h2 { "How far we are from the papers" }
            @if rows.is_empty() {
                p { "There is no claim to compare: no figure with claims was made." }
            } @else {
                (counts(&rows))
                p {
                    "The ratio is ours over the paper's. A ratio far from one is no failure: where \
                     the paper says \"at least\" or \"at most\", to be beyond it is good, and where \
                     hardware decides, the notes at the figure say what differs. The bar shows the \
                     ratio on a logarithmic scale, to the left below one, to the right above."
                }
                (table("claims", HEADS, &html! { @for claim in &rows { (row(claim)) } }))
            }
            (contents(report))
        }
    }
}

fn row((figure, claim): &Row<'_>) -> Markup {
    html! {
        tr {
            td.name { a href={ "#" (figure) } { (figure) } }
            td { (claim.what) }
            (cells(claim))
            td.wide { (bar(claim)) }
        }
    }
}

/// The paper's value, ours, and the ratio.
pub fn cells(claim: &Claim) -> Markup {
    let ours = match claim.ours.is_nan() {
        true => "not measured".to_owned(),
        false => short(claim.ours, &claim.unit),
    };
    html! {
        td.number { (short(claim.paper, &claim.unit)) }
        td.number { (ours) }
        td.number.(grade(claim)) { (ratio(claim)) }
    }
}

/// A word that grades how far off a claim is.
fn grade(claim: &Claim) -> &'static str {
    match distance(claim) {
        None => "none",
        Some(far) if far <= 1.1f64.ln() => "near",
        Some(far) if far <= 1.5f64.ln() => "middle",
        Some(_) => "far",
    }
}

fn counts(rows: &[Row<'_>]) -> Markup {
    let within = |least: f64, most: f64| {
        let far = rows.iter().filter_map(|row| distance(row.1));
        far.filter(|far| *far > least && *far <= most).count()
    };
    let steps = [1.1f64.ln(), 1.5f64.ln(), 2.0f64.ln()];
    let counts = [
        (within(-1.0, steps[0]), "within 10 %"),
        (within(steps[0], steps[1]), "within a factor of 1.5"),
        (within(steps[1], steps[2]), "within a factor of 2"),
        (within(steps[2], f64::INFINITY), "farther off"),
        (
            rows.iter().filter(|row| distance(row.1).is_none()).count(),
            "without a ratio (the paper says zero, or ours is missing)",
        ),
    ];
    let items = counts.map(|(count, what)| (count.to_string(), format!(" {what}")));
    list("counts", items)
}

/// A bar from the middle to the position of the ratio.
fn bar(claim: &Claim) -> Markup {
    let ratio = claim.ratio();
    if !ratio.is_finite() || ratio <= 0.0 {
        return html! {};
    }
    let part = (ratio.ln() / BAR_MOST.ln()).clamp(-1.0, 1.0) * 50.0;
    let (left, width) = (50.0 + part.min(0.0), part.abs());
    let style = format!("left:{left:.1}%;width:{width:.1}%");
    html! { span.bar.(grade(claim)) { span style=(style) {} } }
}

/// The figures by paper.
fn contents(report: &Report<'_>) -> Markup {
    let state = |outcome: &Outcome<'_>| match outcome {
        Outcome::Made(..) => "",
        Outcome::Failed(_) => " (failed)",
        Outcome::Missing => " (not run)",
    };
    html! {
        nav {
            h2 { "Figures" }
            ul {
                @for paper in report.papers() {
                    li {
                        a href={ "#paper-" (paper.name) } { (paper.title) }
                        ": "
                        @for (at, entry) in report.entries_of(paper).enumerate() {
                            @if at > 0 { ", " }
                            a href={ "#" (entry.experiment.name) } { (entry.experiment.place()) }
                            (state(&entry.outcome))
                        }
                    }
                }
                li { a href="#constants" { "The models' constants and their sources" } }
            }
        }
    }
}
