//! Named faults, which tests put back one by one to prove that a checker sees each of them.
//!
//! A fault sits where the real mistake would be made: one condition on a field of [`bugs!`](crate::bugs)'s
//! `PutBack`. Crates with faults have a feature `bug-switches`. Without it there is no way to put one back,
//! `PutBack` takes no room, and every condition is false at compile time.

/// Defines a crate's `Bugs`, from what is wrong with each fault (its documentation), its field and its name;
/// and `PutBack`, which keeps those that are put back into one machine.
#[macro_export]
macro_rules! bugs {
    ($($(#[doc = $what:literal])+ $field:ident: $name:literal,)+) => {
        /// The faults of this crate that can be put back.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Bugs {
            $($(#[doc = $what])+ pub $field: bool,)+
        }

        impl Bugs {
            /// No fault.
            pub const NONE: Bugs = Bugs { $($field: false),+ };
        }

        #[cfg(feature = "bug-switches")]
        impl Bugs {
            /// Every fault: its name, and what is wrong.
            pub const NAMES: &[(&str, &str)] = &[$(($name, concat!($($what),+).trim_ascii())),+];

            /// The fault of this name and no other.
            pub fn with(name: &str) -> Option<Bugs> {
                match name {
                    $($name => Some(Bugs { $field: true, ..Bugs::NONE }),)+
                    _ => None,
                }
            }
        }

        /// The faults that are put back: none, unless compiled with the feature `bug-switches`.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct PutBack {
            #[cfg(feature = "bug-switches")]
            bugs: Bugs,
        }

        #[cfg(feature = "bug-switches")]
        impl From<Bugs> for PutBack {
            fn from(bugs: Bugs) -> PutBack {
                PutBack { bugs }
            }
        }

        impl std::ops::Deref for PutBack {
            type Target = Bugs;

            #[inline]
            fn deref(&self) -> &Bugs {
                #[cfg(feature = "bug-switches")]
                return &self.bugs;
                #[cfg(not(feature = "bug-switches"))]
                &Bugs::NONE
            }
        }
    };
}

/// The two tests of a crate's stories: every fault of `$bugs` has one, in their order, and it fails with its
/// fault and holds without. `$stories` are pairs of a fault's name and a scenario that takes the faults to
/// put back.
#[macro_export]
macro_rules! story_tests {
    ($bugs:ty, $stories:expr) => {
        #[test]
        fn every_fault_has_its_story() {
            let told: Vec<&str> = $stories.iter().map(|&(name, _)| name).collect();
            assert_eq!(told, <$bugs>::NAMES.iter().map(|&(name, _)| name).collect::<Vec<_>>());
        }

        #[test]
        fn every_story_sees_its_fault_and_ends_well_without() {
            for (name, story) in $stories {
                story(<$bugs>::NONE);
                let bugs = <$bugs>::with(name).expect("a fault's name");
                let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| story(bugs)));
                assert!(ended.is_err(), "{name}");
            }
        }
    };
}
