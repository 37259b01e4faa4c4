//! Reports of `stat` on hand-made racks.

use super::{interval, report, text};
use crate::live::Snapshot;
use crate::live::tests::samples::{busy, idle};

#[test]
fn a_rack_that_has_just_begun() {
    insta::assert_snapshot!("idle", text(&report(None, &idle(), false)));
}

#[test]
fn a_rack_with_something_of_everything() {
    insta::assert_snapshot!("busy", text(&report(None, &busy(10), false)));
}

#[test]
fn zeros_are_shown_on_demand() {
    let hidden = text(&report(None, &busy(10), false));
    let all = text(&report(None, &busy(10), true));
    for name in [
        "recirculations",
        "released",
        "drop_no_route",
        "duplicate_request",
    ] {
        assert!(all.contains(name) && !hidden.contains(name), "{name}");
    }
}

#[test]
fn what_happened_since_the_last_look() {
    let text = text(&report(Some(&busy(10)), &busy(12), false));
    let rates = text.split_once("\nchange:\n").map(|(_, rates)| rates);
    insta::assert_snapshot!("rates", rates.expect("there are rates"));
}

#[test]
fn a_command_between_two_racks() {
    let now = Snapshot {
        rack: None,
        ..busy(10)
    };
    let text = text(&report(Some(&busy(9)), &now, false));
    assert!(text.contains("rack:        none at the moment\n"));
}

#[test]
fn the_json_object_has_what_the_text_has() {
    let json = report(Some(&busy(10)), &busy(12), false);
    assert_eq!(json["rack"]["nodes"][2]["target"]["reads"], 18_000 * 12);
    assert_eq!(json["rack"]["pages"]["answers"]["memory"], 9_000 * 12);
    assert_eq!(json["change"]["pages"]["memory"], 9_000.0);
    assert_eq!(json["change"]["is_since_start"], false);
    assert!(json["rack"]["pages"]["answers"].get("released").is_none());
}

#[test]
fn intervals() {
    assert_eq!(
        interval(0.25).ok(),
        Some(std::time::Duration::from_millis(250))
    );
    for refused in [0.0, 0.2, -1.0, f64::NAN, f64::INFINITY, 1e9] {
        assert!(interval(refused).is_err(), "{refused}");
    }
}
