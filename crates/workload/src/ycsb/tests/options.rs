//! Names and options: which ones are refused, and the messages.

use super::super::{
    Distribution, Generator, HeapError, HeapLayout, OptionsError, RecordLocation, Workload,
    YcsbOptions,
};

#[test]
fn names_are_read_as_they_are_written() {
    for workload in Workload::ALL {
        assert_eq!(workload.to_string().parse(), Ok(workload));
        assert_eq!(workload.to_string().to_uppercase().parse(), Ok(workload));
        let json = serde_json::to_string(&workload).unwrap();
        assert_eq!(json, format!("\"{workload}\""));
    }
    for distribution in Distribution::ALL {
        assert_eq!(distribution.to_string().parse(), Ok(distribution));
        let json = serde_json::to_string(&distribution).unwrap();
        assert_eq!(json, format!("\"{distribution}\""));
    }
}

#[test]
fn a_wrong_name_tells_the_right_ones() {
    let workload = "g".parse::<Workload>().unwrap_err().to_string();
    let distribution = "zipf".parse::<Distribution>().unwrap_err().to_string();
    for one in Workload::ALL {
        assert!(workload.contains(one.name()), "{workload}");
    }
    for one in Distribution::ALL {
        assert!(distribution.contains(one.name()), "{distribution}");
    }
    assert!(workload.contains("`g`") && distribution.contains("`zipf`"));
}

#[test]
fn only_workload_d_reads_the_latest() {
    for workload in Workload::ALL {
        let options = YcsbOptions {
            workload,
            ..YcsbOptions::default()
        };
        let latest = options.distribution() == Distribution::Latest;
        assert_eq!(latest, workload == Workload::D);
    }
    let options = YcsbOptions {
        distribution: Some(Distribution::Uniform),
        ..YcsbOptions::default()
    };
    assert_eq!(options.distribution(), Distribution::Uniform);
}

#[track_caller]
fn refused(change: impl Fn(&mut YcsbOptions), expected: OptionsError) {
    let mut options = YcsbOptions::default();
    assert_eq!(options.validate(), Ok(()));
    change(&mut options);
    assert_eq!(options.validate(), Err(expected));
    assert_eq!(Generator::new(&options, 0).err(), Some(expected));
}

#[test]
fn options_out_of_range_are_refused() {
    refused(|options| options.records = 0, OptionsError::Records(0));
    let many = u64::MAX;
    refused(
        |options| options.records = many,
        OptionsError::Records(many),
    );
    refused(
        |options| options.operations = many,
        OptionsError::Operations(many),
    );
    refused(|options| options.theta = 1.6, OptionsError::Theta(1.6));
    refused(|options| options.theta = -1.0, OptionsError::Theta(-1.0));
    for size in [0, 24, 33, 1 << 21] {
        refused(
            |options| options.record_size = size,
            OptionsError::RecordSize(size),
        );
    }
    for length in [0, u32::MAX] {
        refused(
            |options| options.scan_length_max = length,
            OptionsError::ScanLength(length),
        );
    }
    let options = YcsbOptions {
        theta: f64::NAN,
        ..YcsbOptions::default()
    };
    assert!(matches!(options.validate(), Err(OptionsError::Theta(_))));
}

#[test]
fn room_is_for_the_inserts_to_come() {
    let mut options = YcsbOptions {
        records: 1000,
        operations: 10_000,
        workload: Workload::D,
        ..YcsbOptions::default()
    };
    // 500 inserts, and 8 times the root of 475.
    assert_eq!(options.records_max(), 1000 + 500 + 175);
    options.operations = 3;
    assert_eq!(options.records_max(), 1003);
    options.workload = Workload::A;
    assert_eq!(options.records_max(), 1000);
}

#[test]
fn options_travel_as_text() {
    let options: YcsbOptions = serde_json::from_str(r#"{"workload":"f","theta":1.1}"#).unwrap();
    assert_eq!((options.workload, options.theta), (Workload::F, 1.1));
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(serde_json::from_str::<YcsbOptions>(&text).unwrap(), options);
    assert!(serde_json::from_str::<YcsbOptions>(r#"{"zipf":1.1}"#).is_err());
}

#[test]
fn records_fill_pages_without_overlap() {
    for (page_size, header, record) in [(4096, 64, 1000), (65536, 32, 1000), (4096, 0, 4096)] {
        let layout = HeapLayout::new(page_size, header, record).unwrap();
        let per_page = u64::from(layout.records_per_page());
        assert_eq!(per_page, u64::from((page_size - header) / record));
        let mut end = RecordLocation { page: 0, offset: 0 };
        for number in 0..3 * per_page + 1 {
            let place = layout.place(number);
            assert!(place.offset >= header && place.offset + record <= page_size);
            assert!(place.offset.is_multiple_of(8));
            assert!(number == 0 || place >= end, "record {number} overlaps");
            assert!(layout.records_of(place.page, u64::MAX).contains(&number));
            assert_eq!(layout.pages(number + 1), place.page + 1);
            end = RecordLocation {
                offset: place.offset + record,
                ..place
            };
        }
        assert_eq!(layout.pages(0), 0);
        assert_eq!(
            layout.records_of(1, per_page + 1),
            per_page..(per_page + 1).min(2 * per_page)
        );
        assert!(layout.records_of(9, per_page).is_empty());
        assert!(layout.records_of(u64::MAX, per_page).is_empty());
    }
}

#[test]
fn layouts_without_room_are_refused() {
    let too_small = |page_size, header_bytes, record_size| {
        let error = HeapError::PageTooSmall {
            page_size,
            header_bytes,
            record_size,
        };
        assert_eq!(
            HeapLayout::new(page_size, header_bytes, record_size),
            Err(error)
        );
    };
    too_small(4096, 64, 4096);
    too_small(64, 128, 32);
    too_small(0, 0, 32);
    assert_eq!(HeapLayout::new(4096, 12, 64), Err(HeapError::Header(12)));
    for size in [0, 16, 36] {
        assert_eq!(
            HeapLayout::new(4096, 64, size),
            Err(HeapError::RecordSize(size))
        );
    }
}
