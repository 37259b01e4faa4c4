//! A hardware constant with everything that is known about it, and the macro that defines both at
//! once.

use rackweave_base::Duration;

rackweave_base::named! {
    /// How reliable a number is. If several apply, the weakest is given.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum Trust {
        /// Its source was read.
        Checked = "checked",
        /// It follows from other constants.
        Derived = "derived",
        /// Its source is cited from memory and was not looked up.
        Unchecked = "unchecked",
        /// It is assumed, wholly or in part; the text says why.
        Assumed = "assumed",
    }
}

rackweave_base::named! {
    /// One of the papers' testbeds.
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
    pub enum Testbed {
        /// That of the zero-sided paper: a rack with CPUs, GPUs, an FPGA.
        ZeroSided = "zero-sided",
        /// That of the Seamless paper: a rack with SSDs.
        Seamless = "seamless",
        /// That of the BlueField paper: a host and a DPU behind one card.
        Bluefield = "bluefield",
        /// The RDMA testbed of the Fat-B+Tree paper.
        FatBtreeRdma = "fat-btree (RDMA)",
        /// The Ethernet testbed of the Fat-B+Tree paper.
        FatBtreeEthernet = "fat-btree (Ethernet)",
        /// That of the communication tier paper: two hosts.
        Communication = "communication-tier",
    }
}

/// What is known about a constant.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its name in this module.
    pub name: &'static str,
    /// The group that it belongs to, such as "Ethernet".
    pub group: &'static str,
    /// Its unit; empty for a count.
    pub unit: &'static str,
    /// Its reliability.
    pub trust: Trust,
    /// The testbeds whose models use it.
    pub testbeds: &'static [Testbed],
    text: &'static str,
    value: fn() -> String,
}

impl Constant {
    /// Used by the macro.
    pub(super) const fn new(
        (name, group): (&'static str, &'static str),
        (unit, trust, testbeds): (&'static str, Trust, &'static [Testbed]),
        text: &'static str,
        value: fn() -> String,
    ) -> Self {
        Self {
            name,
            group,
            unit,
            trust,
            testbeds,
            text,
            value,
        }
    }

    /// Its value in its unit: a number without separators; several in brackets. A latency by rank
    /// is written `rank: value`.
    pub fn value(&self) -> String {
        (self.value)()
    }

    /// Its description.
    pub fn about(&self) -> String {
        plain(&self.text[..self.split()])
    }

    /// Its source, or why it is assumed; empty if it is derived from others.
    pub fn source(&self) -> String {
        plain(&self.text[self.split()..])
    }

    /// Offset in the text at which the source begins.
    fn split(&self) -> usize {
        let starts = ["Source", "Assumed"].map(|word| self.text.find(word));
        let first = starts.into_iter().flatten().min();
        first.unwrap_or(self.text.len())
    }
}

/// The text of a documentation comment without its marks.
fn plain(text: &str) -> String {
    text.replace("[`", "").replace("`]", "").trim().to_owned()
}

/// A value that can be in a list of constants.
pub trait Listed {
    /// The value as text.
    fn listed(&self) -> String;
}

macro_rules! listed_as_displayed {
    ($($type:ty),*) => {
        $(impl Listed for $type {
            fn listed(&self) -> String {
                self.to_string()
            }
        })*
    };
}

listed_as_displayed!(u16, u32, u64, usize, f64);

impl Listed for Duration {
    fn listed(&self) -> String {
        self.as_nanos().to_string()
    }
}

impl Listed for (u32, u64) {
    fn listed(&self) -> String {
        format!("{}: {}", self.0, self.1)
    }
}

impl<T: Listed, const N: usize> Listed for [T; N] {
    fn listed(&self) -> String {
        let items: Vec<String> = self.iter().map(Listed::listed).collect();
        format!("[{}]", items.join(", "))
    }
}

/// Defines constants and, in `LIST`, what is known about each. The documentation comment is also
/// the text of the list: it begins with what the constant is and continues with "Source" or
/// "Assumed".
macro_rules! constants {
    ($(
        group $group:literal;
        $(
            $(#[doc = $doc:literal])+
            #[listed($unit:literal, $trust:ident, $testbeds:expr)]
            pub const $name:ident: $type:ty = $value:expr;
        )+
    )+) => {
        $($(
            $(#[doc = $doc])+
            pub const $name: $type = $value;
        )+)+

        /// All constants of this file.
        pub(super) const LIST: &[Constant] = {
            use Testbed::*;
            &[$($(
                Constant::new(
                    (stringify!($name), $group),
                    ($unit, Trust::$trust, $testbeds),
                    concat!($($doc),+),
                    || Listed::listed(&$name),
                ),
            )+)+]
        };
    };
}

pub(super) use constants;
