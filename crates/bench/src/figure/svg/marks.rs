//! What stands for the values: lines with markers, bars side by side, stacked areas.

use super::super::{Drawing, Figure, Series};
use super::Panel;
use super::canvas::{Canvas, colour};
use plotters::style::Color;

impl Figure {
    /// Draws the curves of one panel.
    pub(super) fn marks(&self, canvas: &Canvas<'_>, panel: &Panel, name: &str) {
        match self.drawing {
            Drawing::Lines => self.lines(canvas, panel, name),
            Drawing::Bars => self.bars(canvas, panel, name),
            Drawing::Areas => self.areas(canvas, panel, name),
        }
    }

    fn of_panel(&self, name: &str) -> impl Iterator<Item = &Series> {
        let name = name.to_owned();
        self.series
            .iter()
            .filter(move |series| series.panel().0 == name)
    }

    fn lines(&self, canvas: &Canvas<'_>, panel: &Panel, name: &str) {
        for series in self.of_panel(name) {
            let place = |&(x, y): &(f64, f64)| Some((panel.x_of(x)?, panel.y_of(y)?));
            let points: Vec<(i32, i32)> = series.points.iter().filter_map(place).collect();
            let index = self.colour_of(series);
            canvas.line(points.clone(), colour(index).stroke_width(2));
            for point in points {
                canvas.marker(point, index);
            }
        }
    }

    fn bars(&self, canvas: &Canvas<'_>, panel: &Panel, name: &str) {
        let series: Vec<&Series> = self.of_panel(name).collect();
        let xs = self.xs();
        let group = f64::from(panel.right - panel.left) / xs.len().max(1) as f64;
        // A fifth of each group is air.
        let bar = 0.8 * group / series.len().max(1) as f64;
        for (at, series) in series.iter().enumerate() {
            let style = colour(self.colour_of(series)).filled();
            for (group_at, x) in xs.iter().enumerate() {
                let point = series.points.iter().find(|point| point.0 == *x);
                let Some(top) = point.and_then(|point| panel.y_of(point.1)) else {
                    continue;
                };
                let left =
                    f64::from(panel.left) + group * (group_at as f64 + 0.1) + bar * at as f64;
                let right = (left + bar - 1.0).max(left + 1.0);
                let base = panel.y_of(0.0).unwrap_or(panel.bottom);
                let corners = [(left.round() as i32, top), (right.round() as i32, base)];
                canvas.bar(corners, style);
            }
        }
    }

    fn areas(&self, canvas: &Canvas<'_>, panel: &Panel, name: &str) {
        let stacks = self.stacks(name);
        let xs: Vec<Option<i32>> = self.xs().into_iter().map(|x| panel.x_of(x)).collect();
        let place = |heights: &[f64]| -> Vec<(i32, i32)> {
            let points = xs.iter().zip(heights);
            points
                .filter_map(|(x, &y)| Some(((*x)?, panel.y_of(y)?)))
                .collect()
        };
        let mut below = place(&vec![0.0; xs.len()]);
        for (series, heights) in stacks {
            let line = place(&heights);
            let mut outline = line.clone();
            outline.extend(below.iter().rev());
            let index = self.colour_of(series);
            canvas.area(outline, colour(index).mix(0.75).filled());
            canvas.line(line.clone(), colour(index).stroke_width(1));
            below = line;
        }
    }

    /// Each curve of a panel with its upper edge at every x, the curves before it below it. A curve
    /// without a point at some x has the height of the point before, and none before its first.
    pub(super) fn stacks(&self, name: &str) -> Vec<(&Series, Vec<f64>)> {
        let xs = self.xs();
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
