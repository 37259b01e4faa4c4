//! Answers over columns, and the judgement on them.

use super::Report;
use crate::columns::args::Query;
use crate::demo::{decimal, q1_row};
use crate::globals::Globals;
use crate::tpch::reference;
use rackweave_endpoint::messaging::columns::ColumnData;
use rackweave_workload::columns::{PUBLISHED_Q6_SF1, array, q1, q6, reference_q6};
use rackweave_workload::tpch::{
    ComputeResult, Part, Q1Row, QueryResult, RowCounts, ScaleFactor, published_q1_sf1,
};

/// An answer, over a part of the table or all of it.
#[derive(PartialEq, Debug)]
pub enum Answer {
    Q1(Vec<Q1Row>),
    /// In ten-thousandths.
    Q6(i128),
}

impl Answer {
    /// The answer over the columns of a part.
    ///
    /// # Errors
    /// If a column is not TPC-H's, in words.
    pub fn over(query: Query, columns: Vec<ColumnData>) -> Result<Self, String> {
        let arrays = columns
            .into_iter()
            .map(array)
            .collect::<Result<Vec<_>, _>>();
        let arrays = arrays.map_err(|error| error.to_string())?;
        let all = "the query's columns were asked for, and all came";
        let answer = match query {
            Query::Q1 => q1(&arrays.try_into().expect(all)).map(Self::Q1),
            Query::Q6 => q6(&arrays.try_into().expect(all)).map(Self::Q6),
        };
        answer.map_err(|error| error.to_string())
    }

    /// The answer over the parts' whole.
    pub fn merge(query: Query, parts: Vec<Self>) -> Self {
        let (mut groups, mut revenue) = (Vec::new(), 0i128);
        for part in parts {
            match part {
                Self::Q1(q1) => groups.push(ComputeResult {
                    rows: RowCounts::default(),
                    q1,
                    join: Vec::new(),
                }),
                Self::Q6(part) => revenue = revenue.wrapping_add(part),
            }
        }
        match query {
            Query::Q1 => Self::Q1(QueryResult::merge(groups).q1),
            Query::Q6 => Self::Q6(revenue),
        }
    }

    /// Enters the answer, compares it with a direct computation over the same rows, and with the
    /// specification where that has an answer.
    pub fn judge(self, query: Query, scale: ScaleFactor, globals: &Globals, report: &mut Report) {
        let expected = match query {
            Query::Q1 => Self::Q1(reference(scale, globals).q1),
            Query::Q6 => Self::Q6(reference_q6(scale, Part::WHOLE)),
        };
        if self != expected {
            let problem = "the answer differs from the direct computation";
            report.problems.push(problem.into());
        }
        #[expect(
            clippy::float_cmp,
            reason = "only exactly scale factor 1 has a published answer"
        )]
        if scale.get() == 1.0 {
            let matches = match &self {
                Self::Q1(rows) => rows.iter().map(Q1Row::rounded).eq(published_q1_sf1()),
                Self::Q6(revenue) => *revenue == PUBLISHED_Q6_SF1,
            };
            report.matches_published = Some(matches);
            if !matches {
                let problem = "the answer differs from what the TPC-H specification publishes";
                report.problems.push(problem.into());
            }
        }
        match self {
            Self::Q1(rows) => report.q1 = rows.iter().map(q1_row).collect(),
            Self::Q6(revenue) => report.revenue = Some(decimal(revenue, 4)),
        }
        report.verified = report.problems.is_empty();
    }
}
