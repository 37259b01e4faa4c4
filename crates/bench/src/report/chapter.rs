//! A chapter of the report: a paper's figures, and those that are not repeated.

use super::html::Page;
use super::{Outcome, Report, duration, summary};
use crate::experiment::Experiment;
use crate::experiment::paper::Paper;
use crate::figure::Figure;
use crate::harness::Scale;

/// Writes a paper's figures.
pub fn write(report: &Report<'_>, paper: &Paper, page: &mut Page) {
    page.open_with(
        "section",
        &format!(" class=\"paper\" id=\"paper-{}\"", paper.name),
    );
    page.element("h2", "", paper.title);
    let venue = match paper.venue {
        "" => String::new(),
        venue => format!(". {venue}"),
    };
    page.element("p", "authors", &format!("{}{venue}", paper.authors));
    for entry in &report.entries {
        if entry.experiment.paper().name != paper.name {
            continue;
        }
        page.open_with("article", &format!(" id=\"{}\"", entry.experiment.name));
        match entry.outcome {
            Outcome::Made(figure, seconds) => {
                heading(entry.experiment, &figure.title, page);
                page.open("div", "chart");
                page.raw(&figure.to_svg());
                page.close("div");
                claims(figure, page);
                notes(figure, page);
                again(report, entry.experiment, seconds, page);
            }
            Outcome::Failed(error) => {
                heading(entry.experiment, entry.experiment.about, page);
                page.reported("div", "failure", "It failed. ", error);
            }
            Outcome::Missing => {
                heading(entry.experiment, entry.experiment.about, page);
                page.element("p", "missing", "It was not run to its end.");
            }
        }
        page.close("article");
    }
    if !paper.left_out.is_empty() {
        page.element("h3", "", "Measurements of this paper that are not repeated");
        let left_out = paper.left_out.iter();
        let items = left_out.map(|one| (one.what.to_owned(), format!(": {}.", one.why)));
        page.list("", items);
    }
    page.close("section");
}

fn heading(experiment: &Experiment, title: &str, page: &mut Page) {
    page.open("h3", "");
    page.element("span", "place", &capital(&experiment.place()));
    page.text(&format!(" {title}"));
    page.close("h3");
}

/// The text with its first letter capitalized.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn claims(figure: &Figure, page: &mut Page) {
    if figure.claims.is_empty() {
        page.paragraph("The paper makes no claim in numbers about this figure.");
        return;
    }
    page.table(
        "claims",
        &[
            ("", "Claim"),
            ("number", "Paper"),
            ("number", "Ours"),
            ("number", "Ratio"),
            ("", "Source"),
        ],
    );
    for claim in &figure.claims {
        page.open("tr", "");
        page.element("td", "", &claim.what);
        summary::cells(claim, page);
        page.element("td", "", &claim.source);
        page.close("tr");
    }
    page.table_end();
}

fn notes(figure: &Figure, page: &mut Page) {
    if figure.notes.is_empty() {
        return;
    }
    page.open("ul", "notes");
    for note in &figure.notes {
        page.element("li", "", note);
    }
    page.close("ul");
}

/// How to run the experiment again.
fn again(report: &Report<'_>, experiment: &Experiment, seconds: f64, page: &mut Page) {
    let scale = match report.scale {
        Scale::Full => String::new(),
        Scale::Quick => " --quick".into(),
        Scale::Paper => " --scale paper".into(),
    };
    let seed = report.seed;
    page.open("p", "again");
    page.text("Run it again: ");
    page.element(
        "code",
        "",
        &format!("rackweave figures {}{scale} --seed {seed}", experiment.name),
    );
    page.text(&format!(
        ". It took {}. The values are in {}.csv.",
        duration(seconds),
        experiment.name
    ));
    page.close("p");
}
