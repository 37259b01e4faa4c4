//! The batches that are moved, and what is counted of them.

use datafusion::arrow::array::{
    ArrayRef, AsArray as _, Date32Array, Decimal128Array, Float64Array, Int64Array, RecordBatch,
    StringArray, StringViewArray,
};
use datafusion::arrow::compute::sum;
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use std::fmt;
use std::iter::Sum;
use std::sync::{Arc, Mutex, PoisonError};

/// Batches that differ: with 8192 rows they have 7 MB together, more than most L2 caches.
const BATCHES: usize = 8;

/// Words of the texts.
const WORDS: [&str; 16] = [
    "above",
    "after",
    "blithely",
    "bold",
    "carefully",
    "deposits",
    "even",
    "express",
    "final",
    "furiously",
    "ironic",
    "packages",
    "quickly",
    "regular",
    "sleep",
    "theodolites",
];

/// Columns as queries exchange them: of fixed width, strings with offsets, and views of strings,
/// which scans of Parquet give.
pub fn schema() -> SchemaRef {
    let field = |name: &str, data_type| Field::new(name, data_type, false);
    Arc::new(Schema::new(vec![
        field("key", DataType::Int64),
        field("price", DataType::Decimal128(15, 2)),
        field("discount", DataType::Float64),
        field("day", DataType::Date32),
        field("name", DataType::Utf8View),
        field("comment", DataType::Utf8),
    ]))
}

/// What is counted of batches, however their memory is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows.
    pub rows: u64,
    /// Bytes of the values, offsets and views.
    pub bytes: u64,
    /// Sum of the keys.
    pub sum: i64,
}

impl Totals {
    /// Of a batch with the columns of [`schema`].
    pub fn of(batch: &RecordBatch) -> Self {
        let rows = batch.num_rows();
        let names = batch.column(4).as_string_view();
        let lengths = names.views().iter().map(|&view| view_length(view));
        // Shorter ones are in the view.
        let names: u64 = lengths.filter(|&length| length > 12).sum();
        let offsets = batch.column(5).as_string::<i32>().value_offsets();
        let comments = offsets[rows] - offsets[0];
        let fixed = rows * (8 + 16 + 8 + 4 + 16 + 4);
        Self {
            rows: rows as u64,
            bytes: fixed as u64 + names + u64::try_from(comments).unwrap_or(0),
            sum: sum(batch.column(0).as_primitive::<Int64Type>()).unwrap_or(0),
        }
    }

    /// The same several times.
    pub fn times(self, number: usize) -> Self {
        Self {
            rows: self.rows.wrapping_mul(number as u64),
            bytes: self.bytes.wrapping_mul(number as u64),
            sum: self.sum.wrapping_mul(number.cast_signed() as i64),
        }
    }

    /// Both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            rows: self.rows.wrapping_add(other.rows),
            bytes: self.bytes.wrapping_add(other.bytes),
            sum: self.sum.wrapping_add(other.sum),
        }
    }
}

/// The lower 32 bits of a view are the length of its string.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the other bits are no length"
)]
fn view_length(view: u128) -> u64 {
    u64::from(view as u32)
}

impl Sum for Totals {
    fn sum<I: Iterator<Item = Self>>(totals: I) -> Self {
        totals.fold(Self::default(), Self::plus)
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rows, bytes, sum } = self;
        write!(formatter, "{rows} rows of {bytes} bytes with the sum {sum}")
    }
}

/// Batches that are made once in a process.
#[derive(Debug)]
pub struct Sample {
    batches: Vec<RecordBatch>,
    totals: Vec<Totals>,
}

impl Sample {
    /// Batches of so many rows: the same in each process.
    pub fn of(batch_rows: usize) -> Arc<Self> {
        static LAST: Mutex<Option<(usize, Arc<Sample>)>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((rows, sample)) if *rows == batch_rows => Arc::clone(sample),
            _ => {
                let sample = Arc::new(Self::make(batch_rows));
                *last = Some((batch_rows, Arc::clone(&sample)));
                sample
            }
        }
    }

    fn make(batch_rows: usize) -> Self {
        let mut random = Random(batch_rows as u64);
        let batches: Vec<_> = (0..BATCHES)
            .map(|_| batch(&mut random, batch_rows))
            .collect();
        let totals = batches.iter().map(Totals::of).collect();
        Self { batches, totals }
    }

    /// A batch of a partition: only references to its columns are copied.
    pub fn batch(&self, partition: usize, index: usize) -> RecordBatch {
        self.batches[(partition + index) % BATCHES].clone()
    }

    /// What so many batches of a partition have.
    pub fn totals(&self, partition: usize, batches: usize) -> Totals {
        let all = self.totals.iter().copied().sum::<Totals>();
        let rest = (0..batches % BATCHES).map(|index| (partition + index) % BATCHES);
        let rest = rest.map(|index| self.totals[index]).sum();
        all.times(batches / BATCHES).plus(rest)
    }
}

fn batch(random: &mut Random, rows: usize) -> RecordBatch {
    let mut numbers = |below: u64| -> Vec<i64> {
        let number = |_| random.below(below).cast_signed();
        (0..rows).map(number).collect()
    };
    let keys = numbers(6_000_000);
    let prices = numbers(10_000_000).into_iter().map(i128::from);
    let prices = Decimal128Array::from_iter_values(prices).with_precision_and_scale(15, 2);
    let hundredths = numbers(11).into_iter();
    #[expect(clippy::cast_precision_loss, reason = "the numbers are below 11")]
    let discounts = hundredths.map(|hundredth| hundredth as f64 / 100.0);
    let days = numbers(2526).into_iter();
    let days = days.map(|day| 8000 + i32::try_from(day).unwrap_or(0));
    let names = numbers(150_000).into_iter();
    let names = names.map(|number| format!("Customer#{number:09}"));
    let (discounts, days) = (discounts.collect::<Vec<_>>(), days.collect::<Vec<_>>());
    let comments = (0..rows).map(|_| random.text());
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(keys)),
        Arc::new(prices.expect("the numbers have fewer digits")),
        Arc::new(Float64Array::from(discounts)),
        Arc::new(Date32Array::from(days)),
        Arc::new(StringViewArray::from_iter_values(names)),
        Arc::new(StringArray::from_iter_values(comments)),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are those of the schema")
}

/// Numbers that look random and are the same in each run: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn text(&mut self) -> String {
        let length = 10 + usize::try_from(self.below(34)).unwrap_or(0);
        let mut text = String::with_capacity(length + 12);
        while text.len() < length {
            let word = usize::try_from(self.below(WORDS.len() as u64)).unwrap_or(0);
            text.push_str(WORDS[word]);
            text.push(' ');
        }
        text.truncate(length);
        text
    }
}
