//! Users, and what each may do. As Redis 7: rules change a user, a listing is the rules that make it again.
//!
//! The crate knows commands only by a [`Catalogue`]: their names, categories and subcommands. So it stands
//! below the commands themselves, and takes what a request does to its keys as an argument.

mod catalogue;
mod check;
mod describe;
mod log;
mod password;
mod rules;
mod selector;
mod user;
mod users;

pub use catalogue::{CATEGORIES, Catalogue, Categories, CommandIndex};
pub use check::{Denial, KeyUse, Question};
pub use log::{AccessLog, Cause, Context, Refused};
pub use password::{Digest, is_equal_in_constant_time};
pub use rules::{RuleError, Unmatched, has_spaces, whole_rules};
pub use selector::Selector;
pub use user::User;
pub use users::{DEFAULT_USER, Entry, Users};
