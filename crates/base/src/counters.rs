//! Counters by name.

/// Defines a struct of counters that start at zero. The struct lists its counters by name; several
/// structs can be added.
///
/// ```
/// rackweave_base::counters! {
///     /// What a door has seen.
///     Door {
///         /// Times that it was opened.
///         opened,
///         /// Times that it was closed.
///         closed,
///     }
/// }
/// let mut door = Door::default();
/// door.opened += 1;
/// assert_eq!(door.list().next(), Some(("opened", 1)));
/// ```
#[macro_export]
macro_rules! counters {
    ($(#[$head:meta])* $type:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$head])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct $type {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl core::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }

        impl core::ops::Sub for $type {
            type Output = Self;

            /// The counts since an earlier state.
            fn sub(mut self, earlier: Self) -> Self {
                $(self.$name -= earlier.$name;)*
                self
            }
        }

        impl $type {
            /// Names and values, in a fixed order.
            pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}
