//! A text with rows, and the figure that it becomes.

use super::*;

#[test]
fn claims_and_notes_are_made_for_each_row() {
    let text: FigureText = toml::from_str(
        r#"
        title = "Of {what}"
        source = "section 1"
        paper = [{ y = "level" }, { x = 2.0, y = 3.0, panel = "one" }]
        claims = [
            { each = "node", what = "{name}: rate", paper = 1.0, ours = "rate", unit = "x" },
            { each = "node", what = "{name}, {what}", paper = "level", ours = "time",
              source = "section 2", optional = true },
        ]
        notes = ["{level:.2} of {count}", { each = "node", note = "{name} has {rate:.1}" }]
        "#,
    )
    .expect("it is well formed");
    let node = vec![
        values! { name: "a", rate: 0.5, time: 7_u32 },
        values! { name: "b", rate: 1.0 },
    ];
    let values = values! { what: "nothing", level: 11.456, count: 3_u64, node };
    let figure = text.figure("it", 1, Measured::new(Vec::new(), values), &Texts::new());
    let claims: Vec<_> = figure
        .claims
        .iter()
        .map(|claim| {
            (
                claim.what.as_str(),
                claim.source.as_str(),
                claim.paper,
                claim.ours,
            )
        })
        .collect();
    let expect = [
        ("a: rate", "section 1", 1.0, 0.5),
        ("a, nothing", "section 2", 11.456, 7.0),
        ("b: rate", "section 1", 1.0, 1.0),
    ];
    assert_eq!(claims, expect);
    assert_eq!(figure.notes, ["11.46 of 3", "a has 0.5", "b has 1.0"]);
    assert_eq!(figure.title, "Of nothing");
    let marks: Vec<_> = figure.paper.iter().map(|mark| (mark.x, mark.y)).collect();
    assert_eq!(marks, [(None, 11.456), (Some(2.0), 3.0)]);
}
