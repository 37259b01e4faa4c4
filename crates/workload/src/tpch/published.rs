//! Q1's answer at scale factor 1 as published for the TPC-H specification (section 2.4.1.5 shows
//! one row, the answer set that belongs to the specification all four).

use super::codes::{LineStatus, ReturnFlag};

/// A row of Q1's answer, rounded; amounts and averages are in hundredths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Q1Answer {
    /// `l_returnflag`
    pub return_flag: ReturnFlag,
    /// `l_linestatus`
    pub line_status: LineStatus,
    /// `sum_qty`
    pub sum_qty: i128,
    /// `sum_base_price`
    pub sum_base_price: i128,
    /// `sum_disc_price`
    pub sum_disc_price: i128,
    /// `sum_charge`
    pub sum_charge: i128,
    /// `avg_qty`
    pub avg_qty: i128,
    /// `avg_price`
    pub avg_price: i128,
    /// `avg_disc`
    pub avg_disc: i128,
    /// `count_order`
    pub count: u64,
}

const fn hundredths(units: i128, rest: i128) -> i128 {
    units * 100 + rest
}

/// The published answer of Q1 at scale factor 1.
pub const fn published_q1_sf1() -> [Q1Answer; 4] {
    [
        Q1Answer {
            return_flag: ReturnFlag::Accepted,
            line_status: LineStatus::Fulfilled,
            sum_qty: hundredths(37_734_107, 0),
            sum_base_price: hundredths(56_586_554_400, 73),
            sum_disc_price: hundredths(53_758_257_134, 87),
            sum_charge: hundredths(55_909_065_222, 83),
            avg_qty: hundredths(25, 52),
            avg_price: hundredths(38_273, 13),
            avg_disc: 5,
            count: 1_478_493,
        },
        Q1Answer {
            return_flag: ReturnFlag::None,
            line_status: LineStatus::Fulfilled,
            sum_qty: hundredths(991_417, 0),
            sum_base_price: hundredths(1_487_504_710, 38),
            sum_disc_price: hundredths(1_413_082_168, 5),
            sum_charge: hundredths(1_469_649_223, 19),
            avg_qty: hundredths(25, 52),
            avg_price: hundredths(38_284, 47),
            avg_disc: 5,
            count: 38_854,
        },
        Q1Answer {
            return_flag: ReturnFlag::None,
            line_status: LineStatus::Open,
            sum_qty: hundredths(74_476_040, 0),
            sum_base_price: hundredths(111_701_729_697, 74),
            sum_disc_price: hundredths(106_118_230_307, 61),
            sum_charge: hundredths(110_367_043_872, 50),
            avg_qty: hundredths(25, 50),
            avg_price: hundredths(38_249, 12),
            avg_disc: 5,
            count: 2_920_374,
        },
        Q1Answer {
            return_flag: ReturnFlag::Returned,
            line_status: LineStatus::Fulfilled,
            sum_qty: hundredths(37_719_753, 0),
            sum_base_price: hundredths(56_568_041_380, 90),
            sum_disc_price: hundredths(53_741_292_684, 60),
            sum_charge: hundredths(55_889_619_119, 83),
            avg_qty: hundredths(25, 51),
            avg_price: hundredths(38_250, 85),
            avg_disc: 5,
            count: 1_478_870,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use tpchgen::q_and_a::QueryAndAnswer;

    /// The generator's authors took their answers from TPC's distribution.
    #[test]
    fn the_published_answer_is_the_one_in_tpcs_distribution() {
        let answers = QueryAndAnswer::new(1, 1.0).unwrap();
        let mut lines = answers.answer().trim().lines().skip(1);
        for expect in published_q1_sf1() {
            let line = lines.next().unwrap();
            let theirs: Vec<&str> = line.split('|').map(str::trim).collect();
            let ours = expect.to_string();
            assert_eq!(ours.split_whitespace().collect::<Vec<_>>(), theirs);
        }
        assert_eq!(lines.next(), None);
    }
}
