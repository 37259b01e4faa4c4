//! The models' constants with their sources, and the input of the configuration hash.

use super::{Report, configuration, list, table};
use maud::{Markup, html};
use rackweave_sim::devices::{self, Constant, SOURCES, Testbed, Trust};

/// The heads of the tables of constants.
const HEADS: &[(&str, &str)] = &[
    ("", "Constant"),
    ("number", "Value"),
    ("", "Unit"),
    ("", "What it is"),
    ("", "Source"),
    ("", "Sure"),
    ("wide", "Testbeds"),
];

/// The constants of the testbeds in use, and the configuration.
pub fn sections(report: &Report<'_>) -> Markup {
    let testbeds = report.testbeds();
    let names: Vec<&str> = testbeds.iter().map(|one| one.name()).collect();
    let constants: Vec<&Constant> = devices::of(&testbeds).collect();
    html! {
        section #constants {
            h2 { "The models' constants" }
            p {
                "Every number about hardware that the models of these testbeds use: "
                (names.join(", "))
                ". Each is checked (its source was read), derived (it follows from others), \
                 unchecked (its source is cited from memory) or assumed, wholly or in part."
            }
            (counts(&constants))
            @for group in constants.chunk_by(|a, b| a.group == b.group) {
                h3 { (group[0].group) }
                (table("constants", HEADS, &html! { @for constant in group { (row(constant)) } }))
            }
            (sources())
        }
        section #configuration {
            h2 { "The configuration hash" }
            p {
                code { (report.hash) }
                " is FNV-1a (64 bits) of the text below. Two runs with the same hash give the same \
                 curves, whatever the machine and however many figures run at a time."
            }
            details {
                summary { "The text that it is taken over" }
                pre { (configuration(report.version, report.scale, report.seed)) }
            }
        }
    }
}

fn counts(constants: &[&Constant]) -> Markup {
    let all = [
        Trust::Checked,
        Trust::Derived,
        Trust::Unchecked,
        Trust::Assumed,
    ];
    let counts = all.map(|trust| {
        let count = constants.iter().filter(|one| one.trust == trust).count();
        (count.to_string(), format!(" {}", trust.name()))
    });
    list("counts", counts)
}

fn row(constant: &Constant) -> Markup {
    let source = constant.source();
    let testbeds: Vec<&str> = constant.testbeds.iter().map(|one| one.name()).collect();
    let testbeds = match testbeds.len() {
        all if all == Testbed::ALL.len() => "all".to_owned(),
        _ => testbeds.join(", "),
    };
    html! {
        tr {
            td.name { code { (constant.name) } }
            td.number { (grouped(&constant.value())) }
            td { (constant.unit) }
            td { (constant.about()) }
            td { (source.strip_prefix("Source: ").unwrap_or(&source)) }
            td class=(constant.trust.name()) { (constant.trust.name()) }
            td.wide { (testbeds) }
        }
    }
}

/// A long whole number with a space after every three digits.
fn grouped(value: &str) -> String {
    if value.len() < 5 || !value.bytes().all(|byte| byte.is_ascii_digit()) {
        return value.to_owned();
    }
    let first = (value.len() - 1) % 3 + 1;
    let mut grouped = value[..first].to_owned();
    for at in (first..value.len()).step_by(3) {
        grouped.push('\u{202f}');
        grouped.push_str(&value[at..at + 3]);
    }
    grouped
}

fn sources() -> Markup {
    html! {
        h3 { "Sources by their short names" }
        dl.sources {
            @for source in SOURCES {
                dt { (source.name) }
                dd {
                    (source.about) "."
                    @if !source.checked { " Unchecked." }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
