//! The papers' claims beside our results: in words, and as CSV.

use super::{Claim, Figure, csv, number};

/// All claims as CSV: what | unit | paper | ours | ratio | source.
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

/// A value with three significant digits and its unit.
pub fn short(value: f64, unit: &str) -> String {
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
pub fn ratio(claim: &Claim) -> String {
    let ratio = claim.ratio();
    match ratio.abs() {
        size if !size.is_finite() => "-".to_owned(),
        size if size >= 100.0 => format!("{ratio:.0}"),
        size if size >= 10.0 => format!("{ratio:.1}"),
        size if size >= 0.1 || size == 0.0 => format!("{ratio:.2}"),
        _ => short(ratio, "").trim_end_matches('0').to_owned(),
    }
}
