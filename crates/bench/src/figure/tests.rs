//! Written output is compared exactly; drawings contain the expected names.

use super::*;

fn figure(drawing: Drawing) -> Figure {
    let series = |name: &str, points: &[(f64, f64)]| Series {
        name: name.into(),
        points: points.to_vec(),
    };
    Figure {
        name: "zero-sided-0".into(),
        title: "Goodput <of> \"nothing\"".into(),
        x: Axis {
            label: "item size".into(),
            unit: "B".into(),
            log: drawing == Drawing::Lines,
        },
        y: Axis {
            label: "goodput".into(),
            unit: "GB/s".into(),
            log: false,
        },
        drawing,
        y_per_panel: false,
        paper: Vec::new(),
        x_names: Vec::new(),
        series: vec![
            series(
                "near | fast, wide",
                &[(4096.0, 1.0), (65_536.0, 11.456_789_1)],
            ),
            series("near | slow & small", &[(4096.0, 0.25)]),
            series(
                "far | fast, wide",
                &[(4096.0, 1.0 / 3.0), (1_048_576.0, 12.0)],
            ),
        ],
        claims: vec![
            Claim {
                what: "zero-sided reaches the rate of the link with flows of every item size"
                    .into(),
                source: "section 7.1, \"line-rate\"".into(),
                paper: 1.0,
                ours: 0.9876,
                unit: String::new(),
            },
            Claim {
                what: "latency with a doorbell".into(),
                source: "section 7.1, figure 10".into(),
                paper: 15.0,
                ours: 7.456,
                unit: "us".into(),
            },
        ],
        notes: Vec::new(),
        seed: 1,
    }
}

#[test]
fn curves_as_csv() {
    insta::assert_snapshot!(figure(Drawing::Lines).to_csv());
    let named = Figure {
        y_per_panel: false,
        paper: Vec::new(),
        x_names: vec!["small".into(), "medium".into(), "large".into()],
        ..figure(Drawing::Bars)
    };
    insta::assert_snapshot!(named.to_csv());
}

#[test]
fn claims_as_csv() {
    insta::assert_snapshot!(claims_csv(&[figure(Drawing::Lines)]));
}

#[test]
fn numbers_are_short() {
    for (value, expect) in [
        (0.0, "0"),
        (1.0, "1"),
        (11.456_789_1, "11.4568"),
        (1_048_576.0, "1048576"),
        (0.000_012_345_678, "0.0000123457"),
        (100.0, "100"),
        (-2.5, "-2.5"),
    ] {
        assert_eq!(number(value), expect);
    }
}

/// Asserts that every element of `svg` is closed, in the right order, and returns its texts.
fn texts(svg: &str) -> Vec<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut texts = Vec::new();
    let mut rest = svg;
    while let Some(at) = rest.find('<') {
        let between = rest[..at].trim();
        if open.last() == Some(&"text") && !between.is_empty() {
            texts.push(between.to_owned());
        }
        let end = rest[at..].find('>').expect("a tag ends") + at;
        let tag = &rest[at + 1..end];
        let name = tag
            .trim_start_matches('/')
            .split([' ', '/'])
            .next()
            .unwrap();
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "it was opened last");
        } else if !tag.ends_with('/') {
            open.push(name);
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "{open:?} never end");
    texts
}

#[test]
fn drawings_have_their_names() {
    for drawing in [Drawing::Lines, Drawing::Bars, Drawing::Areas] {
        let svg = figure(drawing).to_svg();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
        let texts = texts(&svg);
        let count = |name: &str| texts.iter().filter(|text| *text == name).count();
        for (name, times) in [
            ("Goodput &lt;of&gt; &quot;nothing&quot;", 1),
            ("fast, wide", 1),
            ("slow &amp; small", 1),
            ("near", 1),
            ("far", 1),
            ("item size [B]", 1),
            ("goodput [GB/s]", 1),
        ] {
            assert_eq!(count(name), times, "{drawing:?}: {name} in {texts:?}");
        }
        // Markers, bars and areas exist in both colours.
        for colour in ["#0072B2", "#D55E00"] {
            assert!(svg.matches(colour).count() >= 2, "{drawing:?}: {colour}");
        }
    }
}

#[test]
fn what_lies_outside_the_sheet_is_nothing() {
    for drawing in [Drawing::Lines, Drawing::Bars, Drawing::Areas] {
        let svg = figure(drawing).to_svg();
        for (attribute, most) in [
            (" x=\"", 900),
            (" cx=\"", 900),
            (" y=\"", 520),
            (" cy=\"", 520),
        ] {
            for value in svg.split(attribute).skip(1) {
                let value: i32 = value[..value.find('"').unwrap()].parse().unwrap();
                assert!(
                    (0..=most).contains(&value),
                    "{drawing:?}:{attribute}{value}"
                );
            }
        }
    }
}

#[test]
fn a_figure_without_points_is_drawn() {
    for drawing in [Drawing::Lines, Drawing::Bars, Drawing::Areas] {
        let empty = Figure {
            series: Vec::new(),
            ..figure(drawing)
        };
        assert!(texts(&empty.to_svg()).contains(&"goodput [GB/s]".to_owned()));
        assert_eq!(empty.to_csv(), "item size [B]\n");
    }
}
