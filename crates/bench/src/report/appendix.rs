//! The models' constants with their sources, and the input of the configuration hash.

use super::html::Page;
use super::{Report, configuration};
use rackweave_sim::devices::{self, Constant, SOURCES, Testbed, Trust};

/// Writes the constants of the testbeds in use, and the configuration.
pub fn write(report: &Report<'_>, page: &mut Page) {
    let testbeds = report.testbeds();
    page.open_with("section", " id=\"constants\"");
    page.element("h2", "", "The models' constants");
    let names: Vec<&str> = testbeds.iter().map(|one| one.name()).collect();
    page.paragraph(&format!(
        "Every number about hardware that the models of these testbeds use: {}. Each is checked \
         (its source was read), derived (it follows from others), unchecked (its source is cited \
         from memory) or assumed, wholly or in part.",
        names.join(", ")
    ));
    let constants: Vec<&Constant> = devices::of(&testbeds).collect();
    counts(&constants, page);
    for group in constants.chunk_by(|a, b| a.group == b.group) {
        page.element("h3", "", group[0].group);
        page.table(
            "constants",
            &[
                ("", "Constant"),
                ("number", "Value"),
                ("", "Unit"),
                ("", "What it is"),
                ("", "Source"),
                ("", "Sure"),
                ("wide", "Testbeds"),
            ],
        );
        for constant in group {
            row(constant, page);
        }
        page.table_end();
    }
    sources(page);
    page.close("section");
    page.open_with("section", " id=\"configuration\"");
    page.element("h2", "", "The configuration hash");
    page.open("p", "");
    page.element("code", "", report.hash);
    page.text(
        " is FNV-1a (64 bits) of the text below. Two runs with the same hash give the same curves, \
         whatever the machine and however many figures run at a time.",
    );
    page.close("p");
    page.open("details", "");
    page.element("summary", "", "The text that it is taken over");
    let text = configuration(report.version, report.scale, report.seed);
    page.element("pre", "", &text);
    page.close("details");
    page.close("section");
}

fn counts(constants: &[&Constant], page: &mut Page) {
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
    page.list("counts", counts);
}

fn row(constant: &Constant, page: &mut Page) {
    page.open("tr", "");
    page.open("td", "name");
    page.element("code", "", constant.name);
    page.close("td");
    page.element("td", "number", &grouped(&constant.value()));
    page.element("td", "", constant.unit);
    page.element("td", "", &constant.about());
    let source = constant.source();
    page.element("td", "", source.strip_prefix("Source: ").unwrap_or(&source));
    page.element("td", constant.trust.name(), constant.trust.name());
    let testbeds: Vec<&str> = constant.testbeds.iter().map(|one| one.name()).collect();
    let testbeds = match testbeds.len() {
        all if all == Testbed::ALL.len() => "all".to_owned(),
        _ => testbeds.join(", "),
    };
    page.element("td", "wide", &testbeds);
    page.close("tr");
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

fn sources(page: &mut Page) {
    page.element("h3", "", "Sources by their short names");
    page.open("dl", "sources");
    for source in SOURCES {
        page.element("dt", "", source.name);
        let mark = if source.checked { "" } else { " Unchecked." };
        page.element("dd", "", &format!("{}.{mark}", source.about));
    }
    page.close("dl");
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_stand_in_threes() {
        for (value, expect) in [
            ("7", "7"),
            ("4096", "4096"),
            ("25000", "25\u{202f}000"),
            ("100000000000", "100\u{202f}000\u{202f}000\u{202f}000"),
            ("0.6931", "0.6931"),
            ("[32, 1024]", "[32, 1024]"),
        ] {
            assert_eq!(grouped(value), expect);
        }
    }
}
