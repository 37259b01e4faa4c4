//! Columns and arrays.

use super::*;
use crate::tpch::{
    ComputeResult, LineitemRow, Part, QueryResult, RowCounts, ScaleFactor, lineitem_rows, reference,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array,
    Int64Array, LargeStringArray, StringArray, cast::AsArray,
};
use proptest::prelude::*;
use rackweave_endpoint::messaging::columns::{
    Buffer, ColumnCache, ColumnClient, ColumnClientConfig, ColumnData, ColumnHeader, ColumnPiece,
    ColumnShape, DataType, PieceReader,
};
use std::sync::Arc;

fn scale(factor: f64) -> ScaleFactor {
    ScaleFactor::new(factor).unwrap()
}

fn there_and_back(values: &dyn Array) {
    let column = encode(values).unwrap();
    assert_eq!(column.version(), column.content());
    let back = array(column).unwrap();
    assert_eq!(&*back, values);
}

#[test]
fn an_array_as_it_is_served() {
    let numbers = Int32Array::from(vec![Some(1), None, Some(-2)]);
    let column = encode(&numbers).unwrap();
    let shape = ColumnShape::new(DataType::Int32, 3, 1, 0).unwrap();
    assert_eq!(column.shape(), &shape);
    assert_eq!(column.buffer(Buffer::Validity), [0b101]);
    assert_eq!(column.buffer(Buffer::Values)[..4], [1, 0, 0, 0]);
    assert_eq!(column.buffer(Buffer::Values)[8..], [0xfe, 0xff, 0xff, 0xff]);
    assert_eq!(column.bytes().len(), 128);
    let texts = StringArray::from(vec!["ab", "", "cde"]);
    let column = encode(&texts).unwrap();
    assert!(column.buffer(Buffer::Validity).is_empty());
    let offsets = [0, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0];
    assert_eq!(column.buffer(Buffer::Offsets), offsets);
    assert_eq!(column.buffer(Buffer::Values), b"abcde");
}

#[test]
fn a_slice_is_served_as_if_it_were_all() {
    let bits: BooleanArray = (0..100)
        .map(|at| (at % 7 != 0).then_some(at % 3 == 0))
        .collect();
    let texts: StringArray = (0..100)
        .map(|at| (at % 5 != 0).then(|| at.to_string()))
        .collect();
    let dates: Date32Array = (0..100).map(|at| (at % 4 != 0).then_some(at)).collect();
    for whole in [&bits as &dyn Array, &texts, &dates] {
        for (from, len) in [(0, 100), (3, 50), (8, 8), (99, 1), (50, 0), (1, 3)] {
            there_and_back(&*whole.slice(from, len));
        }
    }
    // The same bits with different surrounding bits.
    let other: BooleanArray = (3..53)
        .map(|at| (at % 7 != 0).then_some(at % 3 == 0))
        .collect();
    let slices = [encode(&bits.slice(3, 50)).unwrap(), encode(&other).unwrap()];
    assert_eq!(
        slices[0].buffer(Buffer::Validity),
        slices[1].buffer(Buffer::Validity)
    );
    // A slice that excludes the nulls has none.
    assert_eq!(encode(&bits.slice(1, 6)).unwrap().shape().nulls, 0);
}

#[test]
fn other_types_are_refused() {
    let error = encode(&LargeStringArray::from(vec!["a"])).unwrap_err();
    assert!(matches!(&error, EncodeError::Type(_)));
    assert!(
        error
            .to_string()
            .starts_with("an array of LargeUtf8; columns are"),
        "{error}"
    );
}

#[test]
fn an_array_keeps_its_column_in_the_cache() {
    let cache = ColumnCache::new(64);
    let numbers = Int64Array::from(vec![7; 8]);
    let column = encode(&numbers).unwrap();
    let pinned = cache.get("a", || Ok(column)).unwrap();
    let place = pinned.buffer(Buffer::Values).as_ptr();
    let back = array(pinned).unwrap();
    assert_eq!(
        back.as_primitive::<arrow_array::types::Int64Type>()
            .values()
            .as_ptr()
            .cast(),
        place
    );
    // The cache has no space for another one until the array is dropped.
    let bring = || Ok(encode(&numbers).unwrap());
    assert!(cache.get("b", bring).is_ok());
    assert!(cache.peek("a").is_some() && cache.peek("b").is_none());
    drop(back);
    assert!(cache.get("b", bring).is_ok());
    assert!(cache.peek("a").is_none() && cache.peek("b").is_some());
}

fn texts_of(offsets: &[i32], values: &[u8]) -> Result<ArrayRef, DecodeError> {
    let rows = offsets.len() as u64 - 1;
    let shape = ColumnShape::new(DataType::Utf8, rows, 0, values.len() as u64).unwrap();
    let offsets: Vec<u8> = offsets.iter().flat_map(|at| at.to_le_bytes()).collect();
    array(ColumnData::new(shape, &[], &offsets, values).unwrap())
}

#[test]
fn unsound_bytes_are_errors() {
    assert!(texts_of(&[0, 1, 3], b"abc").is_ok());
    for offsets in [
        [0, 2, 1],
        [0, 1, 4],
        [-1, 1, 3],
        [0, -1, 3],
        [i32::MIN, 0, i32::MAX],
    ] {
        let result = texts_of(&offsets, b"abc");
        assert!(
            matches!(result, Err(DecodeError::Invalid(_))),
            "{offsets:?}"
        );
    }
    assert!(texts_of(&[0, 1, 3], b"a\xff\xff").is_err());
    // A character must not be split between two texts.
    assert!(texts_of(&[0, 1, 2], "\u{e4}".as_bytes()).is_err());
    let shape = ColumnShape::new(DataType::Boolean, 8, 3, 0).unwrap();
    let column = |validity| ColumnData::new(shape, &[validity], &[], &[0xaa]).unwrap();
    assert!(array(column(0b1111_1000)).is_ok());
    let error = array(column(0b1111_1100)).unwrap_err();
    assert!(
        matches!(error, DecodeError::Nulls { said: 3, found: 2 }),
        "{error}"
    );
}

/// Arrays of all types, with and without nulls.
fn any_array() -> impl Strategy<Value = ArrayRef> {
    fn of<T: core::fmt::Debug + Clone + 'static>(
        value: impl Strategy<Value = T> + Clone + 'static,
        into: fn(Vec<Option<T>>) -> ArrayRef,
    ) -> BoxedStrategy<ArrayRef> {
        let some = value.clone().prop_map(Some);
        let all = proptest::collection::vec(some, 0..200);
        let nulls = proptest::collection::vec(proptest::option::of(value), 0..200);
        prop_oneof![all, nulls].prop_map(into).boxed()
    }
    let max = 10i128.pow(15) - 1;
    prop_oneof![
        of(any::<bool>(), |v| Arc::new(BooleanArray::from(v))),
        of(any::<i32>(), |v| Arc::new(Int32Array::from(v))),
        of(any::<i64>(), |v| Arc::new(Int64Array::from(v))),
        // NaN is not equal to itself.
        of(any::<i64>().prop_map(|n| n as f64 / 3.0), |v| Arc::new(
            Float64Array::from(v)
        )),
        of(any::<i32>(), |v| Arc::new(Date32Array::from(v))),
        of(-max..=max, |v| {
            let array = Decimal128Array::from(v);
            Arc::new(array.with_precision_and_scale(15, 2).unwrap())
        }),
        of(".{0,8}", |v| Arc::new(StringArray::from(v))),
    ]
}

fn any_type() -> impl Strategy<Value = DataType> {
    let decimal = DataType::Decimal128 {
        precision: 15,
        scale: 2,
    };
    prop::sample::select(vec![
        DataType::Boolean,
        DataType::Int32,
        DataType::Int64,
        DataType::Float64,
        DataType::Date32,
        decimal,
        DataType::Utf8,
    ])
}

proptest! {
    #[test]
    fn arrays_there_and_back(values in any_array()) {
        there_and_back(&*values);
    }

    #[test]
    fn garbage_is_an_array_or_an_error(
        data_type in any_type(), rows in 0u64..40, nulls in 0u64..40, text_bytes in 0u64..100,
        seed: u64, small: bool,
    ) {
        let text_bytes = if rows == 0 { 0 } else { text_bytes };
        let shape = ColumnShape::new(data_type, rows, nulls.min(rows), text_bytes).unwrap();
        let mut rng = rackweave_base::Rng::new(seed);
        let buffers = shape.lengths.map(|len| {
            // Small numbers make offsets that are nearly right.
            (0..len).map(|at| {
                if small && at % 4 != 0 { 0 } else { rng.next_u32() as u8 }
            }).collect::<Vec<_>>()
        });
        let column = ColumnData::new(shape, &buffers[0], &buffers[1], &buffers[2]).unwrap();
        if let Ok(array) = array(column) {
            prop_assert_eq!(array.len() as u64, rows);
            prop_assert_eq!(array.null_count() as u64, shape.nulls);
            // A valid array can be formatted and summed.
            let _ = (format!("{array:?}"), sum(&array));
            let _ = encode(&array).unwrap();
        }
    }

    #[test]
    fn a_sum_does_not_depend_on_the_pieces(
        values in any_array(),
        cuts in proptest::collection::vec(1usize..90, 1..20),
    ) {
        let column = encode(&values).unwrap();
        let ticket = {
            let mut client = ColumnClient::new(ColumnClientConfig::default());
            client.ask_in_place("c").unwrap()
        };
        let header = ColumnHeader {
            request: 0,
            version: column.version(),
            shape: *column.shape(),
        };
        let mut pieces = PieceSum::default();
        let mut offset = 0;
        for cut in cuts.iter().cycle() {
            let rest = &column.bytes()[offset..];
            let bytes = &rest[..rest.len().min(*cut)];
            let piece = ColumnPiece { ticket, header: &header, offset: offset as u64, bytes };
            pieces.piece(&piece);
            offset += bytes.len();
            if offset == column.bytes().len() {
                break;
            }
        }
        let expect = sum(&values);
        match (pieces.take(), expect) {
            (Ok((found, count)), Ok(expect)) => {
                prop_assert_eq!(found, expect);
                prop_assert_eq!(count as usize, values.len() - values.null_count());
            }
            (found, expect) => prop_assert!(found.is_err() && expect.is_err()),
        }
        prop_assert_eq!(pieces.take(), Ok((0, 0)));
    }
}

#[test]
fn tpch_columns_add_up_to_the_reference() {
    let scale = scale(0.002);
    let names = TPCH_COLUMNS.map(|column| column.name);
    let whole = tpch_columns(scale, Part::WHOLE, &names).unwrap();
    let parts = [0, 1, 2].map(|part| {
        let part = Part::new(part, 3).unwrap();
        tpch_columns(scale, part, &names).unwrap()
    });
    let mut summed = 0;
    for (at, column) in TPCH_COLUMNS.iter().enumerate() {
        let name = column.name;
        assert_eq!(
            whole[at].data_type(),
            &arrow_type(column.data_type),
            "{name}"
        );
        let rows: usize = parts.iter().map(|part| part[at].len()).sum();
        assert_eq!(rows, whole[at].len(), "{name}");
        let expect = reference_sum(scale, Part::WHOLE, name);
        if column.data_type == DataType::Utf8 {
            assert!(expect.is_err() && sum(&whole[at]).is_err());
            continue;
        }
        let expect = expect.unwrap();
        assert_eq!(sum(&whole[at]), Ok(expect), "{name}");
        let partial = parts.iter().map(|part| sum(&part[at]).unwrap());
        assert_eq!(partial.sum::<i128>(), expect, "{name}");
        there_and_back(&*whole[at]);
        summed += 1;
    }
    assert_eq!(summed, 16);
}

#[test]
fn tpch_texts_are_those_of_the_rows() {
    let scale = scale(0.001);
    let names = [
        "lineitem.l_returnflag",
        "lineitem.l_linestatus",
        "lineitem.l_shipmode",
    ];
    let columns = tpch_columns(scale, Part::WHOLE, &names).unwrap();
    let rows = lineitem_rows(scale, Part::WHOLE).map(|bytes| LineitemRow::decode(&bytes).unwrap());
    let mut count = 0;
    for (at, row) in rows.enumerate() {
        let texts = [
            row.return_flag.text(),
            row.line_status.text(),
            row.ship_mode.text(),
        ];
        for (column, text) in columns.iter().zip(texts) {
            assert_eq!(column.as_string::<i32>().value(at), text);
        }
        count += 1;
    }
    assert_eq!(count, columns[0].len());
    let unknown = tpch_columns(scale, Part::WHOLE, &["lineitem.l_comment"]).unwrap_err();
    assert_eq!(unknown, UnknownColumn("lineitem.l_comment".into()));
}

fn q6_of(scale: ScaleFactor, part: Part) -> i128 {
    let columns = tpch_columns(scale, part, &Q6_COLUMNS).unwrap();
    q6(&columns.try_into().unwrap()).unwrap()
}

#[test]
fn q6_is_the_reference() {
    let scale = scale(0.01);
    let parts = (0..3).map(|part| Part::new(part, 3).unwrap());
    let sums = parts.map(|part| {
        let found = q6_of(scale, part);
        assert_eq!(found, reference_q6(scale, part));
        found
    });
    let whole = reference_q6(scale, Part::WHOLE);
    assert_eq!(sums.sum::<i128>(), whole);
    assert!(whole > 0);
}

/// Takes some seconds in a debug build, most of them in the generator.
#[test]
fn q6_at_scale_factor_1_is_the_published_answer() {
    let parts = (0..16).map(|part| Part::new(part, 16).unwrap());
    let revenue: i128 = parts.map(|part| q6_of(scale(1.0), part)).sum();
    assert_eq!(revenue, PUBLISHED_Q6_SF1);
}

#[test]
fn q6_says_what_is_wrong_with_a_column() {
    let columns = tpch_columns(scale(0.001), Part::WHOLE, &Q6_COLUMNS).unwrap();
    let columns: [ArrayRef; 4] = columns.try_into().unwrap();
    let check = |at: usize, with: ArrayRef, expect: &str| {
        let mut columns = columns.clone();
        columns[at] = with;
        let error = q6(&columns).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    };
    check(
        0,
        columns[1].clone(),
        "lineitem.l_shipdate is a column of Decimal128(15, 2)",
    );
    check(
        2,
        columns[0].clone(),
        "lineitem.l_quantity is a column of Date32",
    );
    check(
        3,
        columns[3].slice(0, 9),
        "lineitem.l_extendedprice has 9 rows of which 0 are null",
    );
    let nulls = Decimal128Array::new_null(columns[0].len());
    let nulls = Arc::new(nulls.with_precision_and_scale(15, 2).unwrap());
    check(1, nulls, "lineitem.l_discount has");
}

fn q1_columns(scale: ScaleFactor, part: Part) -> [ArrayRef; 7] {
    let columns = tpch_columns(scale, part, &Q1_COLUMNS).unwrap();
    columns.try_into().unwrap()
}

#[test]
fn q1_is_the_reference() {
    let scale = scale(0.01);
    let parts = (0..3).map(|part| {
        let q1 = q1(&q1_columns(scale, Part::new(part, 3).unwrap())).unwrap();
        let (rows, join) = (RowCounts::default(), Vec::new());
        ComputeResult { rows, q1, join }
    });
    assert_eq!(QueryResult::merge(parts).q1, reference(scale).q1);
}

#[test]
fn q1_says_what_is_wrong_with_a_column() {
    let columns = q1_columns(scale(0.001), Part::WHOLE);
    let rows = columns[0].len();
    let check = |at: usize, with: ArrayRef, expect: &str| {
        let mut columns = columns.clone();
        columns[at] = with;
        let error = q1(&columns).unwrap_err().to_string();
        assert!(error.starts_with(expect), "{error}");
    };
    let dates = columns[2].clone();
    check(0, dates, "lineitem.l_returnflag is a column of Date32");
    check(
        1,
        columns[1].slice(1, 9),
        "lineitem.l_linestatus has 9 rows",
    );
    for text in ["", "B", "AA"] {
        let texts = StringArray::from_iter_values((0..rows).map(|_| text));
        check(0, Arc::new(texts), "row 0 of lineitem is not TPC-H's");
    }
    for value in [-1, 1 << 40, i128::MAX, i128::MIN] {
        let values = Decimal128Array::from_value(value, rows);
        let values = values.with_precision_and_scale(38, 2).unwrap();
        check(3, Arc::new(values), "row 0 of lineitem is not TPC-H's");
    }
}
