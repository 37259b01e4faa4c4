//! The legend above the panels, where it covers nothing.

use super::super::{Drawing, Figure, short};
use super::MARGIN;
use super::canvas::{Canvas, PAPER, PLAIN, TextAnchor, text_width};

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
