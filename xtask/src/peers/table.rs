//! The table: for each row what is ours, what is theirs, and the ratio.

use super::row::{Quantity, Row};
use std::fmt::Write;

/// The numbers of one contender, one for each round.
#[derive(Clone, Default, Debug)]
pub struct Series {
    pub numbers: Vec<f64>,
}

/// The comparison with one peer.
pub struct Line<'a> {
    pub row: &'a Row,
    /// Its position in the row's peers.
    pub peer: usize,
    pub ours: &'a Series,
    /// Why there are no numbers, or the numbers.
    pub theirs: Result<&'a Series, &'a str>,
}

impl Series {
    /// The middle one, or the mean of the two in the middle.
    pub fn median(&self) -> Option<f64> {
        let sorted = self.sorted();
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            len if len % 2 == 1 => Some(sorted[middle]),
            _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
        }
    }

    fn sorted(&self) -> Vec<f64> {
        let mut sorted = self.numbers.clone();
        sorted.sort_by(f64::total_cmp);
        sorted
    }

    /// The median, and the smallest and the largest.
    fn text(&self) -> String {
        let sorted = self.sorted();
        match (self.median(), sorted.first(), sorted.last()) {
            (Some(median), Some(&least), Some(&most)) => {
                let [median, least, most] = [median, least, most].map(short);
                format!("{median} ({least} to {most})")
            }
            _ => "-".to_owned(),
        }
    }
}

/// The median of the ratios of rounds, as both sides of a round ran after each other.
fn ratio(quantity: Quantity, ours: &Series, theirs: &Series) -> Option<f64> {
    let pairs = ours.numbers.iter().zip(&theirs.numbers);
    let numbers = pairs
        .map(|(&ours, &theirs)| quantity.ratio(ours, theirs))
        .collect();
    Series { numbers }.median()
}

/// Three digits that count.
fn short(number: f64) -> String {
    match number {
        number if number >= 99.95 => format!("{number:.0}"),
        number if number >= 9.995 => format!("{number:.1}"),
        number if number >= 0.0995 => format!("{number:.2}"),
        number => format!("{number:.4}"),
    }
}

/// The whole table, with the remarks below it.
pub fn print(lines: &[Line<'_>]) -> String {
    let mut cells =
        vec![["row", "unit", "ours", "by", "theirs", "by", "ratio", "what"].map(String::from)];
    let mut remarks: Vec<&str> = Vec::new();
    for line in lines {
        let (row, peer) = (line.row, &line.row.peers[line.peer]);
        let mark = match row.remark {
            "" => String::new(),
            remark => {
                let known = remarks.iter().position(|known| *known == remark);
                let at = known.unwrap_or_else(|| {
                    remarks.push(remark);
                    remarks.len() - 1
                });
                format!(" [{}]", at + 1)
            }
        };
        let (theirs, ratio) = match line.theirs {
            Ok(theirs) => (theirs.text(), ratio(row.quantity, line.ours, theirs)),
            Err(reason) => (reason.to_owned(), None),
        };
        cells.push([
            format!("{}{mark}", row.name),
            row.quantity.symbol().to_owned(),
            line.ours.text(),
            row.ours.threads.to_owned(),
            theirs,
            peer.threads.to_owned(),
            ratio.map_or("-".to_owned(), short),
            peer.name.to_owned(),
        ]);
    }
    let width = |column: usize| cells.iter().map(|row| row[column].chars().count()).max();
    let widths: [usize; 8] = std::array::from_fn(|column| width(column).unwrap_or_default());
    let mut text = String::new();
    for row in &cells {
        let padded = row.iter().zip(widths);
        let padded: Vec<_> = padded
            .map(|(cell, width)| format!("{cell:width$}"))
            .collect();
        let _ = writeln!(text, "{}", padded.join("  ").trim_end());
    }
    text += "\nMedians, with the smallest and the largest of the rounds. Ratio: how many times as fast \
        ours is,\nabove 1 ours is faster; the median of the rounds' ratios. 2t: two threads of one \
        process; 2p: two\nprocesses of one thread each.\n";
    for (at, remark) in remarks.iter().enumerate() {
        let _ = writeln!(text, "[{}] {remark}", at + 1);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    fn series(numbers: &[f64]) -> Series {
        Series {
            numbers: numbers.to_vec(),
        }
    }

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(series(&[]).median(), None);
        assert_eq!(series(&[3.0, 1.0, 2.0]).median(), Some(2.0));
        assert_eq!(series(&[4.0, 1.0, 2.0, 3.0]).median(), Some(2.5));
        assert_eq!(series(&[1.0, 120.4, 0.05]).text(), "1.00 (0.0500 to 120)");
    }

    #[test]
    fn the_ratio_is_that_of_rounds_and_of_speed() {
        let (ours, theirs) = (series(&[2.0, 20.0, 6.0]), series(&[1.0, 10.0, 2.0]));
        assert_eq!(ratio(Quantity::Rate, &ours, &theirs), Some(2.0));
        assert_eq!(ratio(Quantity::Latency, &ours, &theirs), Some(0.5));
        assert_eq!(ratio(Quantity::Rate, &ours, &series(&[])), None);
    }

    #[test]
    fn what_is_missing_is_named() {
        let row = &ROWS[0];
        let ours = series(&[50.0, 52.0, 51.0]);
        let theirs = series(&[0.5, 0.6, 0.51]);
        let line = |peer, theirs| Line {
            row,
            peer,
            ours: &ours,
            theirs,
        };
        let text = print(&[
            line(0, Ok(&theirs)),
            line(1, Err("apt-get install ucx-utils")),
        ]);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "row        unit  ours                 by  theirs                     by  ratio   what",
                "ping-pong  us    51.0 (50.0 to 52.0)  2t  0.51 (0.50 to 0.60)        2p  0.0100  UCX tag_lat",
                "ping-pong  us    51.0 (50.0 to 52.0)  2t  apt-get install ucx-utils  2p  -       UCX ucp_am_lat",
            ]
        );
    }
}
