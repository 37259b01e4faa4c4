//! A figure as a picture: title, legend, one or more panels with axes, curves.
//!
//! The layout is our own, in pixels: plotters' charts know neither panels with one legend nor ticks
//! in binary prefixes.

mod canvas;
mod marks;
mod scale;

use super::{Drawing, Figure, Series};
use canvas::{Canvas, GRID, INK, Place, Text, colour, text_width};
use plotters::style::Color;
use scale::Scale;

const SIZE: (u32, u32) = (900, 560);

/// Left and right of everything.
const MARGIN: i32 = 16;

/// Height of a row of the legend.
const LEGEND_ROW: i32 = 22;

/// Between two panels.
const GAP: i32 = 22;

/// A panel's place on the sheet, and its scales.
struct Panel {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    /// Between the panel's edge and the first tick, so that markers are whole.
    inset: i32,
    x: Scale,
    y: Scale,
}

impl Figure {
    /// The figure as SVG.
    pub fn to_svg(&self) -> String {
        let mut svg = String::new();
        let canvas = Canvas::new(&mut svg, SIZE);
        let (width, height) = (SIZE.0 as i32, SIZE.1 as i32);
        canvas.text(&self.title, (width / 2, 12), Text::Title, Place::Below);
        let top = self.legend(&canvas, width, 44);
        let y_ticks = self.y_scale();
        let label_width = y_ticks
            .ticks
            .iter()
            .map(|(_, label)| text_width(label, Text::Plain));
        let left = MARGIN + 28 + label_width.max().unwrap_or(0);
        let panels = self.panels();
        let count = panels.len().max(1) as i32;
        let panel_width = (width - MARGIN - left - GAP * (count - 1)) / count;
        let named = panels.iter().any(|name| !name.is_empty());
        let top = top + if named { 24 } else { 6 };
        for (at, name) in panels.iter().enumerate() {
            let left = left + at as i32 * (panel_width + GAP);
            let panel = Panel {
                left,
                right: left + panel_width,
                top,
                bottom: height - 62,
                inset: if self.drawing == Drawing::Lines {
                    12
                } else {
                    0
                },
                x: self.x_scale(),
                y: y_ticks.clone(),
            };
            let middle = (left + panel.right) / 2;
            canvas.text(name, (middle, top - 20), Text::Label, Place::Below);
            self.axes(&canvas, &panel, at == 0);
            self.marks(&canvas, &panel, name);
        }
        let middle = (left + width - MARGIN) / 2;
        canvas.text(
            &self.x.title(),
            (middle, height - 28),
            Text::Label,
            Place::Below,
        );
        let middle = (top + height - 62) / 2;
        canvas.text(
            &self.y.title(),
            (MARGIN - 6, middle),
            Text::Label,
            Place::Upwards,
        );
        drop(canvas);
        svg
    }

    /// The panels' names, in order; one without name if no curve names any.
    fn panels(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (panel, _) in self.series.iter().map(Series::panel) {
            if !names.contains(&panel) {
                names.push(panel);
            }
        }
        if names.is_empty() { vec![""] } else { names }
    }

    /// The curves' names, each once: the same name has the same colour in every panel.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for (_, name) in self.series.iter().map(Series::panel) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    fn colour_of(&self, series: &Series) -> usize {
        let name = series.panel().1;
        self.names()
            .iter()
            .position(|&other| other == name)
            .unwrap_or(0)
    }

    /// Draws the legend in as many rows as it takes, centred; returns where it ends.
    fn legend(&self, canvas: &Canvas<'_>, width: i32, top: i32) -> i32 {
        const SWATCH: i32 = 30;
        const SPACE: i32 = 20;
        let names = self.names();
        let entry = |name: &str| SWATCH + text_width(name, Text::Plain) + SPACE;
        let mut rows: Vec<Vec<usize>> = vec![Vec::new()];
        let mut used = 0;
        for (at, name) in names.iter().enumerate() {
            if used > 0 && used + entry(name) > width - 2 * MARGIN {
                rows.push(Vec::new());
                used = 0;
            }
            used += entry(name);
            rows.last_mut().expect("there is a row").push(at);
        }
        let mut y = top + LEGEND_ROW / 2;
        for row in &rows {
            let row_width: i32 = row.iter().map(|&at| entry(names[at])).sum();
            let mut x = (width - row_width + SPACE) / 2;
            for &at in row {
                match self.drawing {
                    Drawing::Lines => {
                        let line = vec![(x, y), (x + SWATCH - 6, y)];
                        canvas.line(line, colour(at).stroke_width(2));
                        canvas.marker((x + SWATCH / 2 - 3, y), at);
                    }
                    Drawing::Bars | Drawing::Areas => {
                        let corners = [(x + 8, y - 6), (x + 22, y + 6)];
                        canvas.bar(corners, colour(at).filled());
                    }
                }
                canvas.text(names[at], (x + SWATCH, y), Text::Plain, Place::Right);
                x += entry(names[at]);
            }
            y += LEGEND_ROW;
        }
        y - LEGEND_ROW / 2
    }

    fn axes(&self, canvas: &Canvas<'_>, panel: &Panel, with_labels: bool) {
        for (value, label) in &panel.y.ticks {
            let Some(y) = panel.y_of(*value) else {
                continue;
            };
            canvas.line(
                vec![(panel.left, y), (panel.right, y)],
                GRID.stroke_width(1),
            );
            if with_labels {
                canvas.text(label, (panel.left - 6, y), Text::Plain, Place::Left);
            }
        }
        if self.drawing == Drawing::Bars {
            let xs = self.xs();
            for (at, &x) in xs.iter().enumerate() {
                let middle = panel.left
                    + (panel.right - panel.left) * (2 * at as i32 + 1) / (2 * xs.len() as i32);
                let name = self.x_name(at, x);
                canvas.text(&name, (middle, panel.bottom + 8), Text::Plain, Place::Below);
            }
        } else {
            self.x_ticks(canvas, panel);
        }
        canvas.line(
            vec![
                (panel.left, panel.top),
                (panel.left, panel.bottom),
                (panel.right, panel.bottom),
            ],
            INK.stroke_width(1),
        );
    }

    /// Ticks below a panel; labels that would touch their neighbours are left out.
    fn x_ticks(&self, canvas: &Canvas<'_>, panel: &Panel) {
        let mut free = i32::MIN;
        for (value, label) in &panel.x.ticks {
            let Some(x) = panel.x_of(*value) else {
                continue;
            };
            canvas.line(
                vec![(x, panel.top), (x, panel.bottom)],
                GRID.stroke_width(1),
            );
            canvas.line(
                vec![(x, panel.bottom), (x, panel.bottom + 4)],
                INK.stroke_width(1),
            );
            let half = text_width(label, Text::Plain) / 2 + 3;
            if x - half >= free {
                canvas.text(label, (x, panel.bottom + 8), Text::Plain, Place::Below);
                free = x + half;
            }
        }
    }

    fn x_scale(&self) -> Scale {
        Scale::new(&self.x, self.xs().into_iter(), false)
    }

    /// The vertical scale, the same for all panels. Areas stand one upon the other.
    fn y_scale(&self) -> Scale {
        let values: Vec<f64> = match self.drawing {
            Drawing::Lines | Drawing::Bars => {
                let points = self.series.iter().flat_map(|series| &series.points);
                points.map(|&(_, y)| y).collect()
            }
            Drawing::Areas => {
                let panels = self.panels();
                let stacks = panels.iter().flat_map(|panel| self.stacks(panel));
                stacks.flat_map(|stack| stack.1).collect()
            }
        };
        Scale::new(&self.y, values.into_iter(), true)
    }
}

impl Panel {
    fn x_of(&self, value: f64) -> Option<i32> {
        let at = self.x.place(value)?;
        let width = f64::from(self.right - self.left - 2 * self.inset);
        Some(self.left + self.inset + (at * width).round() as i32)
    }

    fn y_of(&self, value: f64) -> Option<i32> {
        let at = self.y.place(value)?;
        Some(self.bottom - (at * f64::from(self.bottom - self.top)).round() as i32)
    }
}
