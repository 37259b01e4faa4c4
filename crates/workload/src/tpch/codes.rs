//! Columns with few values, one byte each (TPC-H specification, section 4.2.2.13 and 4.2.3).

use core::fmt;
use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

/// An enumeration whose values have a byte in encoded rows and a text in TPC-H's tables.
macro_rules! codes {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal $text:literal,)+ }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum $name {
            $(#[doc = concat!("`", $text, "`")] $variant = $code,)+
        }

        impl $name {
            /// All values, in the order of their bytes.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The byte in an encoded row.
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The value of a byte, if it has one.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// The text in the table.
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)+
                }
            }

            /// The value of a text, if it has one.
            pub fn from_text(text: &str) -> Option<Self> {
                match text {
                    $($text => Some(Self::$variant),)+
                    _ => None,
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.text())
            }
        }

        /// Serialized as its text.
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.serialize_str(self.text())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = String::deserialize(from)?;
                Self::from_text(&text).ok_or_else(|| {
                    let unexpected = de::Unexpected::Str(&text);
                    de::Error::invalid_value(unexpected, &stringify!($name))
                })
            }
        }
    };
}

codes! {
    /// `l_returnflag`.
    ReturnFlag {
        Accepted = b'A' "A",
        None = b'N' "N",
        Returned = b'R' "R",
    }
}

codes! {
    /// `l_linestatus`.
    LineStatus {
        Fulfilled = b'F' "F",
        Open = b'O' "O",
    }
}

codes! {
    /// `o_orderstatus`.
    OrderStatus {
        Fulfilled = b'F' "F",
        Open = b'O' "O",
        Pending = b'P' "P",
    }
}

codes! {
    /// `o_orderpriority`.
    OrderPriority {
        Urgent = 1 "1-URGENT",
        High = 2 "2-HIGH",
        Medium = 3 "3-MEDIUM",
        NotSpecified = 4 "4-NOT SPECIFIED",
        Low = 5 "5-LOW",
    }
}

codes! {
    /// `l_shipinstruct`. Four bits of a byte hold it.
    ShipInstruct {
        DeliverInPerson = 1 "DELIVER IN PERSON",
        CollectOnDelivery = 2 "COLLECT COD",
        TakeBackReturn = 3 "TAKE BACK RETURN",
        None = 4 "NONE",
    }
}

codes! {
    /// `l_shipmode`. Four bits of a byte hold it.
    ShipMode {
        RegularAir = 1 "REG AIR",
        Air = 2 "AIR",
        Rail = 3 "RAIL",
        Truck = 4 "TRUCK",
        Mail = 5 "MAIL",
        FreeOnBoard = 6 "FOB",
        Ship = 7 "SHIP",
    }
}
