//! A figure: curves, claims and notes, and its output formats.
//!
//! `text` makes it of what was measured and of what its table says, `svg` draws the curves. For
//! programs, curves (x, then a column per curve) and claims are comma-separated values (RFC 4180),
//! whose first row has names and units. [`crate::report`] puts everything into one page.

mod svg;
mod text;

pub(crate) use text::{FigureText, Measured, Texts, Values, read, values};

use serde::{Deserialize, Serialize};

/// An axis: a quantity and its unit.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Axis {
    /// The quantity, such as "item size".
    pub label: String,
    /// Its unit, such as "B" or "GB/s"; empty for a count.
    pub unit: String,
    /// Whether the axis is logarithmic (base two or ten, depending on its values).
    pub log: bool,
}

/// One curve, or one group of bars.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend. A name `panel | name` puts the curve into its own panel; panels are
    /// side by side and have the same axes.
    pub name: String,
    /// The points, by x.
    pub points: Vec<(f64, f64)>,
}

/// How a figure is drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Drawing {
    /// Lines with a marker at each point.
    #[default]
    Lines,
    /// Bars side by side, one group per x.
    Bars,
    /// Stacked filled areas; x is time.
    Areas,
}

/// A quantitative claim of the paper, beside our result.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// What is claimed.
    pub what: String,
    /// Section or figure of the paper.
    pub source: String,
    /// The paper's value.
    pub paper: f64,
    /// Our measurement.
    pub ours: f64,
    /// The unit of both values.
    pub unit: String,
}

/// A value of the paper to draw in the figure: a level or a point that curves may reach.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PaperMark {
    /// The panel it is drawn in; empty: all panels.
    pub panel: String,
    /// The point's x; none: a level across the panel.
    pub x: Option<f64>,
    /// The curve it belongs to, where several bars are side by side; empty: none of them.
    pub curve: String,
    /// The value, in the unit of the vertical axis.
    pub y: f64,
}

/// The result of an experiment.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Figure {
    /// The name on the command line, such as "zero-sided-6".
    pub name: String,
    /// A title in words.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// How it is drawn.
    pub drawing: Drawing,
    /// Names for the x values of bars, if they are not numbers.
    pub x_names: Vec<String>,
    /// Whether each panel has its own vertical axis; the panel's name then says what the axis
    /// shows.
    pub y_per_panel: bool,
    /// The curves.
    pub series: Vec<Series>,
    /// Values of the paper drawn beside the curves.
    pub paper: Vec<PaperMark>,
    /// The paper's headline claims beside ours.
    pub claims: Vec<Claim>,
    /// What a reader must know: scale, model, omissions.
    pub notes: Vec<String>,
    /// The seed of the simulator.
    pub seed: u64,
}

impl Axis {
    /// The label, with the unit in brackets.
    pub fn title(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} [{}]", self.label, self.unit)
        }
    }
}

impl Claim {
    /// Our value divided by the paper's.
    pub fn ratio(&self) -> f64 {
        self.ours / self.paper
    }
}

impl Series {
    /// A curve with these points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
        }
    }

    /// Moves the curve into a panel.
    #[must_use]
    pub fn in_panel(self, panel: &str) -> Self {
        Self {
            name: format!("{panel} | {}", self.name),
            ..self
        }
    }

    /// The panel that the curve is drawn in, empty if its name has none, and its name within the
    /// panel.
    pub fn panel(&self) -> (&str, &str) {
        panel_and_name(&self.name)
    }
}

/// Splits a curve's name into its panel, empty if there is none, and the name within the panel.
pub fn panel_and_name(name: &str) -> (&str, &str) {
    name.split_once(" | ").unwrap_or(("", name))
}

impl Figure {
    /// The x values of all curves, ascending, without duplicates.
    fn xs(&self) -> Vec<f64> {
        xs_of(self.series.iter())
    }

    /// The name of an x: the given name of its place if there is one, otherwise its number.
    fn x_name(&self, x: f64) -> String {
        let at = self.xs().iter().position(|&other| other == x);
        let name = at.and_then(|at| self.x_names.get(at));
        name.cloned().unwrap_or_else(|| number(x))
    }
}

/// The x values of some curves, ascending, without duplicates.
fn xs_of<'a>(series: impl Iterator<Item = &'a Series>) -> Vec<f64> {
    let points = series.flat_map(|series| &series.points);
    let mut xs: Vec<f64> = points.map(|&(x, _)| x).collect();
    xs.sort_by(f64::total_cmp);
    xs.dedup();
    xs
}

/// A number with six significant digits and no trailing zeros.
fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let digits_before = value.abs().log10().floor() as i32 + 1;
    let digits_after = (6 - digits_before).clamp(0, 12) as usize;
    let text = format!("{value:.digits_after$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
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
        csv_of(std::iter::once(head).chain(rows))
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
    csv_of(std::iter::once(head.map(str::to_owned).into()).chain(rows))
}

/// Rows of equal length as CSV.
fn csv_of(rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut csv = csv::Writer::from_writer(Vec::new());
    for row in rows {
        csv.write_record(row)
            .expect("memory takes rows of equal length");
    }
    let bytes = csv.into_inner().expect("memory takes all");
    String::from_utf8(bytes).expect("cells are text")
}

#[cfg(test)]
mod tests;
