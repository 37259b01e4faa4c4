//! A figure: curves, claims and notes, and how they are written down.
//!
//! `csv` writes the curves for machines, `svg` draws them, `claims` sets the paper's claims beside
//! ours, `report` puts everything into one page.

mod claims;
mod csv;
pub mod report;
mod svg;

use claims::short;
pub use claims::{claims_csv, claims_table, wrapped};

use serde::Serialize;

/// An axis: what it shows, in which unit.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Axis {
    /// What is shown, such as "item size".
    pub label: String,
    /// Its unit, such as "B" or "GB/s"; empty for a count.
    pub unit: String,
    /// Whether the axis is logarithmic (to the base two or ten, as its values ask).
    pub log: bool,
}

/// One curve, or one group of bars.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Series {
    /// Its name in the legend. A name `panel | name` puts it into a panel of its own, side by side
    /// with the others and with the same axes.
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
    /// Filled areas, one upon the other; x is time.
    Areas,
}

/// A sentence of the paper with a number in it, and ours.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Claim {
    /// What is claimed.
    pub what: String,
    /// Where: section or figure of the paper.
    pub source: String,
    /// The paper's value.
    pub paper: f64,
    /// What we measured.
    pub ours: f64,
    /// The unit of both.
    pub unit: String,
}

/// A value of the paper, in the picture: where a claim is a level or a point that curves may reach.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PaperMark {
    /// The panel that it belongs to; empty: all.
    pub panel: String,
    /// The point's x; none: a level, drawn across the panel.
    pub x: Option<f64>,
    /// The curve that it belongs to, of several bars side by side; empty: none of them.
    pub curve: String,
    /// The value, in the unit of the vertical axis.
    pub y: f64,
}

/// What an experiment gives.
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
    /// Names for the x values of bars, if they are no numbers.
    pub x_names: Vec<String>,
    /// Whether each panel has a vertical axis of its own; its name then says what it shows.
    pub y_per_panel: bool,
    /// The curves.
    pub series: Vec<Series>,
    /// What of the paper is drawn beside them.
    pub paper: Vec<PaperMark>,
    /// The paper's headline claims beside ours.
    pub claims: Vec<Claim>,
    /// What a reader must know: scale, model, what was left out.
    pub notes: Vec<String>,
    /// The seed of the simulator.
    pub seed: u64,
    /// Where the paper makes the claims, as far as they do not say it themselves.
    #[serde(skip)]
    pub source: String,
}

impl Axis {
    /// An axis in even steps.
    pub fn linear(label: &str, unit: &str) -> Self {
        Self {
            label: label.into(),
            unit: unit.into(),
            log: false,
        }
    }

    /// An axis in equal ratios.
    pub fn log(label: &str, unit: &str) -> Self {
        Self {
            log: true,
            ..Self::linear(label, unit)
        }
    }

    /// What is shown, with its unit in brackets.
    pub fn title(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} [{}]", self.label, self.unit)
        }
    }
}

/// A claim whose source is that of its figure, without values yet.
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
    /// The same with the paper's value and ours, both in `unit`.
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

    /// The same with a source of its own.
    #[must_use]
    pub fn at(self, source: &str) -> Self {
        let source = source.into();
        Self { source, ..self }
    }

    /// Ours over the paper's.
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

    /// A point in one panel, or in all.
    pub fn point_in(panel: &str, (x, y): (f64, f64)) -> Self {
        Self {
            x: Some(x),
            ..Self::level_in(panel, y)
        }
    }

    /// The same of one curve.
    #[must_use]
    pub fn of_curve(self, curve: &str) -> Self {
        Self {
            curve: curve.into(),
            ..self
        }
    }
}

impl Series {
    /// A curve of these points.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self {
            name: name.into(),
            points: points.into_iter().collect(),
        }
    }

    /// The same in a panel.
    #[must_use]
    pub fn in_panel(self, panel: &str) -> Self {
        Self {
            name: format!("{panel} | {}", self.name),
            ..self
        }
    }

    /// The panel that it is drawn in, empty if it names none, and its name there.
    pub fn panel(&self) -> (&str, &str) {
        panel_and_name(&self.name)
    }
}

/// The panel that a curve's name names, empty if it names none, and the name within it.
pub fn panel_and_name(name: &str) -> (&str, &str) {
    name.split_once(" | ").unwrap_or(("", name))
}

impl Figure {
    /// A figure without axes and curves yet. Its name and seed are the experiment's, which enters
    /// them.
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

    /// The same with this horizontal axis.
    #[must_use]
    pub fn x(self, x: Axis) -> Self {
        Self { x, ..self }
    }

    /// The same with this vertical axis.
    #[must_use]
    pub fn y(self, y: Axis) -> Self {
        Self { y, ..self }
    }

    /// The same; the paper makes the claims at `source`.
    #[must_use]
    pub fn of(self, source: impl Into<String>) -> Self {
        let source = source.into();
        Self { source, ..self }
    }

    /// Sets claims of the paper beside what was measured.
    pub fn claims(&mut self, claims: impl IntoIterator<Item = Claim>) {
        for mut claim in claims {
            if claim.source.is_empty() {
                claim.source.clone_from(&self.source);
            }
            self.claims.push(claim);
        }
    }

    /// Something that a reader must know.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Every x of any curve, ascending, each once.
    fn xs(&self) -> Vec<f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let mut xs: Vec<f64> = points.map(|&(x, _)| x).collect();
        xs.sort_by(f64::total_cmp);
        xs.dedup();
        xs
    }

    /// The name of an x: the one given, if there is one for the `at`-th, or its number.
    fn x_name(&self, at: usize, x: f64) -> String {
        self.x_names.get(at).cloned().unwrap_or_else(|| number(x))
    }
}

/// A number with six significant digits and no zeros at its end.
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
