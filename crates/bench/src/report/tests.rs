//! The page is well formed, complete, sorted, and loads nothing.

use super::*;
use crate::experiment::ALL;
use crate::figure::{Axis, Claim, Drawing, PaperMark, Series};

fn claim(what: &str, paper: f64, ours: f64) -> Claim {
    Claim {
        what: what.into(),
        source: "section 7, <figure 6> & more".into(),
        paper,
        ours,
        unit: "GB/s".into(),
    }
}

fn axis(label: &str, unit: &str) -> Axis {
    Axis {
        label: label.into(),
        unit: unit.into(),
        log: unit == "B",
    }
}

fn figure(name: &str, claims: Vec<Claim>) -> Figure {
    Figure {
        name: name.into(),
        title: "Goodput <of> \"nothing\" & all".into(),
        x: axis("item size", "B"),
        y: axis("goodput", "GB/s"),
        drawing: Drawing::Lines,
        y_per_panel: false,
        x_names: Vec::new(),
        series: vec![Series {
            name: "ours & <theirs>".into(),
            points: vec![(64.0, 1.0), (4096.0, 11.5)],
        }],
        paper: vec![PaperMark {
            panel: String::new(),
            x: None,
            curve: String::new(),
            y: 12.0,
        }],
        claims,
        notes: vec!["scale: <small> & \"short\"".into()],
        seed: 7,
    }
}

fn entry<'a>(name: &str, outcome: Outcome<'a>) -> Entry<'a> {
    let found = ALL.iter().find(|one| one.name == name);
    Entry {
        experiment: found.expect("there is one"),
        outcome,
    }
}

fn report<'a>(entries: Vec<Entry<'a>>, state: State) -> Report<'a> {
    Report {
        version: "0.1.0",
        scale: Scale::Quick,
        seed: 7,
        hash: "0123456789abcdef",
        state,
        jobs: 2,
        elapsed_s: 12.25,
        entries,
    }
}

/// Asserts that every element of a page is closed, in the right order; returns its tags.
fn tags(html: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut tags = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        assert!(
            !rest[..at].contains('>'),
            "a sign that is no tag: {}",
            &rest[..at]
        );
        let end = at + rest[at..].find('>').expect("a tag ends");
        let tag = &rest[at + 1..end];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "it was opened last");
        } else if !tag.starts_with('!') {
            tags.push(tag.to_owned());
            // The head's elements without content are not closed.
            if !tag.ends_with('/') && !tag.starts_with("meta ") {
                open.push(tag.split(' ').next().unwrap_or(tag));
            }
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} never end");
    tags
}

/// The values of an attribute.
fn values<'a>(tags: &'a [String], attribute: &str) -> Vec<&'a str> {
    let start = format!(" {attribute}=\"");
    let after = tags.iter().filter_map(|tag| tag.split_once(&start));
    after
        .map(|(_, rest)| &rest[..rest.find('"').expect("it ends")])
        .collect()
}

#[test]
fn the_whole_report_holds_every_figure_and_loads_nothing() {
    let figures: Vec<Figure> = ALL
        .iter()
        .map(|one| figure(one.name, vec![claim("it is fast", 12.0, 11.0)]))
        .collect();
    let made = figures.iter();
    let made = made.map(|figure| entry(&figure.name, Outcome::Made(figure, 1.5)));
    let html = report(made.collect(), State::Ended).to_html();
    let tags = tags(&html);
    let ids = values(&tags, "id");
    for (at, id) in ids.iter().enumerate() {
        assert!(!ids[at + 1..].contains(id), "{id} is there twice");
    }
    for one in ALL {
        assert!(ids.contains(&one.name), "{} is missing", one.name);
    }
    assert_eq!(
        tags.iter().filter(|tag| tag.starts_with("svg ")).count(),
        ALL.len()
    );
    // Links have existing targets; nothing is loaded.
    for target in values(&tags, "href") {
        let target = target.strip_prefix('#').expect("a link within the page");
        assert!(ids.contains(&target), "{target} is nowhere");
    }
    assert!(values(&tags, "src").is_empty());
    assert!(!html.contains("@import") && !html.contains("<script") && !html.contains("<link"));
    let namespace = "http://www.w3.org/2000/svg";
    assert_eq!(html.matches("://").count(), html.matches(namespace).count());
    for (at, _) in html.match_indices("url(") {
        assert!(html[at..].starts_with("url(#"));
    }
    // The page has every constant and every paper.
    for constant in rackweave_sim::devices::all() {
        assert!(html.contains(&format!("<code>{}</code>", constant.name)));
    }
    for paper in &*PAPERS {
        assert!(html.contains(&paper.title));
        for left_out in &paper.left_out {
            assert!(html.contains(&left_out.what));
        }
    }
    assert!(!html.contains("warning\">"), "nothing went wrong");
}

#[test]
fn a_report_of_some_figures_has_the_constants_of_their_testbeds() {
    let figure = figure("seamless-3", Vec::new());
    let entries = vec![entry("seamless-3", Outcome::Made(&figure, 1.0))];
    let html = report(entries, State::Ended).to_html();
    let has = |name: &str| html.contains(&format!("<code>{name}</code>"));
    assert!(has("SSD_READ_LATENCY") && !has("GPU_LOAD_LATENCY"));
    assert!(html.contains("no figure with claims was made"));
}

#[test]
fn the_summary_begins_with_what_is_farthest_off() {
    let figures = [
        figure(
            "zero-sided-6",
            vec![claim("half", 2.0, 1.0), claim("zero", 0.0, 1.0)],
        ),
        figure(
            "zero-sided-7",
            vec![
                claim("alike", 1.0, 1.01),
                claim("wrong sign", 1.0, -1.0),
                claim("missing", 1.0, f64::NAN),
                claim("three times", 1.0, 3.0),
            ],
        ),
    ];
    let entries = figures.iter();
    let entries = entries.map(|figure| entry(&figure.name, Outcome::Made(figure, 1.0)));
    let report = report(entries.collect(), State::Ended);
    let order: Vec<&str> = summary::sorted(&report)
        .into_iter()
        .map(|(_, claim)| claim.what.as_str())
        .collect();
    let expect = [
        "wrong sign",
        "three times",
        "half",
        "alike",
        "zero",
        "missing",
    ];
    assert_eq!(order, expect);
    let html = report.to_html();
    let places = expect.map(|what| html.find(&format!("<td>{what}</td>")).expect("a row"));
    assert!(places.is_sorted(), "{places:?}");
    tags(&html);
}

#[test]
fn failures_and_what_is_missing_are_shown() {
    let made = figure("zero-sided-6", vec![claim("it is fast", 12.0, 11.0)]);
    let entries = vec![
        entry("zero-sided-6", Outcome::Made(&made, 1.0)),
        entry(
            "zero-sided-7",
            Outcome::Failed("a <rack> broke; the same seed replays it"),
        ),
        entry("zero-sided-8", Outcome::Missing),
    ];
    for (state, reported) in [
        (State::Interrupted, "This run was interrupted."),
        (State::Running, "This run had not ended"),
    ] {
        let html = report(entries.clone(), state).to_html();
        tags(&html);
        assert!(html.contains(reported));
        assert!(html.contains("1 of 3 figures are missing: zero-sided-8."));
        assert_eq!(
            html.matches("a &lt;rack&gt; broke").count(),
            2,
            "on top and at its place"
        );
        assert!(html.contains("It was not run to its end."));
    }
}

#[test]
fn a_small_report() {
    let made = figure("communication-4a", vec![claim("it is fast", 12.0, 10.5)]);
    let entries = vec![entry("communication-4a", Outcome::Made(&made, 1.5))];
    let html = report(entries, State::Ended).to_html();
    // The style and the appendix are fixed; the rest is the page.
    let from = html.find("<body>").expect("a body");
    let to = html
        .find("<section id=\"constants\">")
        .expect("an appendix");
    // The page has no line breaks of its own.
    insta::assert_snapshot!(html[from..to].replace("><", ">\n<"));
}

#[test]
fn the_configuration_is_text_that_names_all() {
    let text = configuration("0.1.0", Scale::Full, 9);
    assert!(text.starts_with("version = 0.1.0\nscale = full\nseed = 9\nLINK_BITS_PER_SECOND = "));
    assert_ne!(text, configuration("0.1.0", Scale::Full, 10));
    assert_ne!(text, configuration("0.1.0", Scale::Paper, 9));
}
