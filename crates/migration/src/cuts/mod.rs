//! Cuts: numbered, barrier-protected transfers of ownership of a set of positions.
//!
//! A migration by cuts copies while the source serves, and gives what it has copied bit by bit. The source
//! owns what it has not given, the target what it was given: each position has one owner at any moment, and
//! changes it once.
//!
//! A migration that turns back ends where no cut is in transit. Its way back is another migration, from the
//! target to the source: each end begins it with its own [`Share`] of the range (M20, M21).
//!
//! A cut gives, by partition, everything below a cursor, and single positions out of turn. The source's
//! workers learn of it as a *step* of [`GivenView`], the target's by their [`ImportView`](crate::ImportView).
//!
//! Own protocol. Related: ProRea (hot pages first), Shadowfax (hot records travel with the ownership), Zeus
//! (ownership by object).

mod digest;
mod given_view;
mod hot_positions;
mod positions_given;
mod share;
mod times;
mod windows;

pub use digest::GivenDigest;
pub(crate) use given_view::GivenView;
pub(crate) use hot_positions::HotPositions;
pub use positions_given::OUT_OF_TURN_MAX;
pub(crate) use positions_given::PositionsGiven;
pub use share::Share;
pub use times::{CUT_TIME_BUCKETS, CutTimes};
pub(crate) use windows::{Ahead, Windows};
