//! Columns over a connection.

use super::AMPLE;
use super::messages::connect;
use core::time::Duration;
use rackweave_endpoint::messaging::columns::{
    Answer, AskError, Catalogue, ColumnClientConfig, ColumnData, ColumnPiece, ColumnShape,
    DataType, PieceReader, RefusalCode, Reply, RequestError, Ticket,
};
use rackweave_rack::Rack;
use rackweave_rack::messaging::{ColumnReader, ColumnService, FetchError};
use rackweave_rack::services::wait_within;
use std::sync::Arc;

fn numbers(rows: u64) -> ColumnData {
    let shape = ColumnShape::new(DataType::Int64, rows, 0, 0).expect("a shape that can be");
    let values: Vec<u8> = (0..rows).flat_map(u64::to_le_bytes).collect();
    ColumnData::new(shape, &[], &[], &values).expect("as long as its shape says")
}

fn set_up(rack: &Rack, columns: &[(&str, &ColumnData)]) -> (ColumnReader, ColumnService) {
    let catalogue = Arc::new(Catalogue::new(columns.len()));
    for (name, column) in columns {
        let added = catalogue.add(rack.memory(), name, column);
        added.expect("there is room");
    }
    let (dialed, accepted) = connect(rack, rack);
    let reader = ColumnReader::new(dialed, ColumnClientConfig::default());
    (
        reader,
        ColumnService::new(accepted, catalogue, Default::default()),
    )
}

/// The reply to a request, in a thread that both requests and serves.
fn answer(rack: &Rack, ends: &mut (ColumnReader, ColumnService), ticket: Ticket) -> Answer {
    let answer = wait_within(&rack.any_node(), AMPLE, || {
        ends.1.poll().expect("it is open");
        ends.0.poll()
    });
    let answer = answer.expect("it is answered");
    assert_eq!(answer.ticket, ticket);
    answer
}

pub fn they_come_as_they_were_added(rack: &Rack) {
    let (short, long) = (numbers(3), numbers(40_000));
    let mut ends = set_up(rack, &[("short", &short), ("long", &long)]);
    for (name, column) in [("short", short), ("long", long)] {
        let ticket = ends.0.begin(name, None).expect("the window has room");
        let version = column.version();
        assert_eq!(
            answer(rack, &mut ends, ticket).result,
            Ok(Reply::Column(column))
        );
        let ticket = ends.0.begin(name, Some(version)).expect("there is room");
        let again = answer(rack, &mut ends, ticket).result;
        assert_eq!(again, Ok(Reply::Unchanged { version }));
    }
    let ticket = ends.0.begin("none", None).expect("the window has room");
    let refused = answer(rack, &mut ends, ticket).result;
    let unknown = match refused {
        Err(RequestError::Refused { code, .. }) => code,
        other => panic!("nobody serves it: {other:?}"),
    };
    assert_eq!(unknown, RefusalCode::UNKNOWN_COLUMN);
    // Only now does the reader announce that it sends no more requests.
    assert!(!ends.1.is_finished());
    ends.0.finish();
    let finished = wait_within(&rack.any_node(), AMPLE, || {
        ends.1.poll().expect("it is open");
        ends.0.poll();
        ends.1.is_finished().then_some(())
    });
    assert_eq!(finished, Some(()));
    assert_eq!(ends.0.begin("short", None), Err(AskError::Finished));
}

/// Sums values up as they come.
struct Sum(u64);

impl PieceReader for Sum {
    fn piece(&mut self, piece: &ColumnPiece<'_>) {
        let (numbers, _) = piece.bytes.as_chunks();
        let numbers = numbers.iter().map(|it| u64::from_le_bytes(*it));
        self.0 += numbers.sum::<u64>();
    }
}

pub fn one_that_nobody_serves_is_waited_for_no_longer_than_said(rack: &Rack) {
    let column = numbers(1000);
    let mut ends = set_up(rack, &[("numbers", &column)]);
    let limit = Duration::from_millis(20);
    let late = ends.0.fetch("numbers", limit);
    assert_eq!(late, Err(FetchError::TimedOut { after: limit }));
    // A late reply is discarded.
    let ticket = ends.0.begin_in_place("numbers").expect("there is room");
    let mut sum = Sum(0);
    let shown = wait_within(&rack.any_node(), AMPLE, || {
        ends.1.poll().expect("it is open");
        ends.0.poll_with(&mut sum)
    });
    let shown = shown.expect("it is answered");
    assert_eq!(shown.ticket, ticket);
    assert!(matches!(shown.result, Ok(Reply::Shown(_))), "{shown:?}");
    assert_eq!(sum.0, 1000 * 999 / 2);
    drop(ends.1);
    let gone = ends.0.list(AMPLE);
    assert!(matches!(
        gone,
        Err(FetchError::Request(RequestError::Closed(_)) | FetchError::Ask(AskError::Broken(_)))
    ));
}
