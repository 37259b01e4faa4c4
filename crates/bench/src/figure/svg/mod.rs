//! A figure as a picture: title, legend, one or more panels with axes and curves, and the paper's
//! values at their positions.
//!
//! The layout is our own, in pixels: panels share one legend, ticks have binary prefixes.

mod canvas;
mod marks;
mod scale;

use super::{Drawing, Figure, Series, xs_of};
use canvas::{AXIS, Canvas, GRID, LABEL, PLAIN, Point, TITLE, TextAnchor, text_width};
use scale::Scale;

const WIDTH: i32 = 900;

/// Height of a row of panels with its surroundings: of a single row, and of each of several.
const ROW: [i32; 2] = [440, 320];

/// Margin on the left and right of the sheet.
const MARGIN: i32 = 16;

/// Gap between two panels, and before a panel with its own labels.
const GAP: i32 = 24;

/// Height below a panel: tick labels and the axis name.
const BELOW: i32 = 60;

/// Maximum number of panels side by side; four are two rows of two.
const COLUMNS: usize = 3;

/// A panel's position on the sheet, and its scales.
struct Panel {
    left: i32,
    right: i32,
    top: i32,
    bottom: i32,
    /// Distance between the panel's edge and the first tick, so that markers are not clipped.
    inset: i32,
    /// Its values on the horizontal axis, ascending.
    xs: Vec<f64>,
    x: Scale,
    y: Scale,
}

impl Figure {
    /// The figure as SVG.
    pub fn to_svg(&self) -> String {
        let panels = self.panels();
        let columns = match panels.len() {
            4 => 2,
            count => count.clamp(1, COLUMNS),
        };
        let rows = panels.len().div_ceil(columns);
        let row_height = ROW[usize::from(rows > 1)];
        let top = marks::TOP + self.legend_height(WIDTH);
        let bottom = top + rows as i32 * row_height;
        let mut canvas = Canvas::new(&self.name, &self.title, (WIDTH, bottom));
        canvas.text(&self.title, (WIDTH / 2, 12), TITLE, TextAnchor::Below);
        self.legend(&mut canvas, WIDTH);
        let scales: Vec<Scale> = panels
            .iter()
            .map(|name| self.y_scale(&panels, name))
            .collect();
        let labels = scales.iter().flat_map(|scale| &scale.ticks);
        let widths = labels.map(|(_, label)| text_width(label, PLAIN));
        let label_width = widths.max().unwrap_or(0) + 10;
        // The axis name, unless each panel's name says what its axis shows.
        let axis_name = if self.y_per_panel { 0 } else { 22 };
        let gap = GAP + if self.y_per_panel { label_width } else { 0 };
        let left = MARGIN + axis_name + label_width;
        let width = (WIDTH - MARGIN - left - gap * (columns as i32 - 1)) / columns as i32;
        for (at, (name, y)) in panels.iter().zip(scales).enumerate() {
            let (row, column) = ((at / columns) as i32, at % columns);
            let left = left + column as i32 * (width + gap);
            let head = top + row * row_height;
            let panel = Panel {
                left,
                right: left + width,
                top: head + if name.is_empty() { 10 } else { 32 },
                bottom: head + row_height - BELOW,
                inset: 12 * i32::from(self.drawing == Drawing::Lines),
                xs: self.xs_of(name),
                x: Scale::across(&self.x, self.xs_of(name).into_iter()),
                y,
            };
            let middle = (left + panel.right) / 2;
            canvas.text(name, (middle, head + 8), LABEL, TextAnchor::Below);
            self.axes(&mut canvas, &panel, column == 0 || self.y_per_panel);
            self.marks(&mut canvas, &panel, name);
            self.paper_marks(&mut canvas, &panel, name);
        }
        let middle = (left + WIDTH - MARGIN) / 2;
        let (x, y) = (self.x.title(), self.y.title());
        canvas.text(&x, (middle, bottom - 26), LABEL, TextAnchor::Below);
        if !self.y_per_panel {
            let place = (MARGIN - 8, (top + bottom - BELOW) / 2);
            canvas.text(&y, place, LABEL, TextAnchor::Upwards);
        }
        canvas.finish()
    }

    /// The panels' names, in order; one empty name if no curve names a panel.
    fn panels(&self) -> Vec<&str> {
        let names = self.series.iter().map(|series| series.panel().0);
        let names = each_once(names);
        if names.is_empty() { vec![""] } else { names }
    }

    /// The curves' names, without duplicates: the same name has the same colour in every panel.
    fn names(&self) -> Vec<&str> {
        each_once(self.series.iter().map(|series| series.panel().1))
    }

    fn colour_of(&self, series: &Series) -> usize {
        let name = series.panel().1;
        let names = self.names();
        names.iter().position(|&other| other == name).unwrap_or(0)
    }

    fn of_panel(&self, name: &str) -> impl Iterator<Item = &Series> {
        let name = name.to_owned();
        let all = self.series.iter();
        all.filter(move |series| series.panel().0 == name)
    }

    /// The x values of a panel, ascending, without duplicates.
    fn xs_of(&self, name: &str) -> Vec<f64> {
        xs_of(self.of_panel(name))
    }

    fn axes(&self, canvas: &mut Canvas, panel: &Panel, with_labels: bool) {
        for (value, label) in &panel.y.ticks {
            let Some(y) = panel.y_of(*value) else {
                continue;
            };
            canvas.rule(&[(panel.left, y), (panel.right, y)], GRID);
            if with_labels {
                canvas.text(label, (panel.left - 6, y), PLAIN, TextAnchor::Left);
            }
        }
        if self.drawing == Drawing::Bars {
            self.x_names(canvas, panel);
        } else {
            x_ticks(canvas, panel);
        }
        let corner = (panel.left, panel.bottom);
        canvas.rule(
            &[(panel.left, panel.top), corner, (panel.right, panel.bottom)],
            AXIS,
        );
    }

    /// A name below each group of bars, in several lines if it is long.
    fn x_names(&self, canvas: &mut Canvas, panel: &Panel) {
        let group = (panel.right - panel.left) / panel.xs.len().max(1) as i32;
        for (at, &x) in panel.xs.iter().enumerate() {
            let middle = panel.left + (2 * at as i32 + 1) * group / 2;
            let mut y = panel.bottom + 6;
            for line in broken(&self.x_name(x), group) {
                canvas.text(&line, (middle, y), PLAIN, TextAnchor::Below);
                y += 14;
            }
        }
    }

    /// The vertical scale of a panel: shared by all panels, or its own.
    fn y_scale(&self, panels: &[&str], name: &str) -> Scale {
        let own = [name];
        let shown = if self.y_per_panel { &own[..] } else { panels };
        let mut values: Vec<f64> = match self.drawing {
            Drawing::Lines | Drawing::Bars => {
                let series = shown.iter().flat_map(|panel| self.of_panel(panel));
                let points = series.flat_map(|series| &series.points);
                points.map(|point| point.1).collect()
            }
            Drawing::Areas => {
                let stacks = shown.iter().flat_map(|panel| self.stacks(panel));
                stacks.flat_map(|stack| stack.1).collect()
            }
        };
        let paper = self.paper.iter();
        let paper = paper.filter(|mark| mark.panel.is_empty() || shown.contains(&&*mark.panel));
        values.extend(paper.map(|mark| mark.y));
        Scale::upwards(&self.y, values.into_iter())
    }
}

/// Ticks below a panel; labels that would touch their neighbours are left out.
fn x_ticks(canvas: &mut Canvas, panel: &Panel) {
    let mut free = i32::MIN;
    for (value, label) in &panel.x.ticks {
        let Some(x) = panel.x_of(*value) else {
            continue;
        };
        canvas.rule(&[(x, panel.top), (x, panel.bottom)], GRID);
        canvas.rule(&[(x, panel.bottom), (x, panel.bottom + 4)], AXIS);
        let half = text_width(label, PLAIN) / 2 + 3;
        if x - half >= free {
            canvas.text(label, (x, panel.bottom + 8), PLAIN, TextAnchor::Below);
            free = x + half;
        }
    }
}

/// Breaks a name between words into lines that fit `width`.
fn broken(name: &str, width: i32) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(last) if text_width(&format!("{last} {word}"), PLAIN) <= width => {
                last.push(' ');
                last.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn each_once<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut once: Vec<&str> = Vec::new();
    for name in names {
        if !once.contains(&name) {
            once.push(name);
        }
    }
    once
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

    fn place(&self, (x, y): (f64, f64)) -> Option<Point> {
        Some((self.x_of(x)?, self.y_of(y)?))
    }
}
