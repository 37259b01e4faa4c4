//! A figure: curves, claims and notes, and its output formats.
//!
//! `csv` writes the curves for programs, `svg` draws them, `claims` tabulates the paper's claims
//! beside our results. [`crate::report`] puts everything into one page.

mod claims;
mod csv;
mod svg;

pub use claims::{claims_csv, claims_table, wrapped};
pub(crate) use claims::{ratio, short};

use serde::Serialize;

/// An axis: a quantity and its unit.
#[derive(Clone, PartialEq, Debug, Serialize)]
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
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Drawing {
    /// Lines with a marker at each point.
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
    /// Source of the claims that do not name one of their own.
    #[serde(skip)]
    pub source: String,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self {
            label: label.into(),
            unit: unit.into(),
            log: false,
        }
    }

    /// A logarithmic axis.
    pub fn log(label: &str, unit: &str) -> Self {
        Self {
            log: true,
            ..Self::linear(label, unit)
        }
    }

    /// The label, with the unit in brackets.
    pub fn title(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} [{}]", self.label, self.unit)
        }
    }
}

/// A claim with its figure's source and no values yet.
pub fn claim(what: impl Into<String>) -> Claim {
    Claim {
        what: what.into(),
        source: String::new(),
        paper: f64::NAN,
        ours: f64::NAN,
        unit: String::new(),
    }
}

impl Claim {
    /// Sets the paper's value and ours, both in `unit`.
    #[must_use]
    pub fn values(self, [paper, ours]: [f64; 2], unit: &str) -> Self {
        let unit = unit.into();
        Self {
            paper,
            ours,
            unit,
            ..self
        }
    }

    /// Sets a source that differs from the figure's.
    #[must_use]
    pub fn at(self, source: &str) -> Self {
        let source = source.into();
        Self { source, ..self }
    }

    /// Our value divided by the paper's.
    pub fn ratio(&self) -> f64 {
        self.ours / self.paper
    }
}

impl PaperMark {
    /// A level in all panels.
    pub fn level(y: f64) -> Self {
        Self::level_in("", y)
    }

    /// A level in one panel.
    pub fn level_in(panel: &str, y: f64) -> Self {
        Self {
            panel: panel.into(),
            x: None,
            curve: String::new(),
            y,
        }
    }

    /// A point in one panel, or in all panels if `panel` is empty.
    pub fn point_in(panel: &str, (x, y): (f64, f64)) -> Self {
        Self {
            x: Some(x),
            ..Self::level_in(panel, y)
        }
    }

    /// Assigns the mark to one curve.
    #[must_use]
    pub fn of_curve(self, curve: &str) -> Self {
        Self {
            curve: curve.into(),
            ..self
        }
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
    /// A figure without axes and curves. Its name and seed are set later by the experiment.
    fn new(title: impl Into<String>, drawing: Drawing) -> Self {
        Self {
            name: String::new(),
            title: title.into(),
            x: Axis::linear("", ""),
            y: Axis::linear("", ""),
            drawing,
            x_names: Vec::new(),
            y_per_panel: false,
            series: Vec::new(),
            paper: Vec::new(),
            claims: Vec::new(),
            notes: Vec::new(),
            seed: 0,
            source: String::new(),
        }
    }

    /// A figure of lines.
    pub fn lines(title: impl Into<String>) -> Self {
        Self::new(title, Drawing::Lines)
    }

    /// A figure of bars.
    pub fn bars(title: impl Into<String>) -> Self {
        Self::new(title, Drawing::Bars)
    }

    /// A figure of stacked areas.
    pub fn areas(title: impl Into<String>) -> Self {
        Self::new(title, Drawing::Areas)
    }

    /// Sets the horizontal axis.
    #[must_use]
    pub fn x(self, x: Axis) -> Self {
        Self { x, ..self }
    }

    /// Sets the vertical axis.
    #[must_use]
    pub fn y(self, y: Axis) -> Self {
        Self { y, ..self }
    }

    /// Sets `source`, the part of the paper that makes the claims.
    #[must_use]
    pub fn of(self, source: impl Into<String>) -> Self {
        let source = source.into();
        Self { source, ..self }
    }

    /// Adds claims of the paper beside the measurements.
    pub fn claims(&mut self, claims: impl IntoIterator<Item = Claim>) {
        for mut claim in claims {
            if claim.source.is_empty() {
                claim.source.clone_from(&self.source);
            }
            self.claims.push(claim);
        }
    }

    /// Adds something that a reader must know.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// The x values of all curves, ascending, without duplicates.
    fn xs(&self) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut xs: Vec<f64> = points.map(|&(x, _)| x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// The name of an x: the `at`-th given name if there is one, otherwise its number.
    fn x_name(&self, at: usize, x: f64) -> String {
        self.x_names.get(at).cloned().unwrap_or_else(|| number(x))
    }
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

#[cfg(test)]
mod tests;
