//! Formats numbers and times, short enough for a column.

/// A number with three digits and a decimal prefix: `0`, `12.3k`, `4.56M`.
pub fn si(number: f64) -> String {
    if number.abs() < 0.005 {
        return "0".to_owned();
    }
    let (mut scaled, mut prefix) = (number, "");
    for next in ["k", "M", "G", "T", "P"] {
        // A number that would be rounded to 1000 gets the next prefix.
        if scaled.abs() < 999.5 {
            break;
        }
        (scaled, prefix) = (scaled / 1000.0, next);
    }
    let decimals = match (scaled.abs(), prefix) {
        (size, _) if size >= 99.95 => 0,
        // Whole numbers have no decimals.
        (size, "") if size.fract() == 0.0 => 0,
        (size, _) if size >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.decimals$}{prefix}")
}

/// A number with a prefix and a unit: `12.3 kB`.
pub fn with_unit(number: f64, unit: &str) -> String {
    let short = si(number);
    let digits = short.trim_end_matches(char::is_alphabetic);
    let prefix = &short[digits.len()..];
    format!("{digits} {prefix}{unit}")
}

/// Bits per second of bytes per second.
pub fn bits(bytes_per_s: f64) -> String {
    si(bytes_per_s * 8.0)
}

/// Nodes that a flow connects, without duplicates, with the number of ends at each; if they do not
/// fit, all but the first are only counted.
pub fn ends(nodes: &[String], width: usize) -> String {
    let mut counted: Vec<(&str, usize)> = Vec::new();
    for node in nodes {
        match counted.iter_mut().find(|(name, _)| name == node) {
            Some((_, count)) => *count += 1,
            None => counted.push((node, 1)),
        }
    }
    let reported = counted.iter().map(|&(name, count)| match count {
        1 => name.to_owned(),
        _ => format!("{count}×{name}"),
    });
    let all = reported.collect::<Vec<_>>().join(" ");
    match counted.first() {
        Some((first, _)) if counted.len() > 1 && all.chars().count() > width => {
            format!("{first} +{}", counted.len() - 1)
        }
        _ => all,
    }
}

/// A part of a whole, in percent; a dash if the whole is zero.
pub fn share(part: f64, whole: f64) -> String {
    match whole > 0.0 {
        true => format!("{:.1} %", 100.0 * part / whole),
        false => "-".to_owned(),
    }
}

/// Seconds in the form `1:02` or `1:02:03`.
pub fn clock(seconds: f64) -> String {
    let all = seconds.max(0.0) as u64;
    let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// Bytes in the largest unit that divides them: `64 KiB`, `100 bytes`.
pub fn binary(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let divides = |(bits, _): &(u32, &str)| bytes > 0 && bytes.trailing_zeros() >= *bits;
    match units.into_iter().find(divides) {
        Some((bits, unit)) => format!("{} {unit}", bytes >> bits),
        None => format!("{bytes} bytes"),
    }
}

/// The depth to which switches led a query.
pub fn depth(depth: usize) -> String {
    match depth {
        0 => "to the root".to_owned(),
        1 => "below the fat root".to_owned(),
        2 => "below 1 layer".to_owned(),
        more => format!("below {} layers", more - 1),
    }
}

/// The kinds of replies of the page directory, in a readable order, each in words, and whether it
/// is one reply per request. The names are those of `rackweave_programs::pages::PageCounters`.
pub const ANSWERS: [(&str, &str, bool); 22] = [
    ("local", "own copy is current", true),
    ("memory", "from another's memory", true),
    ("storage", "from the SSD", true),
    ("verified", "latch word asked for", true),
    ("unfixed", "given back, changed", true),
    ("released", "given back unchanged", true),
    ("written", "to the SSD", true),
    ("flushed", "SSD's cache emptied", true),
    ("revoked", "leases are revoked", true),
    ("locked", "another has the latch", true),
    ("not_indexed", "not indexed", true),
    ("busy", "busy, ask again", true),
    ("superseded", "newer elsewhere", true),
    ("not_holder", "latch is not its own", true),
    ("lost", "lost with its node", true),
    ("not_member", "store is not its own", true),
    ("slot_busy", "slot still in use", true),
    ("invalid", "makes no sense", true),
    ("housekeeping", "of the channel itself", true),
    ("leased", "leases given", false),
    ("repeated", "asked again", false),
    ("dropped_meanwhile", "dropped meanwhile", false),
];

#[cfg(test)]
mod tests;
