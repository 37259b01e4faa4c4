//! Runs tests one after the other and keeps their results.

use crate::failure::Outcome;
use std::time::{Duration, Instant};

/// The tests run so far.
pub struct Suite {
    filter: Option<String>,
    results: Vec<TestResult>,
}

struct TestResult {
    name: String,
    time: Duration,
    passed: bool,
}

impl Suite {
    /// Creates a suite that runs only the tests whose name contains `filter`.
    pub fn new(filter: Option<String>) -> Self {
        Self {
            filter,
            results: Vec::new(),
        }
    }

    /// Runs a test, unless it is filtered out, and reports it in one line.
    pub fn run(&mut self, name: &str, test: impl FnOnce() -> Outcome) {
        let filter = self.filter.as_deref();
        if filter.is_none_or(|filter| name.contains(filter)) {
            self.check(name, test);
        }
    }

    /// The same for checks that run whatever the filter is.
    pub fn check(&mut self, name: &str, test: impl FnOnce() -> Outcome) {
        let start = Instant::now();
        let outcome = test();
        let time = start.elapsed();
        let seconds = time.as_secs_f64();
        match &outcome {
            Ok(()) => println!("pass  {seconds:7.2} s  {name}"),
            Err(failure) => println!("FAIL  {seconds:7.2} s  {name}: {failure}"),
        }
        self.results.push(TestResult {
            name: name.to_owned(),
            time,
            passed: outcome.is_ok(),
        });
    }

    /// Reports the total; true if there were tests and all have passed.
    pub fn finish(&self) -> bool {
        let failed: Vec<&TestResult> = self.results.iter().filter(|r| !r.passed).collect();
        let time: Duration = self.results.iter().map(|result| result.time).sum();
        let (count, seconds) = (self.results.len(), time.as_secs_f64());
        println!("{count} tests, {} failed, {seconds:.1} s", failed.len());
        for result in &failed {
            println!("  failed: {}", result.name);
        }
        failed.is_empty() && count > 0
    }
}
