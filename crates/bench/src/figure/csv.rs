//! Comma-separated values (RFC 4180), whose first row has names and units: curves (x, then a column
//! per curve), and all claims.

use super::{Figure, number, ratio};

impl Figure {
    /// The curves as CSV. A curve without a point at some x has an empty cell there.
    pub fn to_csv(&self) -> String {
        let unit = |name: &str| match self.y.unit.as_str() {
            "" => name.to_owned(),
            unit => format!("{name} [{unit}]"),
        };
        let names = self.series.iter().map(|series| unit(&series.name));
        let head = std::iter::once(self.x.title()).chain(names).collect();
        let rows = self.xs().into_iter().map(|x| {
            let cells = self.series.iter().map(|series| {
                let point = series.points.iter().find(|point| point.0 == x);
                point.map_or_else(String::new, |point| number(point.1))
            });
            std::iter::once(self.x_name(x)).chain(cells).collect()
        });
        text(std::iter::once(head).chain(rows))
    }
}

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
    text(std::iter::once(head.map(str::to_owned).into()).chain(rows))
}

/// Rows of equal length as text.
fn text(rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for row in rows {
        csv.write_record(row)
            .expect("memory takes rows of equal length");
    }
    let bytes = csv.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("cells are text")
}
