//! Plotters' SVG backend in pixels: lines, areas, markers and text.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Okabe and Ito's palette without its yellow, which is hard to see on white: it can be told apart
/// with every kind of colour vision.
const PALETTE: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0x56, 0xb4, 0xe9),
    RGBColor(0x44, 0x44, 0x44),
];

/// Markers differ too, so that colour is not needed to tell curves apart.
const MARKERS: usize = 5;

/// Half widths of markers: the first curves' are larger, so that they show behind others that lie
/// on them.
const MARKER_SIZES: [i32; 3] = [6, 5, 4];

const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

/// Where a text is in respect of its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// It begins there, and its middle is at that height.
    Right,
    /// It ends there, and its middle is at that height.
    Left,
    /// It is centred there and hangs below.
    Below,
    /// It is centred there and reads upwards.
    Upwards,
}

/// How a text looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Text {
    /// A tick's label or a name.
    Plain,
    /// A panel's or axis's name.
    Label,
    /// The figure's.
    Title,
}

/// What is drawn on.
pub struct Canvas<'a>(DrawingArea<SVGBackend<'a>, Shift>);

impl<'a> Canvas<'a> {
    /// A white sheet; the SVG goes to `text` when it is dropped.
    pub fn new(text: &'a mut String, size: (u32, u32)) -> Self {
        let canvas = Self(SVGBackend::with_string(text, size).into_drawing_area());
        // Drawing into a string does not fail, here and below.
        let _ = canvas.0.fill(&WHITE);
        canvas
    }

    /// A line through points.
    pub fn line(&self, points: Vec<(i32, i32)>, style: ShapeStyle) {
        let _ = self.0.draw(&PathElement::new(points, style));
    }

    /// A filled area.
    pub fn area(&self, points: Vec<(i32, i32)>, style: ShapeStyle) {
        let _ = self.0.draw(&Polygon::new(points, style));
    }

    /// A filled rectangle between two corners.
    pub fn bar(&self, corners: [(i32, i32); 2], style: ShapeStyle) {
        let _ = self.0.draw(&Rectangle::new(corners, style));
    }

    /// The marker of the `index`-th curve.
    pub fn marker(&self, (x, y): (i32, i32), index: usize) {
        let r = MARKER_SIZES[index.min(MARKER_SIZES.len() - 1)];
        let style = colour(index).filled();
        match index % MARKERS {
            0 => {
                let _ = self.0.draw(&Circle::new((x, y), r, style));
            }
            1 => self.bar([(x - r, y - r), (x + r, y + r)], style),
            2 => self.area(
                vec![(x, y - r - 1), (x + r + 1, y + r), (x - r - 1, y + r)],
                style,
            ),
            3 => {
                let d = r + 2;
                self.area(vec![(x, y - d), (x + d, y), (x, y + d), (x - d, y)], style);
            }
            _ => {
                let thick = colour(index).stroke_width(3);
                self.line(vec![(x - r, y - r), (x + r, y + r)], thick);
                self.line(vec![(x - r, y + r), (x + r, y - r)], thick);
            }
        }
    }

    /// A text at a point.
    pub fn text(&self, text: &str, at: (i32, i32), look: Text, place: Place) {
        let size = 1.24 * text_size(look);
        let font = (FONT, size).into_font();
        let font = match look {
            Text::Title => font.style(FontStyle::Bold),
            Text::Plain | Text::Label => font,
        };
        let (font, pos) = match place {
            Place::Right => (font, Pos::new(HPos::Left, VPos::Center)),
            Place::Left => (font, Pos::new(HPos::Right, VPos::Center)),
            Place::Below => (font, Pos::new(HPos::Center, VPos::Top)),
            Place::Upwards => (
                font.transform(FontTransform::Rotate270),
                Pos::new(HPos::Center, VPos::Top),
            ),
        };
        let style = TextStyle::from(font).color(&INK).pos(pos);
        let _ = self
            .0
            .draw(&plotters::element::Text::new(text.to_owned(), at, style));
    }
}

/// Text and axes.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);

/// Lines of the grid.
pub const GRID: RGBColor = RGBColor(0xdd, 0xdd, 0xdd);

/// The colour of the `index`-th curve.
pub fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

/// How wide a text comes out, about: half a font height and a bit per character.
pub fn text_width(text: &str, look: Text) -> i32 {
    (text.chars().count() as f64 * text_size(look) * 0.6) as i32
}

fn text_size(look: Text) -> f64 {
    match look {
        Text::Plain => 12.0,
        Text::Label => 13.0,
        Text::Title => 16.0,
    }
}
