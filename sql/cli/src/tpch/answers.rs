//! The answers that the TPC-H specification publishes for the validation database, scale factor 1.
//!
//! The rows are those of the TPC's own tool set, which the crate `tpchgen` contains
//! (`tpchgen::q_and_a::answers_sf1`): all rows of all 22 queries. Numbers have two decimal places
//! there. Clause 2.1.3.5 would allow larger differences than this module does.
//!
//! Two of the answers need care:
//! - The part keys of query 11 are cut after four characters in that crate (its first row has
//!   `1297` for part 129760), so that only the values of query 11 are compared.
//! - The published value of query 17 is 348406.02, while exact decimal arithmetic gives
//!   2438842.38 / 7 = 348406.054. Clause 2.1.3.5 allows 1 % for a ratio.

use crate::table::Table;
use tpchgen::q_and_a::answers_sf1;

/// A published number is rounded, or cut, to hundredths.
const TOLERANCE: f64 = 0.0101;

/// For query 17: see above.
const TOLERANCE_17: f64 = 0.04;

/// The scale factor that the answers are for.
pub const SCALE_FACTOR: f64 = 1.0;

/// The published rows of a query: cells without padding.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// Columns of the result that are compared, all others being ignored.
    columns: Vec<usize>,
    /// Cells of the compared columns.
    rows: Vec<Vec<String>>,
    /// Difference that numbers with decimal places may have.
    tolerance: f64,
}

impl Answer {
    /// The answer of a TPC-H query, from 1 to 22.
    pub fn published(query: u8) -> Option<Self> {
        let text = answers_sf1::answer(i32::from(query))?;
        let omitted: &[usize] = if query == 11 { &[0] } else { &[] };
        let mut answer = Self::parse(text, omitted)?;
        if query == 17 {
            answer.tolerance = TOLERANCE_17;
        }
        Some(answer)
    }

    /// Parses lines of cells with `|` between them, the first line being the names.
    fn parse(text: &str, omitted: &[usize]) -> Option<Self> {
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let width = lines.next()?.split('|').count();
        let columns: Vec<usize> = (0..width)
            .filter(|column| !omitted.contains(column))
            .collect();
        let row = |line: &str| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            columns
                .iter()
                .map(|&column| cells[column].to_owned())
                .collect()
        };
        let rows = lines.map(row).collect();
        Some(Self {
            columns,
            rows,
            tolerance: TOLERANCE,
        })
    }

    /// Compares a result with the answer, as sets of rows: the specification's order is that of
    /// the query, which leaves rows of equal keys in any order.
    ///
    /// # Errors
    /// The first difference.
    pub fn check(&self, table: &Table) -> Result<(), String> {
        let mut rows: Vec<Vec<String>> = Vec::with_capacity(table.rows.len());
        for row in &table.rows {
            let cell = |&column: &usize| row.get(column).map(ToString::to_string);
            let cells: Option<Vec<String>> = self.columns.iter().map(cell).collect();
            let cells = cells.ok_or("the result has fewer columns than the published answer")?;
            rows.push(cells.iter().map(|cell| cell.trim().to_owned()).collect());
        }
        if rows.len() != self.rows.len() {
            let (found, expected) = (rows.len(), self.rows.len());
            return Err(format!("{found} rows; the published answer has {expected}"));
        }
        let mut expected = self.rows.clone();
        for rows in [&mut rows, &mut expected] {
            rows.sort_by_cached_key(|row| sort_key(row));
        }
        let differs = |(row, expected): &(&Vec<String>, &Vec<String>)| {
            row.iter()
                .zip(*expected)
                .any(|(cell, expected)| !self.cells_equal(cell, expected))
        };
        match rows.iter().zip(&expected).find(differs) {
            None => Ok(()),
            Some((row, expected)) => Err(format!(
                "row {}; the published answer has {}",
                row.join(" | "),
                expected.join(" | ")
            )),
        }
    }

    fn cells_equal(&self, cell: &str, expected: &str) -> bool {
        if cell == expected {
            return true;
        }
        // Whole numbers and texts are exact.
        expected.contains('.')
            && match (cell.parse::<f64>(), expected.parse::<f64>()) {
                (Ok(cell), Ok(expected)) => (cell - expected).abs() <= self.tolerance,
                _ => false,
            }
    }
}

/// Numbers with decimal places are rounded in one of the two, so that they come last, in hundreds.
fn sort_key(row: &[String]) -> (Vec<String>, Vec<i64>) {
    let (numbers, texts): (Vec<&String>, Vec<&String>) = row
        .iter()
        .partition(|cell| cell.contains('.') && cell.parse::<f64>().is_ok());
    #[expect(
        clippy::cast_possible_truncation,
        reason = "amounts are far below 2^63"
    )]
    let number = |cell: &&String| {
        cell.parse::<f64>()
            .map_or(0, |number| number.round() as i64)
    };
    (
        texts.into_iter().cloned().collect(),
        numbers.iter().map(number).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::Answer;
    use crate::table::{Cell, Table};

    fn table(rows: &[&[&str]]) -> Table {
        let row = |row: &&[&str]| {
            row.iter()
                .map(|cell| Cell::Exact((*cell).to_owned()))
                .collect()
        };
        Table {
            rows: rows.iter().map(row).collect(),
            ..Table::default()
        }
    }

    #[test]
    fn all_answers_parse() {
        for query in 1..=22 {
            let answer = Answer::published(query).unwrap();
            assert!(!answer.rows.is_empty(), "{query}");
            let width = answer.columns.len();
            assert!(answer.rows.iter().all(|row| row.len() == width), "{query}");
        }
        assert_eq!(Answer::published(23), None);
        let rows = |query| Answer::published(query).unwrap().rows.len();
        assert_eq!(
            (rows(1), rows(2), rows(3), rows(10), rows(21)),
            (4, 100, 10, 20, 100)
        );
    }

    #[test]
    fn a_rounded_number_is_equal() {
        let answer = Answer::parse("name|value\nA   |  25.52\nB|7\n", &[]).unwrap();
        assert_eq!(
            answer.check(&table(&[&["B", "7"], &["A", "25.5220"]])),
            Ok(())
        );
        for wrong in [["A", "25.55"], ["A", "26"], ["C", "25.52"]] {
            let error = answer.check(&table(&[&["B", "7"], &wrong])).unwrap_err();
            assert!(error.contains("published"), "{error}");
        }
        assert!(
            answer
                .check(&table(&[&["A", "25.52"], &["B", "8"]]))
                .is_err()
        );
        assert!(
            answer
                .check(&table(&[&["A", "25.52"]]))
                .unwrap_err()
                .contains("1 rows")
        );
    }

    #[test]
    fn query_17_may_differ_as_the_specification_allows() {
        let check = |query, value| Answer::published(query).unwrap().check(&table(&[&[value]]));
        assert_eq!(check(17, "348406.0542857143"), Ok(()));
        assert!(check(17, "348406.1").is_err());
        assert_eq!(check(6, "123141078.2283"), Ok(()));
        assert!(check(6, "123141078.27").is_err());
    }

    #[test]
    fn an_omitted_column_is_not_compared() {
        let answer = Answer::parse("key|value\n1297|1.50\n", &[0]).unwrap();
        assert_eq!(answer.check(&table(&[&["129760", "1.50"]])), Ok(()));
        assert!(answer.check(&table(&[&["129760"]])).is_err());
    }
}
