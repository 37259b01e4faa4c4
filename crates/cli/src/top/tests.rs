//! Screens of hand-made racks.

use super::state::{State, View, Wish};
use super::view::draw;
use crate::live::Snapshot;
use crate::live::tests::samples::{busy, crowded, idle};
use crate::rack_source::{AskError, LookError};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The screen as text.
fn screen(state: &State, (width, height): (u16, u16)) -> String {
    let backend = TestBackend::new(width, height);
    let mut terminal = Terminal::new(backend).expect("a test's screen works");
    let drawn = terminal.draw(|frame| draw(frame, state));
    drawn.expect("a test's screen works");
    let buffer = terminal.backend().buffer();
    let row = |y| {
        let cells = (0..width).map(|x| buffer[(x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    (0..height).map(row).collect::<Vec<_>>().join("\n")
}

/// The state after these snapshots.
fn after(looks: impl IntoIterator<Item = Snapshot>) -> State {
    let mut state = State::new(1.0, false);
    looks
        .into_iter()
        .for_each(|look| state.handle_look(Ok(look)));
    state
}

fn press(state: &mut State, code: KeyCode) -> Wish {
    state.handle_key(KeyEvent::new(code, KeyModifiers::NONE))
}

#[test]
fn a_rack_that_has_just_begun() {
    let state = after([idle()]);
    insta::assert_snapshot!("idle", screen(&state, (80, 24)));
}

#[test]
fn a_rack_with_something_of_everything() {
    let state = after([10, 11, 13].map(busy));
    insta::assert_snapshot!("busy", screen(&state, (80, 24)));
    insta::assert_snapshot!("busy_40x10", screen(&state, (40, 10)));
    insta::assert_snapshot!("busy_120x40", screen(&state, (120, 40)));
}

#[test]
fn more_than_fits() {
    let mut state = after([10, 11].map(crowded));
    insta::assert_snapshot!("crowded", screen(&state, (80, 24)));
    press(&mut state, KeyCode::Char('2'));
    for _ in 0..12 {
        press(&mut state, KeyCode::Down);
    }
    insta::assert_snapshot!("crowded_nodes", screen(&state, (80, 24)));
    press(&mut state, KeyCode::Char('3'));
    insta::assert_snapshot!("crowded_flows", screen(&state, (80, 24)));
    // However far the user scrolls, the last row remains visible.
    for _ in 0..100 {
        press(&mut state, KeyCode::PageDown);
    }
    let text = screen(&state, (80, 24));
    assert!(text.contains("ended: storage0 > compute0"), "{text}");
}

#[test]
fn pages_and_index_have_a_view_of_their_own() {
    let mut state = after([10, 11].map(busy));
    press(&mut state, KeyCode::Char('4'));
    insta::assert_snapshot!("programs", screen(&state, (80, 24)));
    press(&mut state, KeyCode::Tab);
    assert_eq!(state.view, View::Drops);
    insta::assert_snapshot!("drops", screen(&state, (80, 24)));
}

#[test]
fn the_end_is_told_and_the_last_of_it_stays() {
    let mut state = after([10, 11].map(busy));
    state.handle_look(Err(LookError::Ask(AskError::Ended(4711))));
    let text = screen(&state, (80, 24));
    assert!(
        text.contains("process 4711 has ended; this is the last of it"),
        "{text}"
    );
    assert!(text.contains("compute0"), "{text}");
    let mut waiting = State::new(1.0, true);
    insta::assert_snapshot!("waiting", screen(&waiting, (80, 6)));
    waiting.handle_look(Err(LookError::Ask(AskError::Nobody)));
    waiting.handle_look(Ok(busy(3)));
    assert!(!screen(&waiting, (80, 24)).contains("waiting for a command"));
    waiting.handle_look(Err(LookError::Ask(AskError::Ended(4711))));
    waiting.handle_look(Err(LookError::Ask(AskError::Nobody)));
    let text = screen(&waiting, (80, 24));
    let reported = "process 4711 has ended; waiting for a command with a rack of its own";
    assert!(text.contains(reported), "{text}");
}

#[test]
fn help_shows_every_key() {
    let mut state = after([busy(10)]);
    press(&mut state, KeyCode::Char('?'));
    insta::assert_snapshot!("help", screen(&state, (80, 24)));
    assert_eq!(press(&mut state, KeyCode::Esc), Wish::GoOn);
    assert!(!state.help);
    assert_eq!(press(&mut state, KeyCode::Esc), Wish::End);
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(state.handle_key(interrupt), Wish::End);
    assert_eq!(press(&mut state, KeyCode::Char('c')), Wish::GoOn);
}

#[test]
fn a_pause_keeps_the_screen() {
    let mut state = after([10, 11].map(busy));
    press(&mut state, KeyCode::Char('p'));
    let paused = screen(&state, (80, 24));
    state.handle_look(Ok(busy(20)));
    assert_eq!(screen(&state, (80, 24)), paused);
    press(&mut state, KeyCode::Char('p'));
    state.handle_look(Ok(busy(21)));
    assert_ne!(screen(&state, (80, 24)), paused);
}

#[test]
fn no_size_is_too_small() {
    let mut states = [after([]), after([idle()]), after([10, 11].map(crowded))];
    for state in &mut states {
        for digit in '1'..='5' {
            press(state, KeyCode::Char(digit));
            for size in [
                (1, 1),
                (3, 2),
                (10, 3),
                (40, 4),
                (79, 5),
                (300, 1),
                (12, 200),
            ] {
                screen(state, size);
            }
        }
    }
}

#[test]
fn a_command_between_two_racks_says_so() {
    let between = Snapshot {
        rack: None,
        up_seconds: 99.0,
        ..busy(10)
    };
    let state = after([busy(10), between]);
    assert!(screen(&state, (80, 24)).contains("no rack at the moment"));
}
