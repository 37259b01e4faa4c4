//! SVG in pixels: lines, areas, bars, markers and text, and how curves are distinguished.
//!
//! Elements that carry no data have their own class (`sheet`, `grid`, `ink`, `halo`) beside their
//! colour, so that an enclosing page can recolour them in dark mode.

/// Okabe and Ito's palette without its yellow, which is hard to see on white, and a grey. The
/// colours can be distinguished with every kind of colour vision.
const PALETTE: [&str; 7] = [
    "#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#56B4E9", "#444444",
];

/// Lines also differ in their dashes: where curves overlap all of them show, and curves can be
/// distinguished without colour.
const DASHES: [&str; 4] = ["", "9 4", "3 3", "11 3 2 3"];

/// Number of hatchings; bars and areas differ in their hatching.
const HATCHES: usize = 4;

/// Number of marker shapes; markers differ in their shape.
const MARKERS: usize = 5;

/// Half widths of markers: the first curves' are larger, so that they show behind markers that
/// cover them.
const MARKER_SIZES: [i32; 3] = [6, 5, 4];

const FONT: &str = "DejaVu Sans, Verdana, sans-serif";

/// Colour of text and axes.
const INK: &str = "#222222";

pub type Point = (i32, i32);

/// Position of a text relative to its point.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextAnchor {
    /// To the right of the point, vertically centred.
    Right,
    /// To the left of the point, vertically centred.
    Left,
    /// Below the point, horizontally centred.
    Below,
    /// Centred on the point and read upwards.
    Upwards,
}

/// The style of a text.
#[derive(Clone, Copy)]
pub struct Text {
    size: i32,
    class: &'static str,
    more: &'static str,
}

/// A value at a bar or at a line: a halo separates it from its background.
pub const SMALL: Text = Text {
    size: 11,
    class: "ink halo",
    more: r##" stroke="#FFFFFF" stroke-width="3" paint-order="stroke""##,
};
/// A tick's label or a name.
pub const PLAIN: Text = Text { size: 13, ..LABEL };
/// A panel's or axis's name.
pub const LABEL: Text = Text {
    size: 14,
    class: "ink",
    more: "",
};
/// The figure's title.
pub const TITLE: Text = Text {
    size: 17,
    more: r#" font-weight="bold""#,
    ..LABEL
};

/// Class, colour and further attributes of a line that carries no curve.
pub type Rule = (&'static str, &'static str, &'static str);

/// An axis or a tick.
pub const AXIS: Rule = ("ink", INK, "");
/// A line of the grid.
pub const GRID: Rule = ("grid", "#DDDDDD", "");
/// A value of the paper.
pub const PAPER: Rule = ("ink", INK, r#" stroke-width="2" stroke-dasharray="2 4""#);

pub struct Canvas {
    svg: String,
    /// Prefix of the ids that the picture defines, so that one page can hold several pictures.
    name: String,
}

impl Canvas {
    /// A white sheet of `size` for the figure `name`.
    pub fn new(name: &str, title: &str, (width, height): Point) -> Self {
        let (name, title) = (escaped(name), escaped(title));
        let hatch = |at: usize, angle: i32, shape: &str| {
            format!(
                "<pattern id=\"{name}-{at}\" width=\"8\" height=\"8\" \
                 patternUnits=\"userSpaceOnUse\" patternTransform=\"rotate({angle})\">{shape}\
                 </pattern>"
            )
        };
        let stripe = r##"<rect width="2" height="8" fill="#FFFFFF" fill-opacity="0.5"/>"##;
        let dot = r##"<circle cx="3" cy="3" r="1.6" fill="#FFFFFF" fill-opacity="0.55"/>"##;
        let hatches = [
            hatch(1, 45, stripe),
            hatch(2, 0, dot),
            hatch(3, 135, stripe),
        ];
        let size = format!("width=\"{width}\" height=\"{height}\"");
        let head = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" {size} viewBox=\"0 0 {width} {height}\" \
             font-family=\"{FONT}\" role=\"img\" aria-label=\"{title}\">"
        );
        let sheet = format!(r##"<rect class="sheet" {size} fill="#FFFFFF"/>"##);
        let mut canvas = Self {
            svg: String::new(),
            name,
        };
        canvas.put(&head);
        canvas.put("<defs>");
        hatches.iter().for_each(|hatch| canvas.put(hatch));
        canvas.put("</defs>");
        canvas.put(&sheet);
        canvas
    }

    pub fn finish(mut self) -> String {
        self.put("</svg>");
        self.svg
    }

    fn put(&mut self, element: &str) {
        self.svg.push_str(element);
        self.svg.push('\n');
    }

    /// A line that carries no curve.
    pub fn rule(&mut self, points: &[Point], (class, colour, more): Rule) {
        let (class, points) = (format!(r#"class="{class}" fill="none""#), list(points));
        self.put(&format!(
            r#"<polyline {class} stroke="{colour}"{more} points="{points}"/>"#
        ));
    }

    /// The line of the `index`-th curve.
    pub fn line(&mut self, points: &[Point], index: usize) {
        let dash = match DASHES[index % DASHES.len()] {
            "" => String::new(),
            dash => format!(r#" stroke-dasharray="{dash}""#),
        };
        let (colour, points) = (colour(index), list(points));
        self.put(&format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             stroke-linejoin=\"round\"{dash} points=\"{points}\"/>"
        ));
    }

    /// The area of the `index`-th curve.
    pub fn area(&mut self, points: &[Point], index: usize) {
        let (colour, points) = (colour(index), list(points));
        self.put(&format!(
            r#"<polygon fill="{colour}" fill-opacity="0.85" points="{points}"/>"#
        ));
        if let Some(hatch) = self.hatch(index) {
            self.put(&format!(r#"<polygon fill="{hatch}" points="{points}"/>"#));
        }
    }

    /// A bar of the `index`-th curve between two corners; `tip` is its tooltip.
    pub fn bar(&mut self, [(left, top), (right, bottom)]: [Point; 2], index: usize, tip: &str) {
        let (x, y) = (left, top.min(bottom));
        let (width, height) = ((right - left).max(1), (bottom - top).abs());
        let place = format!(r#"x="{x}" y="{y}" width="{width}" height="{height}""#);
        let (mut fill, tip) = (colour(index).to_owned(), tip_of(tip));
        if let Some(hatch) = self.hatch(index) {
            self.put(&format!(r#"<rect {place} fill="{fill}"/>"#));
            fill = hatch;
        }
        self.put(&format!(r#"<rect {place} fill="{fill}">{tip}</rect>"#));
    }

    /// A marker of the `index`-th curve; `tip` is its tooltip.
    pub fn marker(&mut self, (x, y): Point, index: usize, tip: &str) {
        let r = MARKER_SIZES[index.min(MARKER_SIZES.len() - 1)];
        let (colour, tip) = (colour(index), tip_of(tip));
        let (left, right, top, bottom) = (x - r, x + r, y - r, y + r);
        let polygon = |points: &[Point]| {
            let points = list(points);
            format!(r#"<polygon fill="{colour}" points="{points}">{tip}</polygon>"#)
        };
        let shape = match index % MARKERS {
            0 => format!(r#"<circle cx="{x}" cy="{y}" r="{r}" fill="{colour}">{tip}</circle>"#),
            1 => polygon(&[(left, top), (right, top), (right, bottom), (left, bottom)]),
            2 => polygon(&[(x, top - 1), (right + 1, bottom), (left - 1, bottom)]),
            3 => {
                let d = r + 2;
                polygon(&[(x, y - d), (x + d, y), (x, y + d), (x - d, y)])
            }
            _ => format!(
                "<path d=\"M{left} {top}L{right} {bottom}M{left} {bottom}L{right} {top}\" \
                 fill=\"none\" stroke=\"{colour}\" stroke-width=\"3\">{tip}</path>"
            ),
        };
        self.put(&shape);
    }

    /// The marker of a value of the paper.
    pub fn ring(&mut self, (x, y): Point, tip: &str) {
        let tip = tip_of(tip);
        self.put(&format!(
            "<circle class=\"ink\" cx=\"{x}\" cy=\"{y}\" r=\"9\" fill=\"none\" stroke=\"{INK}\" \
             stroke-width=\"2\" stroke-dasharray=\"3 2\">{tip}</circle>"
        ));
    }

    pub fn text(&mut self, text: &str, (x, y): Point, look: Text, place: TextAnchor) {
        let Text { size, class, more } = look;
        let middle = size / 2 - 1;
        let (anchor, x, y) = match place {
            TextAnchor::Right => ("start", x, y + middle),
            TextAnchor::Left => ("end", x, y + middle),
            TextAnchor::Below => ("middle", x, y + size),
            TextAnchor::Upwards => ("middle", x + size, y),
        };
        let turn = match place {
            TextAnchor::Upwards => format!(r#" transform="rotate(270 {x} {y})""#),
            _ => String::new(),
        };
        let text = escaped(text);
        self.put(&format!(
            "<text class=\"{class}\" x=\"{x}\" y=\"{y}\" font-size=\"{size}\" fill=\"{INK}\" \
             text-anchor=\"{anchor}\"{more}{turn}>{text}</text>"
        ));
    }

    fn hatch(&self, index: usize) -> Option<String> {
        match index % HATCHES {
            0 => None,
            at => Some(format!("url(#{}-{at})", self.name)),
        }
    }
}

/// Escapes a text for XML, between tags or quotes.
fn escaped(text: &str) -> String {
    maud::html! { (text) }.into_string()
}

/// The approximate width of a text.
pub fn text_width(text: &str, look: Text) -> i32 {
    (text.chars().count() as f64 * f64::from(look.size) * 0.6) as i32
}

fn colour(index: usize) -> &'static str {
    PALETTE[index % PALETTE.len()]
}

fn tip_of(tip: &str) -> String {
    match tip {
        "" => String::new(),
        tip => format!("<title>{}</title>", escaped(tip)),
    }
}

fn list(points: &[Point]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x},{y}")).collect();
    points.join(" ")
}
