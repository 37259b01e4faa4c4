//! The marks that represent values: lines with markers, bars side by side, stacked areas; the
//! paper's values; and the legend above the panels, where it covers nothing.

use super::super::{Drawing, Figure, PaperMark, Series, number, short};
use super::canvas::{Canvas, PAPER, PLAIN, Point, SMALL, TextAnchor, text_width};
use super::{MARGIN, Panel};

/// Maximum width of a bar.
const BAR_MAX: f64 = 90.0;

struct GroupBar<'a> {
    series: &'a Series,
    y: f64,
    left: f64,
    right: f64,
}

/// Curves with more points than this have markers at only some of them.
const MARKERS_MAX: usize = 30;

impl Figure {
    pub(super) fn marks(&self, canvas: &mut Canvas, panel: &Panel, name: &str) {
        match self.drawing {
            Drawing::Lines => self.draw_lines(canvas, panel, name),
            Drawing::Bars => self.draw_bars(canvas, panel, name),
            Drawing::Areas => self.draw_areas(canvas, panel, name),
        }
    }

    /// Draws the paper's values of one panel: a line for a level, a ring for a point.
    pub(super) fn paper_marks(&self, canvas: &mut Canvas, panel: &Panel, name: &str) {
        let marks = self.paper.iter();
        for mark in marks.filter(|mark| mark.panel.is_empty() || mark.panel == name) {
            let value = format!("paper: {}", short(mark.y, &self.y.unit));
            match mark.x {
                None => {
                    let Some(y) = panel.y_of(mark.y) else {
                        continue;
                    };
                    canvas.rule(&[(panel.left, y), (panel.right, y)], PAPER);
                }
                Some(x) => {
                    let place = match self.drawing {
                        Drawing::Bars => self.bar_middle(panel, name, mark).zip(panel.y_of(mark.y)),
                        _ => panel.place((x, mark.y)),
                    };
                    if let Some(place) = place {
                        canvas.ring(place, &value);
                    }
                }
            }
        }
    }

    /// The middle of the bar that a value of the paper belongs to, or of its whole group.
    fn bar_middle(&self, panel: &Panel, name: &str, mark: &PaperMark) -> Option<i32> {
        let group_at = panel.xs.iter().position(|&x| Some(x) == mark.x)?;
        let bars = self.group(panel, name, group_at);
        let of_curve = |bar: &&GroupBar<'_>| bar.series.panel().1 == mark.curve;
        let (left, right) = match bars.iter().find(of_curve) {
            Some(bar) => (bar.left, bar.right),
            None => (bars.first()?.left, bars.last()?.right),
        };
        Some(((left + right) / 2.0).round() as i32)
    }

    /// The bars of a group; a curve without a value there takes no space.
    fn group<'a>(&'a self, panel: &Panel, name: &str, group_at: usize) -> Vec<GroupBar<'a>> {
        let width = f64::from(panel.right - panel.left) / panel.xs.len().max(1) as f64;
        let x = panel.xs[group_at];
        let there: Vec<(&Series, f64)> = self
            .of_panel(name)
            .filter_map(|series| {
                let point = series.points.iter().find(|point| point.0 == x)?;
                Some((series, point.1))
            })
            .collect();
        // A fifth of each group is empty; bars are never so wide that they look like areas.
        let bar = (0.8 * width / there.len().max(1) as f64).min(BAR_MAX);
        let middle = f64::from(panel.left) + width * (group_at as f64 + 0.5);
        let first = middle - bar * there.len() as f64 / 2.0;
        let placed = there.into_iter().enumerate();
        let placed = placed.map(|(at, (series, y))| {
            let left = first + bar * at as f64;
            GroupBar {
                series,
                y,
                left,
                right: (left + bar - 1.0).max(left + 1.0),
            }
        });
        placed.collect()
    }

    fn tip(&self, series: &Series, x: &str, y: f64) -> String {
        let (unit, name) = (&self.y.unit, series.panel().1);
        format!("{name}, {}: {x}: {} {unit}", self.x.title(), number(y))
    }

    fn draw_lines(&self, canvas: &mut Canvas, panel: &Panel, name: &str) {
        for series in self.of_panel(name) {
            let index = self.colour_of(series);
            let placed = |&point: &(f64, f64)| Some((panel.place(point)?, point));
            let points: Vec<(Point, (f64, f64))> =
                series.points.iter().filter_map(placed).collect();
            let line: Vec<Point> = points.iter().map(|point| point.0).collect();
            canvas.line(&line, index);
            let step = points.len().div_ceil(MARKERS_MAX).max(1);
            for (place, (x, y)) in points.into_iter().step_by(step) {
                canvas.marker(place, index, &self.tip(series, &number(x), y));
            }
        }
    }

    fn draw_bars(&self, canvas: &mut Canvas, panel: &Panel, name: &str) {
        for (group_at, x) in panel.xs.iter().enumerate() {
            let x_name = self.x_name(*x);
            for bar in self.group(panel, name, group_at) {
                let Some(top) = panel.y_of(bar.y) else {
                    continue;
                };
                let base = panel.y_of(0.0).unwrap_or(panel.bottom);
                let (left, right) = (bar.left.round() as i32, bar.right.round() as i32);
                let index = self.colour_of(bar.series);
                let tip = self.tip(bar.series, &x_name, bar.y);
                canvas.bar([(left, top), (right, base)], index, &tip);
                let value = short(bar.y, "");
                if text_width(&value, SMALL) < right - left - 1 {
                    let middle = (left + right) / 2;
                    canvas.text(&value, (middle, top - 15), SMALL, TextAnchor::Below);
                }
            }
        }
    }

    fn draw_areas(&self, canvas: &mut Canvas, panel: &Panel, name: &str) {
        let stacks = self.stacks(name);
        let place = |heights: &[f64]| -> Vec<Point> {
            let points = panel.xs.iter().zip(heights);
            points.filter_map(|(&x, &y)| panel.place((x, y))).collect()
        };
        let mut below = place(&vec![0.0; panel.xs.len()]);
        for (series, heights) in stacks {
            let line = place(&heights);
            let mut outline = line.clone();
            outline.extend(below.iter().rev());
            canvas.area(&outline, self.colour_of(series));
            below = line;
        }
    }

    /// Each curve of a panel with its upper edge at every x, stacked on the preceding curves. A
    /// curve without a point at some x has the height of its preceding point, and none before its
    /// first.
    pub(super) fn stacks(&self, name: &str) -> Vec<(&Series, Vec<f64>)> {
        let xs = self.xs_of(name);
        let mut heights = vec![0.0; xs.len()];
        let mut stacks = Vec::new();
        for series in self.of_panel(name) {
            let mut points = series.points.clone();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            for (height, x) in heights.iter_mut().zip(&xs) {
                let before = points.partition_point(|point| point.0 <= *x);
                *height += before.checked_sub(1).map_or(0.0, |at| points[at].1);
            }
            stacks.push((series, heights.clone()));
        }
        stacks
    }
}

/// Its upper edge, below the title.
pub const TOP: i32 = 42;

const ROW: i32 = 23;

const SWATCH: i32 = 38;
const SPACE: i32 = 22;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// The curve with this number.
    Curve(usize),
    /// Levels and points of the paper.
    PaperLevel,
    PaperPoint,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Entry(Kind, String);

impl Entry {
    fn width(&self) -> i32 {
        SWATCH + text_width(&self.1, PLAIN) + SPACE
    }
}

impl Figure {
    fn entries(&self) -> Vec<Entry> {
        let names = self.names().into_iter().enumerate();
        let curve = |(at, name): (usize, &str)| Entry(Kind::Curve(at), name.to_owned());
        let mut entries: Vec<Entry> = names.map(curve).collect();
        for (kind, is_point) in [(Kind::PaperLevel, false), (Kind::PaperPoint, true)] {
            let marks = self
                .paper
                .iter()
                .filter(|mark| mark.x.is_some() == is_point);
            let mut values: Vec<String> = marks.map(|mark| short(mark.y, &self.y.unit)).collect();
            values.dedup();
            if !values.is_empty() {
                entries.push(Entry(kind, format!("paper: {}", values.join(", "))));
            }
        }
        entries
    }

    fn legend_rows(&self, width: i32) -> Vec<Vec<Entry>> {
        let mut rows: Vec<Vec<Entry>> = Vec::new();
        let mut used = width;
        for entry in self.entries() {
            if used + entry.width() > width - 2 * MARGIN {
                rows.push(Vec::new());
                used = 0;
            }
            used += entry.width();
            if let Some(row) = rows.last_mut() {
                row.push(entry);
            }
        }
        rows
    }

    pub(super) fn legend_height(&self, width: i32) -> i32 {
        self.legend_rows(width).len() as i32 * ROW
    }

    /// Draws the legend, centred.
    pub(super) fn legend(&self, canvas: &mut Canvas, width: i32) {
        let mut y = TOP + ROW / 2;
        for row in self.legend_rows(width) {
            let row_width: i32 = row.iter().map(Entry::width).sum();
            let mut x = (width - row_width + SPACE) / 2;
            for entry in row {
                let end = x + SWATCH - 8;
                match entry.0 {
                    Kind::Curve(at) if self.drawing == Drawing::Lines => {
                        canvas.line(&[(x, y), (end, y)], at);
                        canvas.marker(((x + end) / 2, y), at, "");
                    }
                    Kind::Curve(at) => canvas.bar([(x + 12, y - 7), (end, y + 7)], at, ""),
                    Kind::PaperLevel => canvas.rule(&[(x, y), (end, y)], PAPER),
                    Kind::PaperPoint => canvas.ring((end - 12, y), ""),
                }
                canvas.text(&entry.1, (x + SWATCH, y), PLAIN, TextAnchor::Right);
                x += entry.width();
            }
            y += ROW;
        }
    }
}
