//! Messages about columns: golden bytes, round trips, and garbage.

use super::*;
use proptest::prelude::*;

fn decimals() -> ColumnShape {
    let data_type = DataType::Decimal128 {
        precision: 15,
        scale: 2,
    };
    ColumnShape::new(data_type, 9, 1, 0).unwrap()
}

#[test]
fn requests_as_they_lie_in_messages() {
    let ask = Ask {
        request: 0x0102_0304,
        known: Some(0x1112_1314_1516_1718),
        name: "a.b",
    };
    let mut bytes = Vec::new();
    ask.emit(&mut bytes).unwrap();
    let golden = [
        4, 3, 2, 1, 1, 1, 3, 0, 0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, b'a', b'.', b'b',
    ];
    assert_eq!(bytes, golden);
    assert_eq!(Ask::parse(&golden), Ok(ask));
    let list = AskList { request: 7 };
    assert_eq!(list.emit(), [7, 0, 0, 0, 1, 0, 0, 0]);
    assert_eq!(AskList::parse(&list.emit()), Ok(list));
}

#[test]
fn short_answers_as_they_lie_in_messages() {
    let unchanged = Unchanged {
        request: 2,
        version: 0x0506,
    };
    let golden = [2, 0, 0, 0, 1, 0, 0, 0, 6, 5, 0, 0, 0, 0, 0, 0];
    assert_eq!(unchanged.emit(), golden);
    assert_eq!(Unchanged::parse(&golden), Ok(unchanged));
    let refused = Refused {
        request: 3,
        code: RefusalCode::TOO_LONG,
        text: "no",
    };
    let mut bytes = Vec::new();
    refused.emit(&mut bytes);
    assert_eq!(bytes, [3, 0, 0, 0, 1, 0, 2, 0, b'n', b'o']);
    assert_eq!(Refused::parse(&bytes), Ok(refused));
}

#[test]
fn a_columns_header_as_it_lies_in_messages() {
    let header = ColumnHeader {
        request: 0x0a0b,
        version: 0x2122_2324_2526_2728,
        shape: decimals(),
    };
    let mut golden = [0; COLUMN_HEADER_LEN];
    golden[..5].copy_from_slice(&[0xb, 0xa, 0, 0, 1]);
    golden[8..11].copy_from_slice(&[6, 15, 2]);
    golden[16] = 9;
    golden[24] = 1;
    golden[32..40].copy_from_slice(&[0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21]);
    golden[40] = 2;
    golden[56] = 144;
    assert_eq!(header.emit(), golden);
    assert_eq!(ColumnHeader::parse(&golden), Ok(header));
    // The validity takes a line of 64 bytes, the values three.
    assert_eq!(header.shape.range_of(Buffer::Validity), 0..2);
    assert_eq!(header.shape.range_of(Buffer::Offsets), 64..64);
    assert_eq!(header.shape.range_of(Buffer::Values), 64..208);
    assert_eq!(header.total(), 64 + 64 + 192);
    assert_eq!(header.check(320), Ok(()));
    let wrong = ColumnError::Length {
        expected: 320,
        found: 319,
    };
    assert_eq!(header.check(319), Err(wrong));
}

#[test]
fn a_list_as_it_lies_in_messages() {
    let mut bytes = ListHeader {
        request: 5,
        count: 1,
    }
    .emit()
    .to_vec();
    let entry = ListEntry {
        name: "t",
        version: 9,
        shape: ColumnShape::new(DataType::Utf8, 2, 0, 300).unwrap(),
    };
    entry.emit(&mut bytes).unwrap();
    let mut golden = vec![5, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    golden.extend([7, 0, 0, 0, 1, 0, 0, 0]);
    for number in [2u64, 0, 9, 300] {
        golden.extend(number.to_le_bytes());
    }
    golden.push(b't');
    assert_eq!(bytes, golden);
    assert_eq!(list_entries(&golden), Ok((5, vec![entry])));
    golden.push(0);
    assert!(list_entries(&golden).is_err());
    golden.truncate(golden.len() - 2);
    assert!(list_entries(&golden).is_err());
    // More entries than could ever follow are an error, not memory.
    golden[8..16].fill(0xff);
    assert!(list_entries(&golden).is_err());
}

#[test]
fn shapes_that_contradict_themselves_are_refused() {
    let check = |change: &dyn Fn(&mut ColumnShape), expect: ColumnError| {
        let mut shape = decimals();
        change(&mut shape);
        assert_eq!(shape.check(), Err(expect));
        let header = ColumnHeader {
            request: 1,
            version: 1,
            shape,
        };
        assert_eq!(ColumnHeader::parse(&header.emit()), Err(expect));
    };
    let wrong = |buffer, expected, found| ColumnError::BufferLength {
        buffer,
        expected,
        found,
    };
    check(&|s| s.rows = 10, wrong(Buffer::Values, 160, 144));
    check(
        &|s| s.rows = u64::MAX,
        ColumnError::Rows { found: u64::MAX },
    );
    check(&|s| s.nulls = 0, wrong(Buffer::Validity, 0, 2));
    check(&|s| s.nulls = 10, ColumnError::Nulls { nulls: 10, rows: 9 });
    check(&|s| s.lengths[1] = 4, wrong(Buffer::Offsets, 0, 4));
    check(
        &|s| s.data_type = DataType::Utf8,
        wrong(Buffer::Offsets, 40, 0),
    );
    let texts = ColumnShape::new(DataType::Utf8, 1, 0, TEXT_BYTES_MAX + 1);
    let found = TEXT_BYTES_MAX + 1;
    assert_eq!(texts, Err(wrong(Buffer::Values, TEXT_BYTES_MAX, found)));
    let none = ColumnShape::new(DataType::Utf8, 0, 0, 1);
    assert_eq!(none, Err(wrong(Buffer::Values, 0, 1)));
}

#[test]
fn types_there_and_back_and_none_else() {
    let mut known = 0;
    for tag in 0..=255 {
        for precision in 0..=40 {
            for scale in [-128i8, -39, -38, -1, 0, 1, 15, 38, 39, 127] {
                let bytes = [tag, precision, scale as u8, 0];
                let Ok(data_type) = DataType::parse(bytes) else {
                    continue;
                };
                known += 1;
                assert_eq!(data_type.emit(), bytes);
            }
        }
    }
    // Six without digits, and decimals of 1 to 38 digits with -38, -1 and 0 and those of 1, 15 and
    // 38 digits after the point that fit.
    assert_eq!(known, 6 + 38 * 3 + 38 + 24 + 1);
    assert!(DataType::parse([2, 0, 0, 1]).is_err());
}

#[test]
fn names_have_a_length() {
    let long = "x".repeat(NAME_MAX + 1);
    for (name, found) in [("", 0), (long.as_str(), NAME_MAX + 1)] {
        let ask = Ask {
            request: 0,
            known: None,
            name,
        };
        assert_eq!(ask.emit(&mut Vec::new()), Err(ColumnError::Name { found }));
    }
    let mut bytes = Vec::new();
    let ask = Ask {
        request: 0,
        known: None,
        name: &long[1..],
    };
    ask.emit(&mut bytes).unwrap();
    assert_eq!(Ask::parse(&bytes), Ok(ask));
    bytes[20] = 0xff;
    assert_eq!(Ask::parse(&bytes), Err(ColumnError::NotText));
}

#[test]
fn texts_of_refusals_are_cut_between_characters() {
    let text = "\u{20ac}".repeat(400);
    let mut bytes = Vec::new();
    Refused {
        request: 0,
        code: RefusalCode(77),
        text: &text,
    }
    .emit(&mut bytes);
    let read = Refused::parse(&bytes).unwrap();
    assert_eq!((read.code, read.text.len()), (RefusalCode(77), 1023));
}

#[test]
fn versions_are_those_of_ever() {
    let header = |rows| ColumnHeader {
        request: 1,
        version: 2,
        shape: ColumnShape::new(DataType::Int64, rows, 0, 0).unwrap(),
    };
    let bytes: Vec<u8> = (0..128).collect();
    // Nodes of different builds compare them. The value is from another implementation of the
    // definition.
    assert_eq!(header(16).version_of(&bytes), 0xd792_ec61_da80_1094);
    assert_eq!(header(0).version_of(&[]), 0x1d83_3f75_f2d1_715e);
    // Neither request nor version count; type, rows and each bit do.
    let other = ColumnHeader {
        request: 9,
        version: 9,
        ..header(16)
    };
    let whole = other.version_of(&bytes);
    assert_eq!(whole, header(16).version_of(&bytes));
    assert_ne!(whole, header(15).version_of(&bytes));
    for bit in 0..bytes.len() * 8 {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        assert_ne!(whole, header(16).version_of(&bytes), "bit {bit}");
    }
}

proptest! {
    #[test]
    fn a_checksum_does_not_depend_on_the_pieces(
        bytes in proptest::collection::vec(any::<u8>(), 0..400),
        cuts in proptest::collection::vec(1usize..100, 1..20),
    ) {
        let header = ColumnHeader { request: 0, version: 0, shape: decimals() };
        let mut sum = Checksum::new(&header);
        let mut rest = &bytes[..];
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (now, later) = rest.split_at(rest.len().min(*cut));
            sum.update(now);
            rest = later;
        }
        prop_assert_eq!(sum.finish(), header.version_of(&bytes));
    }

    #[test]
    fn what_is_read_is_written_the_same(
        mut bytes in proptest::collection::vec(any::<u8>(), 0..90),
    ) {
        // Random bytes reach most layouts only if this byte is right.
        if bytes.len() > 4 {
            bytes[4] = LAYOUT;
        }
        if let Ok(ask) = Ask::parse(&bytes) {
            let mut again = Vec::new();
            ask.emit(&mut again).unwrap();
            prop_assert_eq!(&again, &bytes);
        }
        if let Ok(refused) = Refused::parse(&bytes) {
            let mut again = Vec::new();
            refused.emit(&mut again);
            prop_assert_eq!(&again, &bytes);
        }
        if let Ok(header) = ColumnHeader::parse(&bytes) {
            prop_assert_eq!(&header.emit()[..], &bytes[..]);
        }
        let _ = (AskList::parse(&bytes), Unchanged::parse(&bytes), list_entries(&bytes));
    }

    #[test]
    fn headers_of_all_shapes_there_and_back(
        tag in 1u8..=7, precision in 1u8..=38, rows in 0u64..1 << 40, nulls: u64,
        text_bytes in 0..=TEXT_BYTES_MAX, request: u32, version: u64,
    ) {
        let digits = if tag == 6 { precision } else { 0 };
        let data_type = DataType::parse([tag, digits, digits / 2, 0]).unwrap();
        let text_bytes = if rows == 0 { 0 } else { text_bytes };
        let nulls = nulls % (rows + 1);
        let shape = ColumnShape::new(data_type, rows, nulls, text_bytes).unwrap();
        let header = ColumnHeader { request, version, shape };
        prop_assert_eq!(ColumnHeader::parse(&header.emit()), Ok(header));
        prop_assert!(header.total().is_multiple_of(BUFFER_ALIGN));
        let mut end = 0;
        for buffer in Buffer::ALL {
            let range = shape.range_of(buffer);
            prop_assert!(range.start >= end && range.start.is_multiple_of(BUFFER_ALIGN));
            end = range.end;
        }
        prop_assert!(end <= shape.bytes() && shape.bytes() < end + BUFFER_ALIGN);
    }
}
