//! Tests of record batches as messages: what is copied, and what malformed messages do.

use std::sync::Arc;

use bytes::Bytes;
use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, BinaryViewArray, BooleanArray, DictionaryArray,
    FixedSizeListArray, Float64Array, Int32Array, Int64Array, LargeStringArray, ListArray,
    NullArray, RecordBatch, RecordBatchOptions, StringArray, StringViewArray, StructArray,
    UInt32Array,
};
use datafusion::arrow::compute::{concat_batches, take_record_batch};
use datafusion::arrow::datatypes::{DataType, Field, Int32Type, Int64Type, Schema};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::*;
use crate::codec::Compression;

const ROWS: usize = 500;

fn text(row: usize) -> Option<String> {
    (row % 7 != 3).then(|| format!("the text of row {row}, which no view holds by itself"))
}

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let texts = || (0..ROWS).map(text);
    let numbers = || (0..ROWS).map(|row| i64::try_from(row * row).ok().filter(|n| n % 5 != 4));
    let words: DictionaryArray<Int32Type> = (0..ROWS)
        .map(|row| ["one", "two", "three"].get(row % 4).copied())
        .collect();
    let lists = ListArray::from_iter_primitive::<Int64Type, _, _>(
        (0..ROWS).map(|row| (row % 6 != 5).then(|| numbers().take(row % 6))),
    );
    let pairs = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(
        (0..ROWS).map(|row| (row % 9 != 1).then_some([Some(1), None])),
        2,
    );
    let inner: ArrayRef = Arc::new(texts().collect::<StringViewArray>());
    let field = Arc::new(Field::new("inner", DataType::Utf8View, true));
    let structs = StructArray::from(vec![(field, inner)]);
    vec![
        (
            "flag",
            Arc::new(
                (0..ROWS)
                    .map(|row| Some(row % 3 == 0))
                    .collect::<BooleanArray>(),
            ),
        ),
        ("number", Arc::new(numbers().collect::<Int64Array>())),
        (
            "float",
            Arc::new(numbers().map(|n| n.map(|_| 0.5)).collect::<Float64Array>()),
        ),
        ("text", Arc::new(texts().collect::<StringArray>())),
        ("large", Arc::new(texts().collect::<LargeStringArray>())),
        ("view", Arc::new(texts().collect::<StringViewArray>())),
        (
            "bytes",
            Arc::new(
                texts()
                    .map(|t| t.map(String::into_bytes))
                    .collect::<BinaryViewArray>(),
            ),
        ),
        ("word", Arc::new(words)),
        ("list", Arc::new(lists)),
        ("pair", Arc::new(pairs)),
        ("struct", Arc::new(structs)),
        ("nothing", Arc::new(NullArray::new(ROWS))),
    ]
}

fn batch() -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(columns().into_iter().map(|(n, c)| (n, c, true)))
        .unwrap()
}

fn messages(batches: &[RecordBatch], compression: Compression) -> Vec<Vec<u8>> {
    let (mut encoder, schema) = BatchEncoder::start(&batches[0].schema(), compression).unwrap();
    let mut messages = vec![schema];
    messages.extend(batches.iter().map(|batch| encoder.encode(batch).unwrap()));
    messages
}

fn decode(messages: Vec<Vec<u8>>) -> Vec<RecordBatch> {
    let mut decoder = BatchDecoder::new();
    let mut batches = Vec::new();
    for (index, message) in messages.into_iter().enumerate() {
        let batch = decoder.decode(message.into()).unwrap();
        assert_eq!(batch.is_none(), index == 0, "of message {index}");
        batches.extend(batch);
    }
    batches
}

#[test]
fn batches_come_back() {
    let batch = batch();
    let slices = [
        batch.slice(0, ROWS),
        batch.slice(13, 100),
        batch.slice(499, 1),
        batch.slice(9, 0),
    ];
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        assert_eq!(
            decode(messages(&slices, compression)),
            slices,
            "{compression:?}"
        );
    }
}

#[test]
fn a_batch_without_columns_has_rows() {
    let options = RecordBatchOptions::new().with_row_count(Some(42));
    let schema = Arc::new(Schema::empty());
    let batch = RecordBatch::try_new_with_options(schema, vec![], &options).unwrap();
    let back = decode(messages(std::slice::from_ref(&batch), Compression::None));
    assert_eq!(back[0].num_rows(), 42);
}

#[test]
fn columns_are_in_the_received_message() {
    let batches = [batch()];
    let mut messages = messages(&batches, Compression::None);
    let mut decoder = BatchDecoder::new();
    decoder.decode(messages.remove(0).into()).unwrap();
    // Of a batch, and of one with its dictionary before it.
    let message = Bytes::from(messages.remove(0));
    let range = message.as_ptr_range();
    let back = decoder.decode(message.clone()).unwrap().unwrap();
    let mut buffers = 0;
    for (field, column) in back.schema().fields().iter().zip(back.columns()) {
        each_buffer(&column.to_data(), &mut |pointer, len| {
            buffers += 1;
            let is_inside = range.contains(&pointer) && pointer.wrapping_add(len) <= range.end;
            assert!(
                is_inside || len == 0,
                "a buffer of {} is a copy",
                field.name()
            );
        });
    }
    assert!(buffers > 25, "{buffers}");
}

fn each_buffer(data: &ArrayData, check: &mut impl FnMut(*const u8, usize)) {
    for buffer in data.buffers() {
        check(buffer.as_ptr(), buffer.len());
    }
    if let Some(nulls) = data.nulls() {
        check(nulls.buffer().as_ptr(), nulls.buffer().len());
    }
    for child in data.child_data() {
        each_buffer(child, check);
    }
}

#[test]
fn a_message_at_any_address_is_read() {
    let batches = [batch()];
    let mut decoder = BatchDecoder::new();
    for message in messages(&batches, Compression::None) {
        let mut shifted = vec![0];
        shifted.extend(message);
        if let Some(back) = decoder.decode(Bytes::from(shifted).slice(1..)).unwrap() {
            assert_eq!(back, batches[0]);
        }
    }
}

#[test]
fn a_dictionary_is_sent_once() {
    let values: ArrayRef = Arc::new(
        (0..100)
            .map(|n| Some(format!("{n:0100}")))
            .collect::<StringArray>(),
    );
    let keys = |from: i32| Int32Array::from_iter_values((0..200).map(|key| (key + from) % 100));
    let with = |from, values: &ArrayRef| {
        let column = DictionaryArray::try_new(keys(from), Arc::clone(values)).unwrap();
        RecordBatch::try_from_iter([("d", Arc::new(column) as ArrayRef)]).unwrap()
    };
    let reversed: ArrayRef = Arc::new(
        (0..100)
            .rev()
            .map(|n| Some(format!("{n:0100}")))
            .collect::<StringArray>(),
    );
    let batches = [
        with(0, &values),
        with(7, &values),
        with(7, &reversed),
        with(0, &reversed),
    ];
    let messages = messages(&batches, Compression::None);
    let has_values = |message: &Vec<u8>| message.len() > 10_000;
    assert_eq!(
        messages.iter().map(has_values).collect::<Vec<_>>(),
        [false, true, false, true, false]
    );
    assert_eq!(decode(messages), batches);
}

#[test]
fn values_that_a_dictionary_does_not_need_are_not_sent() {
    let values: ArrayRef = Arc::new(
        (0..1000)
            .map(|n| Some(format!("{n:0100}")))
            .collect::<StringArray>(),
    );
    let keys = Int32Array::from(vec![Some(999), None, Some(5)]);
    let column: ArrayRef = Arc::new(DictionaryArray::try_new(keys, values).unwrap());
    let batch = RecordBatch::try_from_iter([("d", column)]).unwrap();
    let messages = messages(std::slice::from_ref(&batch), Compression::None);
    assert!(messages[1].len() < 2000, "{}", messages[1].len());
    let back = decode(messages);
    let words = back[0].column(0).as_dictionary::<Int32Type>();
    let words = words.downcast_dict::<StringArray>().unwrap();
    let words: Vec<_> = words.into_iter().collect();
    assert_eq!(
        words,
        [
            Some(format!("{:0100}", 999)).as_deref(),
            None,
            Some(&*format!("{:0100}", 5))
        ]
    );
}

#[test]
fn a_shuffle_sends_each_string_once() {
    let batch = batch();
    let whole = messages(std::slice::from_ref(&batch), Compression::None)[1].len();
    let part = |part: usize| {
        let rows = (0..ROWS).filter(|row| row % 8 == part);
        let rows = UInt32Array::from_iter_values(rows.map(|row| u32::try_from(row).unwrap()));
        take_record_batch(&batch, &rows).unwrap()
    };
    let parts: Vec<RecordBatch> = (0..8).map(part).collect();
    let sent = messages(&parts, Compression::None);
    let sum: usize = sent.iter().map(Vec::len).sum();
    // Eight headers, and padding for each buffer of each column.
    assert!(sum < whole + 8 * 6000, "{sum} bytes in parts of {whole}");
    assert_eq!(decode(sent), parts);
}

#[test]
fn a_slice_is_cut() {
    let batch = batch();
    let [whole, few] = [&batch, &batch.slice(100, 5)]
        .map(|batch| messages(std::slice::from_ref(batch), Compression::None)[1].len());
    assert!(few < 8000 && few < whole / 10, "{few} of {whole}");
}

#[test]
fn a_large_batch_is_sent_in_parts() {
    let batch = batch();
    let one: Vec<_> = split(&batch, 1 << 30).collect();
    assert_eq!(one, std::slice::from_ref(&batch));
    for (bytes_max, most) in [(20_000, 20), (1, ROWS)] {
        let parts: Vec<_> = split(&batch, bytes_max).collect();
        assert!(
            parts.len() > 2 && parts.len() <= most,
            "{} parts",
            parts.len()
        );
        assert_eq!(concat_batches(&batch.schema(), &parts).unwrap(), batch);
    }
    assert_eq!(split(&batch.slice(0, 0), 1).count(), 1);
}

#[test]
fn messages_out_of_order_are_errors() {
    let batches = [batch()];
    let [schema, batch] = <[Vec<u8>; 2]>::try_from(messages(&batches, Compression::None)).unwrap();
    let mut decoder = BatchDecoder::new();
    assert!(decoder.decode(batch.clone().into()).is_err());
    assert!(decoder.decode(Bytes::new()).is_err());
    decoder.decode(schema.clone().into()).unwrap();
    assert!(decoder.decode(schema.into()).is_err());
    let twice = [batch.clone(), batch].concat();
    assert!(decoder.decode(twice.into()).is_err());
}

/// Wrong bytes give an error or a batch, and no panic gets out.
#[test]
fn malformed_messages_are_errors() {
    let seed = crate::testing::seed();
    let mut random = StdRng::seed_from_u64(seed);
    let batches = [batch().slice(3, 60)];
    for compression in [Compression::None, Compression::Lz4, Compression::Zstd] {
        let good = messages(&batches, compression);
        for _ in 0..600 {
            let mut bad = good.clone();
            let message = &mut bad[usize::from(random.random_bool(0.8))];
            // Mostly the header: the body has few bytes that can be wrong.
            let reach = if random.random_bool(0.7) {
                message.len().min(1500)
            } else {
                message.len()
            };
            match random.random_range(0..3) {
                0 => message.truncate(random.random_range(0..message.len())),
                1 => message[random.random_range(0..reach)] = random.random(),
                _ => (0..8)
                    .for_each(|_| message[random.random_range(0..reach)] ^= random.random::<u8>()),
            }
            let mut decoder = BatchDecoder::new();
            let read = bad.into_iter().try_for_each(|bytes| {
                let batch = decoder.decode(bytes.into())?;
                // A batch that is accepted can be read.
                drop(batch.map(|batch| format!("{batch:?}")));
                Ok::<_, BatchError>(())
            });
            drop(read);
        }
    }
}
