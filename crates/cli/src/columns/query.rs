//! A node that fetches the columns that a query needs from all servers, and answers it.

use super::{Offer, Query, QueryArgs, service_of};
use crate::demo::{decimal, q1_row};
use crate::globals::Globals;
use crate::outcome::{CliError, Verdict};
use crate::output;
use crate::progress::Progress;
use crate::tpch::reference;
use rackweave_endpoint::messaging::MessagingConfig;
use rackweave_endpoint::messaging::columns::{ColumnClientConfig, ColumnData, Reply, Ticket};
use rackweave_rack::messaging::{ColumnReader, dial};
use rackweave_rack::services::wait_within;
use rackweave_rack::{ProcessError, Rack};
use rackweave_workload::columns::{PUBLISHED_Q6_SF1, array, q1, q6, reference_q6};
use rackweave_workload::tpch::{
    ComputeResult, Part, Q1Row, QueryResult, RowCounts, ScaleFactor, published_q1_sf1,
};
use serde::Serialize;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// How long a server may take to accept a connection.
const DIAL_LIMIT: Duration = Duration::from_secs(5);

/// How long the servers may take for the next column, and to confirm the end.
const COLUMN_LIMIT: Duration = Duration::from_secs(60);
const CLOSE_LIMIT: Duration = Duration::from_secs(5);

/// The result.
#[derive(Serialize, Default)]
struct Report {
    query: &'static str,
    node: String,
    scale_factor: f64,
    /// Per server: its node, address, part, rows, and bytes of columns.
    servers: Vec<Value>,
    columns: &'static [&'static str],
    rows: u64,
    bytes: u64,
    fetch_seconds: f64,
    gigabytes_per_second: f64,
    compute_seconds: f64,
    /// The answer of Q6.
    revenue: Option<String>,
    /// The answer of Q1.
    q1: Vec<Value>,
    /// Whether the answer is the one in the TPC-H specification; only at scale factor 1.
    matches_published: Option<bool>,
    problems: Vec<String>,
    interrupted: bool,
    verified: bool,
}

/// Answers the query.
pub fn run(args: &QueryArgs, rack: &Rack, globals: &Globals) -> Result<Verdict, CliError> {
    let (offers, scale) = complete(find(rack)?)?;
    let mut sources = Vec::new();
    for offer in offers {
        sources.push(ColumnSource::connect(rack, offer)?);
    }
    let node = rack.any_node();
    let begun = Instant::now();
    fetch(rack, &mut sources, args.query.columns(), globals)?;
    let fetch_seconds = begun.elapsed().as_secs_f64();
    let bytes = sources.iter().map(|source| source.bytes()).sum();
    let mut report = Report {
        query: args.query.name(),
        node: node.name().to_owned(),
        scale_factor: scale.get(),
        servers: sources.iter().map(ColumnSource::report).collect(),
        columns: args.query.columns(),
        rows: sources.iter().map(|source| source.rows()).sum(),
        bytes,
        fetch_seconds,
        gigabytes_per_second: bytes as f64 / 1e9 / fetch_seconds.max(1e-9),
        interrupted: globals.interrupt.is_set(),
        ..Report::default()
    };
    if !report.interrupted {
        let begun = Instant::now();
        let mut parts = Vec::new();
        for source in sources {
            let name = source.offer.node.clone();
            let part = Answer::over(args.query, source.finish());
            parts.push(part.map_err(|error| CliError::run(format!("{name}: {error}")))?);
        }
        let answer = Answer::merge(args.query, parts);
        report.compute_seconds = begun.elapsed().as_secs_f64();
        answer.judge(args.query, scale, globals, &mut report);
    }
    output::report(globals, "columns", &report)?;
    Ok(Verdict::of(report.verified))
}

/// What all servers of the rack offer.
fn find(rack: &Rack) -> Result<Vec<Offer>, CliError> {
    let mut offers = Vec::new();
    for node in &rack.config().node {
        match rack.backend().call(&service_of(&node.name), Value::Null) {
            Ok(offer) => offers.push(serde_json::from_value(offer)?),
            // It serves no columns.
            Err(ProcessError::Refused(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(offers)
}

/// One server of each part of the table, in order, and the scale factor.
fn complete(offers: Vec<Offer>) -> Result<(Vec<Offer>, ScaleFactor), CliError> {
    let Some(first) = offers.first() else {
        return Err(CliError::run(
            "nobody serves columns; start `rackweave columns serve`",
        ));
    };
    let of = |offer: &Offer| (offer.scale_factor, offer.parts);
    let (scale, parts) = of(first);
    if let Some(other) = offers.iter().find(|other| of(other) != (scale, parts)) {
        return Err(CliError::run(format!(
            "the servers have parts of different tables: {} one of {parts} at scale factor \
             {scale}, {} one of {} at {}",
            first.node, other.node, other.parts, other.scale_factor
        )));
    }
    let mut chosen = Vec::new();
    for part in 1..=parts {
        let found = offers.iter().find(|offer| offer.part == part);
        chosen.push(found.cloned().ok_or_else(|| {
            CliError::run(format!(
                "nobody serves part {part} of {parts}; start `rackweave columns serve --part \
                 {part}/{parts} --scale-factor {scale}`"
            ))
        })?);
    }
    Ok((chosen, ScaleFactor::new(scale)?))
}

/// A server, and what came from it.
struct ColumnSource {
    offer: Offer,
    reader: ColumnReader,
    tickets: Vec<Ticket>,
    /// In the order in which they were requested.
    columns: Vec<Option<ColumnData>>,
}

impl ColumnSource {
    fn connect(rack: &Rack, offer: Offer) -> Result<Self, CliError> {
        let node = rack.any_node().id();
        let config = MessagingConfig::default();
        let made = dial(rack, node, offer.address, config, DIAL_LIMIT);
        let failed = |error| CliError::run(format!("{} at {}: {error}", offer.node, offer.address));
        let connection = made.map_err(failed)?;
        let config = ColumnClientConfig {
            verify: true,
            ..ColumnClientConfig::default()
        };
        Ok(Self {
            reader: ColumnReader::new(connection, config),
            offer,
            tickets: Vec::new(),
            columns: Vec::new(),
        })
    }

    /// Takes the columns that have arrived. Returns how many there were.
    fn poll(&mut self) -> Result<usize, CliError> {
        let mut count = 0;
        while let Some(answer) = self.reader.poll() {
            let at = self.tickets.iter().position(|&it| it == answer.ticket);
            let failed = |error| CliError::run(format!("{}: {error}", self.offer.node));
            match (at, answer.result.map_err(failed)?) {
                (Some(at), Reply::Column(column)) => self.columns[at] = Some(column),
                (at, other) => unreachable!("columns were asked for: {at:?} {other:?}"),
            }
            count += 1;
        }
        Ok(count)
    }

    fn rows(&self) -> u64 {
        let first = self.columns.iter().flatten().next();
        first.map_or(0, |column| column.shape().rows)
    }

    fn bytes(&self) -> u64 {
        self.reader.counters().bytes
    }

    fn report(&self) -> Value {
        json!({
            "node": self.offer.node,
            "address": self.offer.address,
            "part": self.offer.part,
            "rows": self.rows(),
            "bytes": self.bytes(),
        })
    }

    /// Ends the connection; the columns stay.
    fn finish(self) -> Vec<ColumnData> {
        // All columns are here: a server that dies now changes nothing.
        let _gone = self.reader.close(CLOSE_LIMIT);
        self.columns.into_iter().flatten().collect()
    }
}

/// Fetches these columns from all servers at the same time, until the user wants to stop.
fn fetch(
    rack: &Rack,
    sources: &mut [ColumnSource],
    names: &[&str],
    globals: &Globals,
) -> Result<(), CliError> {
    for source in &mut *sources {
        for name in names {
            let ticket = source.reader.begin(name, None)?;
            source.tickets.push(ticket);
            source.columns.push(None);
        }
    }
    let mut progress = Progress::new(globals, "fetching columns");
    let (mut arrived, all) = (0, names.len() * sources.len());
    let node = rack.any_node();
    while arrived < all && !globals.interrupt.is_set() {
        let some = wait_within(&node, COLUMN_LIMIT, || {
            let polled: Result<usize, _> = sources.iter_mut().map(ColumnSource::poll).sum();
            match polled {
                Ok(0) if !globals.interrupt.is_set() => None,
                polled => Some(polled),
            }
        });
        arrived += some.unwrap_or_else(|| {
            let missing = |source: &&ColumnSource| source.columns.contains(&None);
            let silent = sources.iter().filter(missing).map(|it| &*it.offer.node);
            let silent: Vec<_> = silent.collect();
            let silent = silent.join(" and ");
            let limit = COLUMN_LIMIT.as_secs();
            Err(CliError::run(format!(
                "no column came from {silent} for {limit} s"
            )))
        })?;
        progress.set(|| arrived as f64 / all as f64);
    }
    Ok(())
}

/// An answer, over a part of the table or all of it.
#[derive(PartialEq, Debug)]
enum Answer {
    Q1(Vec<Q1Row>),
    /// In ten-thousandths.
    Q6(i128),
}

impl Answer {
    /// The answer over the columns of a part.
    ///
    /// # Errors
    /// If a column is not TPC-H's, in words.
    fn over(query: Query, columns: Vec<ColumnData>) -> Result<Self, String> {
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
    fn merge(query: Query, parts: Vec<Self>) -> Self {
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
    fn judge(self, query: Query, scale: ScaleFactor, globals: &Globals, report: &mut Report) {
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
