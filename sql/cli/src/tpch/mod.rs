//! TPC-H: the tables, the queries with their validation parameters, and the published answers.
//!
//! Source: TPC Benchmark H, Standard Specification 3.0.1, clauses 1.4 (tables), 2.4 (queries),
//! 2.1.3.5 (answers).

pub mod answers;
pub mod generate;
pub mod manifest;

/// Number of queries.
pub const QUERIES: u8 = 22;

/// The tables, the largest last.
pub const TABLES: [&str; 8] = [
    "region", "nation", "supplier", "customer", "part", "partsupp", "orders", "lineitem",
];

/// The fraction in query 11 at scale factor 1, as the file has it.
const FRACTION: &str = "0.0001000000";

/// The text of a query, with its validation parameters for data of `scale_factor`.
pub fn query(number: u8, scale_factor: f64) -> Option<String> {
    let text = TEXTS.get(usize::from(number).checked_sub(1)?)?;
    match number {
        // Clause 2.4.11.3: FRACTION is 0.0001 / SF.
        11 => Some(text.replace(FRACTION, &format!("{:.10}", 0.0001 / scale_factor))),
        _ => Some((*text).to_owned()),
    }
}

const TEXTS: [&str; QUERIES as usize] = [
    include_str!("queries/q01.sql"),
    include_str!("queries/q02.sql"),
    include_str!("queries/q03.sql"),
    include_str!("queries/q04.sql"),
    include_str!("queries/q05.sql"),
    include_str!("queries/q06.sql"),
    include_str!("queries/q07.sql"),
    include_str!("queries/q08.sql"),
    include_str!("queries/q09.sql"),
    include_str!("queries/q10.sql"),
    include_str!("queries/q11.sql"),
    include_str!("queries/q12.sql"),
    include_str!("queries/q13.sql"),
    include_str!("queries/q14.sql"),
    include_str!("queries/q15.sql"),
    include_str!("queries/q16.sql"),
    include_str!("queries/q17.sql"),
    include_str!("queries/q18.sql"),
    include_str!("queries/q19.sql"),
    include_str!("queries/q20.sql"),
    include_str!("queries/q21.sql"),
    include_str!("queries/q22.sql"),
];

#[cfg(test)]
mod tests {
    use super::{QUERIES, query};

    #[test]
    fn every_file_says_which_query_it_is() {
        for number in 1..=QUERIES {
            let text = query(number, 1.0).unwrap();
            assert!(text.starts_with(&format!("-- TPC-H Q{number}: ")), "{text}");
        }
        assert_eq!((query(0, 1.0), query(23, 1.0)), (None, None));
    }

    #[test]
    fn the_fraction_of_query_11_depends_on_the_scale_factor() {
        assert!(query(11, 1.0).unwrap().contains("* 0.0001000000\n"));
        assert!(query(11, 0.01).unwrap().contains("* 0.0100000000\n"));
        assert!(query(11, 300.0).unwrap().contains("* 0.0000003333\n"));
    }
}
