//! Tests of every service, run on every kind of rack.
//!
//! A test gets a rack without knowing its kind. It runs in one thread, as a rack in virtual time
//! requires, and asserts what services guarantee on any rack. `table` holds README.md to it.

mod columns;
mod exchange;
mod flows;
mod index;
mod messages;
mod nodes;
mod pages;
mod processes;
mod rpc;
mod sequencers;
mod serialised;
mod table;
mod tasks;

use core::time::Duration;
use rackweave_rack::config::StoreConfig;
use rackweave_rack::{Rack, RackConfig};

/// More than any step needs, on however slow a machine.
const AMPLE: Duration = Duration::from_secs(60);

fn config() -> RackConfig {
    let mut config = RackConfig::with_all_programs();
    config.driver_threads = 0;
    config.switch.page_size = 4096;
    config
}

/// It is driven by waiting threads alone.
fn embedded() -> Rack {
    let builder = Rack::builder().config(config());
    builder.build().expect("the rack can be built")
}

fn with_driver() -> Rack {
    let builder = Rack::builder().config(config()).driver_threads(1);
    builder.build().expect("the rack can be built")
}

fn simulated() -> Rack {
    let builder = Rack::builder().config(config()).simulated();
    builder.build().expect("the rack can be built")
}

/// Links lose, duplicate, delay or damage packets, each with this probability.
fn over_bad_links(probability: f64) -> RackConfig {
    let mut config = config();
    let faults = &mut config.faults;
    faults.loss = probability;
    faults.duplicate = probability;
    faults.reorder = probability;
    faults.corrupt = probability;
    config
}

fn simulated_over_bad_links() -> Rack {
    let builder = Rack::builder().config(over_bad_links(1e-4)).simulated();
    builder.build().expect("the rack can be built")
}

/// Links so bad that a few messages meet faults.
const WORSE: f64 = 0.01;

fn embedded_over_worse_links() -> Rack {
    let builder = Rack::builder().config(over_bad_links(WORSE));
    builder.build().expect("the rack can be built")
}

fn simulated_over_worse_links() -> Rack {
    let builder = Rack::builder().config(over_bad_links(WORSE)).simulated();
    builder.build().expect("the rack can be built")
}

fn hosted_over_worse_links() -> processes::Running {
    processes::Running::start(over_bad_links(WORSE))
}

/// The controller is in another thread, and communicates by bytes alone.
fn by_bytes() -> Rack {
    serialised::rack(&embedded())
}

/// Nodes, switch and controller communicate over links and control connections, as processes do;
/// the test is all of the nodes.
fn hosted() -> processes::Running {
    processes::Running::start(config())
}

/// Bytes of the pages of three stores.
const PAGE_SIZES: [u32; 3] = [4 << 10, 16 << 10, 64 << 10];

fn mixed() -> RackConfig {
    let mut config = config();
    let stores = PAGE_SIZES.iter().map(|&size| StoreConfig {
        page_size: Some(size),
        ..StoreConfig::in_memory(format!("of-{size}"), "storage0", 256 * u64::from(size))
    });
    config.store = stores.collect();
    config.switch.page_stores = PAGE_SIZES.len() as u8;
    config
}

fn embedded_with_page_sizes() -> Rack {
    let builder = Rack::builder().config(mixed());
    builder.build().expect("the rack can be built")
}

fn simulated_with_page_sizes() -> Rack {
    let builder = Rack::builder().config(mixed()).simulated();
    builder.build().expect("the rack can be built")
}

fn hosted_with_page_sizes() -> processes::Running {
    processes::Running::start(mixed())
}

// Exchange streams need real time, so they have lists of tests of their own.

fn embedded_exchange() -> Rack {
    embedded()
}

fn embedded_exchange_over_worse_links() -> Rack {
    embedded_over_worse_links()
}

fn with_driver_exchange() -> Rack {
    with_driver()
}

fn simulated_exchange() -> Rack {
    simulated()
}

fn hosted_exchange() -> processes::Running {
    hosted()
}

macro_rules! conforms {
    ($($module:ident: $($test:ident),* $(,)?;)*) => {
        conforms!(@ embedded: $($module: $($test),*;)*);
        conforms!(@ with_driver: $($module: $($test),*;)*);
        conforms!(@ simulated: $($module: $($test),*;)*);
        conforms!(@ simulated_over_bad_links: $($module: $($test),*;)*);
        conforms!(@ by_bytes: $($module: $($test),*;)*);
        conforms!(@ hosted: $($module: $($test),*;)*);
    };
    (@ $kind:ident: $($module:ident: $($test:ident),*;)*) => {
        mod $kind {
            /// The tests that run on these racks.
            pub const TESTS: &[&str] = &[
                $($(concat!(stringify!($module), "::", stringify!($test)),)*)*
            ];
            $(mod $module {
                $(#[test]
                fn $test() {
                    crate::conformance::$module::$test(&crate::conformance::$kind());
                })*
            })*
        }
    };
}

conforms! {
    nodes: are_found_by_name, a_wait_ends_when_it_should, queue_pairs_are_connected;
    flows: a_shuffle_brings_each_item_once, what_flowed_is_counted, replicas_see_one_order,
        members_come_and_go, every_shape_scales_out_and_in, doorbells_need_no_polls,
        one_that_is_closed_says_so, one_that_is_dropped_is_closed,
        each_end_has_one_owner, what_cannot_be_is_refused;
    pages: what_one_node_changes_another_reads,
        a_page_is_read_by_a_lease_until_another_node_changes_it,
        several_pages_are_read_in_one_wait,
        a_latch_keeps_others_out_for_as_long_as_they_wait,
        pages_are_allocated_and_freed, a_closed_store_is_found_closed,
        a_change_that_was_not_taken_is_an_error, a_guard_that_is_dropped_publishes_its_change,
        a_worker_does_not_wait_for_itself;
    tasks: tasks_change_a_page_in_turn, a_task_waits_no_longer_than_it_says,
        tasks_of_a_flow_wait_for_each_other, tasks_ask_an_index_and_a_sequencer;
    index: operations_say_what_was_there, the_three_ways_read_the_same, keys_move,
        an_endpoint_that_died_says_so, datagrams_are_answered, one_that_went_leaves_its_place;
    sequencers: no_number_comes_twice, each_counts_for_itself,
        a_client_that_went_leaves_its_place_to_others,
        the_next_sequencer_begins_where_this_one_ended;
    messages: they_come_once_whole_and_in_order, an_end_that_goes_is_told_of;
    columns: they_come_as_they_were_added,
        one_that_nobody_serves_is_waited_for_no_longer_than_said;
    rpc: a_service_of_ones_own_answers;
}

// What is lost in real time is missed after a while only: messages stand for all services.
conforms!(@ embedded_over_worse_links: messages: they_come_in_spite_of_faults;);
conforms!(@ simulated_over_worse_links: messages: they_come_in_spite_of_faults;);
conforms!(@ hosted_over_worse_links: messages: they_come_in_spite_of_faults;);

conforms!(@ embedded_with_page_sizes: pages: each_store_has_pages_of_its_size;);
conforms!(@ simulated_with_page_sizes: pages: each_store_has_pages_of_its_size;);
conforms!(@ hosted_with_page_sizes: pages: each_store_has_pages_of_its_size;);

conforms!(@ embedded_exchange: exchange: each_stream_has_its_messages_in_order,
    streams_do_not_wait_for_each_other, an_end_is_seen_by_the_peer,
    a_broadcast_is_sent_once, a_stream_that_is_not_read_is_left_behind,
    a_broadcast_goes_on_without_those_that_leave,
    a_node_that_accepts_none_says_so;);
conforms!(@ with_driver_exchange: exchange: each_stream_has_its_messages_in_order,
    streams_do_not_wait_for_each_other;);
conforms!(@ hosted_exchange: exchange: each_stream_has_its_messages_in_order,
    streams_do_not_wait_for_each_other, an_end_is_seen_by_the_peer,
    a_broadcast_is_sent_once, a_stream_that_is_not_read_is_left_behind,
    a_broadcast_goes_on_without_those_that_leave,
    a_node_that_accepts_none_says_so;);
conforms!(@ embedded_exchange_over_worse_links: exchange: each_stream_has_its_messages_in_order,
    streams_do_not_wait_for_each_other, a_broadcast_is_sent_once;);
conforms!(@ simulated_exchange: exchange: there_is_none_in_virtual_time;);
