//! A chapter of the report: a paper's figures, and those that are not repeated.

use super::{Entry, Outcome, Report, duration, list, reported, summary, table};
use crate::experiment::{Experiment, Paper};
use crate::figure::Figure;
use crate::harness::Scale;
use maud::{Markup, PreEscaped, html};

/// The heads of the tables of claims.
const HEADS: &[(&str, &str)] = &[
    ("", "Claim"),
    ("number", "Paper"),
    ("number", "Ours"),
    ("number", "Ratio"),
    ("", "Source"),
];

/// A paper's figures.
pub fn section(report: &Report<'_>, paper: &Paper) -> Markup {
    let left_out = paper.left_out.iter();
    let left_out = left_out.map(|one| (one.what.to_owned(), format!(": {}.", one.why)));
    html! {
        section.paper id={ "paper-" (paper.name) } {
            h2 { (paper.title) }
            p.authors {
                (paper.authors)
                @if !paper.venue.is_empty() { ". " (paper.venue) }
            }
            @for entry in report.entries_of(paper) {
                article id=(entry.experiment.name) { (article(report, entry)) }
            }
            @if !paper.left_out.is_empty() {
                h3 { "Measurements of this paper that are not repeated" }
                (list("", left_out))
            }
        }
    }
}

fn article(report: &Report<'_>, entry: &Entry<'_>) -> Markup {
    let experiment = entry.experiment;
    match entry.outcome {
        Outcome::Made(figure, seconds) => html! {
            (heading(experiment, &figure.title))
            div.chart { (PreEscaped(figure.to_svg())) }
            (claims(figure))
            (notes(figure))
            (again(report, experiment, seconds))
        },
        Outcome::Failed(error) => html! {
            (heading(experiment, experiment.about()))
            (reported("failure", "It failed. ", error))
        },
        Outcome::Missing => html! {
            (heading(experiment, experiment.about()))
            p.missing { "It was not run to its end." }
        },
    }
}

fn heading(experiment: &Experiment, title: &str) -> Markup {
    html! { h3 { span.place { (capital(&experiment.place())) } " " (title) } }
}

/// The text with its first letter capitalized.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn claims(figure: &Figure) -> Markup {
    if figure.claims.is_empty() {
        return html! { p { "The paper makes no claim in numbers about this figure." } };
    }
    let rows = html! {
        @for claim in &figure.claims {
            tr {
                td { (claim.what) }
                (summary::cells(claim))
                td { (claim.source) }
            }
        }
    };
    table("claims", HEADS, &rows)
}

fn notes(figure: &Figure) -> Markup {
    html! {
        @if !figure.notes.is_empty() {
            ul.notes { @for note in &figure.notes { li { (note) } } }
        }
    }
}

/// How to run the experiment again.
fn again(report: &Report<'_>, experiment: &Experiment, seconds: f64) -> Markup {
    let scale = match report.scale {
        Scale::Full => "",
        Scale::Quick => " --quick",
        Scale::Paper => " --scale paper",
    };
    let name = experiment.name;
    html! {
        p.again {
            "Run it again: "
            code { "rackweave figures " (name) (scale) " --seed " (report.seed) }
            ". It took " (duration(seconds)) ". The values are in " (name) ".csv."
        }
    }
}
