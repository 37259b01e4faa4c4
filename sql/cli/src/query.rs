//! The queries that a command line names: TPC-H queries by number, and files of SQL.

use crate::error::CommandError;
use crate::{statements, tpch};
use std::ops::RangeInclusive;
use std::path::Path;

/// A statement with a name for reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// `q01` to `q22`, or the file's name, with the position where a file has several statements.
    pub name: String,
    /// The statement.
    pub sql: String,
    /// The number of the TPC-H query, if it is one.
    pub tpch: Option<u8>,
}

/// Parses a list such as `1,3..5,report.sql` or `all`.
///
/// `scale_factor` is that of the data: a parameter of query 11 depends on it.
///
/// # Errors
/// A part that is neither a number from 1 to 22, a range, `all`, nor a file that can be read.
pub fn parse(list: &str, scale_factor: f64) -> Result<Vec<Query>, CommandError> {
    let mut queries = Vec::new();
    for part in list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        if let Some(numbers) = numbers(part) {
            for number in numbers {
                queries.push(tpch_query(number, scale_factor, part)?);
            }
        } else {
            queries.extend(file(part)?);
        }
    }
    if queries.is_empty() {
        return Err(CommandError::set_up(format!(
            "--query {list:?} names no query. {USAGE}"
        )));
    }
    Ok(queries)
}

const USAGE: &str = "Use numbers from 1 to 22, ranges such as 3..5, `all`, or files of SQL, \
                     separated by commas";

fn numbers(part: &str) -> Option<RangeInclusive<u8>> {
    if part == "all" {
        return Some(1..=tpch::QUERIES);
    }
    let number = |text: &str| text.strip_prefix('q').unwrap_or(text).parse().ok();
    match part.split_once("..") {
        Some((first, last)) => Some(number(first)?..=number(last)?),
        None => number(part).map(|number| number..=number),
    }
}

fn tpch_query(number: u8, scale_factor: f64, part: &str) -> Result<Query, CommandError> {
    let sql = tpch::query(number, scale_factor).ok_or_else(|| {
        CommandError::set_up(format!(
            "there is no TPC-H query {number} (in {part:?}). {USAGE}"
        ))
    })?;
    Ok(Query {
        name: format!("q{number:02}"),
        sql,
        tpch: Some(number),
    })
}

fn file(path: &str) -> Result<Vec<Query>, CommandError> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        CommandError::set_up(format!(
            "cannot read the query file {path:?}: {error}. {USAGE}"
        ))
    })?;
    let name = Path::new(path)
        .file_name()
        .unwrap_or_default()
        .to_string_lossy();
    let statements = statements::statements(&text);
    let several = statements.len() > 1;
    let query = |(index, sql): (usize, &&str)| Query {
        name: if several {
            format!("{name}:{}", index + 1)
        } else {
            name.to_string()
        },
        sql: (*sql).to_owned(),
        tpch: None,
    };
    Ok(statements.iter().enumerate().map(query).collect())
}

#[cfg(test)]
mod tests {
    use super::parse;

    fn names(list: &str) -> Vec<String> {
        parse(list, 1.0)
            .unwrap()
            .into_iter()
            .map(|query| query.name)
            .collect()
    }

    #[test]
    fn numbers_ranges_and_all() {
        assert_eq!(names("1,q22, 3..5"), ["q01", "q22", "q03", "q04", "q05"]);
        assert_eq!(names("all").len(), 22);
    }

    #[test]
    fn files_have_several_statements() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("two.sql");
        std::fs::write(&path, "select 1; select 2;").unwrap();
        assert_eq!(names(path.to_str().unwrap()), ["two.sql:1", "two.sql:2"]);
    }

    #[test]
    fn errors_say_what_to_use() {
        for list in ["23", "0", "", "5..23", "missing.sql", "5..", "300"] {
            let error = parse(list, 1.0).unwrap_err();
            assert_eq!(error.exit_status(), 2, "{list}");
            assert!(
                error.to_string().contains("numbers from 1 to 22"),
                "{list}: {error}"
            );
        }
    }
}
