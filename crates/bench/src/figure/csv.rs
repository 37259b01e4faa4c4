//! Curves as comma-separated values (RFC 4180): x, then a column per curve; the first row has names
//! and units.

use super::{Figure, number};

impl Figure {
    /// The curves as CSV. A curve without a point at some x has an empty cell there.
    pub fn to_csv(&self) -> String {
        let mut csv = String::new();
        let unit = |name: &str| match self.y.unit.as_str() {
            "" => name.to_owned(),
            unit => format!("{name} [{unit}]"),
        };
        let names = self.series.iter().map(|series| unit(&series.name));
        row(&mut csv, std::iter::once(self.x.title()).chain(names));
        for (at, x) in self.xs().into_iter().enumerate() {
            let cells = self.series.iter().map(|series| {
                let point = series.points.iter().find(|point| point.0 == x);
                point.map_or_else(String::new, |point| number(point.1))
            });
            row(&mut csv, std::iter::once(self.x_name(at, x)).chain(cells));
        }
        csv
    }
}

/// Appends a row.
pub(super) fn row(csv: &mut String, cells: impl Iterator<Item = String>) {
    for (at, cell) in cells.enumerate() {
        if at > 0 {
            csv.push(',');
        }
        if cell.contains([',', '"', '\n', '\r']) {
            csv.push('"');
            csv.push_str(&cell.replace('"', "\"\""));
            csv.push('"');
        } else {
            csv.push_str(&cell);
        }
    }
    csv.push('\n');
}
