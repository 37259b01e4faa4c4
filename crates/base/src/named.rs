//! Enums with names.

/// Defines an enum in which every variant has a name for users; a number may be given in
/// parentheses.
///
/// ```
/// rackweave_base::named! {
///     /// A day without work.
///     #[derive(Clone, Copy, Debug, PartialEq)]
///     pub enum Rest {
///         /// The first.
///         Saturday = "sat",
///         /// The second.
///         Sunday = "sun",
///     }
/// }
/// assert_eq!(Rest::Sunday.name(), "sun");
/// assert_eq!(Rest::ALL, [Rest::Saturday, Rest::Sunday]);
/// ```
#[macro_export]
macro_rules! named {
    ($(#[$head:meta])* $vis:vis enum $type:ident {
        $($(#[$doc:meta])* $variant:ident $(($number:literal))? = $name:literal,)+
    }) => {
        $(#[$head])*
        $vis enum $type {
            $($(#[$doc])* $variant $(= $number)?,)+
        }

        impl $type {
            /// All variants.
            pub const ALL: [$type; [$($type::$variant),+].len()] = [$($type::$variant),+];

            /// The variant's name.
            pub const fn name(self) -> &'static str {
                match self {
                    $($type::$variant => $name,)+
                }
            }
        }
    };
}
