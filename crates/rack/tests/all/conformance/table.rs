//! README.md's table of what works on which kind of rack, held to the tests that there are: it says
//! "yes" where every test of the row is run, and "–" where none is.

use super::{
    by_bytes, embedded, embedded_exchange, embedded_exchange_over_worse_links,
    embedded_over_worse_links, embedded_with_page_sizes, hosted, hosted_exchange,
    hosted_over_worse_links, hosted_with_page_sizes, simulated, simulated_exchange,
    simulated_over_bad_links, simulated_over_worse_links, simulated_with_page_sizes, with_driver,
    with_driver_exchange,
};
use std::path::Path;

/// Racks of each column of the table, by the tests that run on them.
type Columns = [&'static [&'static [&'static str]]; 3];

const RACKS: Columns = [
    &[embedded::TESTS, with_driver::TESTS, by_bytes::TESTS],
    &[simulated::TESTS, simulated_over_bad_links::TESTS],
    &[hosted::TESTS],
];

/// Those whose links have faults.
const BAD_LINKS: Columns = [
    &[embedded_over_worse_links::TESTS],
    &[simulated_over_worse_links::TESTS],
    &[hosted_over_worse_links::TESTS],
];

/// Those whose stores have several page sizes.
const PAGE_SIZES: Columns = [
    &[embedded_with_page_sizes::TESTS],
    &[simulated_with_page_sizes::TESTS],
    &[hosted_with_page_sizes::TESTS],
];

/// Those with exchange streams, which need real time.
const EXCHANGE: Columns = [
    &[
        embedded_exchange::TESTS,
        with_driver_exchange::TESTS,
        embedded_exchange_over_worse_links::TESTS,
    ],
    &[simulated_exchange::TESTS],
    &[hosted_exchange::TESTS],
];

/// A test of another crate: the file, and the function.
type Other = (&'static str, &'static str);

/// What a row rests on.
enum Proof {
    /// Tests of this suite.
    Suite(Columns, &'static [&'static str]),
    /// Per column the text of the cell, and the test.
    Others([Option<(&'static str, Other)>; 3]),
}

use Proof::{Others, Suite};

/// The rows, in the order of the table, without links.
const ROWS: [(&str, Proof); 13] = [
    (
        "flows: shuffle",
        Suite(RACKS, &["flows::a_shuffle_brings_each_item_once"]),
    ),
    (
        "flows: balancing, replication, weights, members that come and go",
        Suite(
            RACKS,
            &[
                "flows::replicas_see_one_order",
                "flows::members_come_and_go",
                "flows::every_shape_scales_out_and_in",
            ],
        ),
    ),
    (
        "flows: doorbells",
        Suite(RACKS, &["flows::doorbells_need_no_polls"]),
    ),
    (
        "pages on NVMe-oF targets and in the nodes' memory",
        Suite(
            RACKS,
            &[
                "pages::what_one_node_changes_another_reads",
                "pages::pages_are_allocated_and_freed",
                "pages::a_closed_store_is_found_closed",
            ],
        ),
    ),
    (
        "pages of several sizes",
        Suite(PAGE_SIZES, &["pages::each_store_has_pages_of_its_size"]),
    ),
    (
        "index: a B+tree by RPC or one-sided READs, rebalanced online",
        Suite(
            RACKS,
            &["index::operations_say_what_was_there", "index::keys_move"],
        ),
    ),
    (
        "index in the network",
        Suite(
            RACKS,
            &[
                "index::the_three_ways_read_the_same",
                "index::datagrams_are_answered",
            ],
        ),
    ),
    (
        "sequencers, calls",
        Suite(
            RACKS,
            &[
                "sequencers::no_number_comes_twice",
                "rpc::a_service_of_ones_own_answers",
            ],
        ),
    ),
    (
        "messages, columns",
        Suite(
            RACKS,
            &[
                "messages::they_come_once_whole_and_in_order",
                "columns::they_come_as_they_were_added",
            ],
        ),
    ),
    (
        "exchange streams",
        Suite(
            EXCHANGE,
            &[
                "exchange::each_stream_has_its_messages_in_order",
                "exchange::streams_do_not_wait_for_each_other",
            ],
        ),
    ),
    (
        "C and C++",
        // Each example runs in a rack of its own, and joins a running one.
        Others([
            Some(("yes", ("capi/tests/all/installed.rs", "pages_in_cpp"))),
            None,
            Some(("yes", ("capi/tests/all/installed.rs", "pages_in_cpp"))),
        ]),
    ),
    (
        "faults on links",
        Suite(BAD_LINKS, &["messages::they_come_in_spite_of_faults"]),
    ),
    (
        "figures of five papers",
        Others([
            Some((
                "communication tier",
                (
                    "bench/src/experiment/communication/embedded/tests.rs",
                    "the_figures_of_the_communication_tier_can_be_measured",
                ),
            )),
            Some((
                "all",
                ("cli/tests/all/figures.rs", "the_list_has_every_figure"),
            )),
            None,
        ]),
    ),
];

#[test]
fn the_table_of_what_works_where_is_what_the_tests_say() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read = |path: &Path| std::fs::read_to_string(path).expect("the file is there");
    let readme = read(&crates.join("../README.md"));
    let expected: Vec<String> = ROWS
        .iter()
        .map(|row| {
            line(row, &|(file, test)| {
                let is_there = read(&crates.join(file)).contains(&format!("fn {test}("));
                assert!(is_there, "{file} has no test {test}");
            })
        })
        .collect();
    assert_eq!(table(&readme), expected);
}

/// A row of the table as it has to be.
fn line((name, proof): &(&str, Proof), exists: &dyn Fn(Other)) -> String {
    let cells = match proof {
        Suite(columns, tests) => columns.map(|racks| {
            let on_all = |test: &&&str| racks.iter().all(|rack| rack.contains(test));
            match tests.iter().filter(on_all).count() {
                0 => "–",
                some if some == tests.len() => "yes",
                _ => "in part",
            }
        }),
        Others(columns) => columns.map(|column| {
            column.map_or("–", |(cell, test)| {
                exists(test);
                cell
            })
        }),
    };
    format!("| {name} | {} |", cells.join(" | "))
}

/// The rows of the table in the README, without links.
fn table(readme: &str) -> Vec<String> {
    let from = "| | embedded | simulated | hosted |\n|---|---|---|---|\n";
    let (_, rows) = readme.split_once(from).expect("the README has the table");
    let rows = rows.lines().take_while(|line| line.starts_with('|'));
    rows.map(without_links).collect()
}

/// The text with `[words](address)` as words.
fn without_links(text: &str) -> String {
    let mut parts = text.split("](");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        plain += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    plain.replace('[', "")
}
