//! SAVE and BGSAVE: the keys of this node as an RDB file, while its clients go on.
//!
//! One thread of the server writes the file. It reads the store in slices, each under a guard of its own, and
//! writes between two of them. Nobody waits for it, and the cleaner for one slice at most.
//!
//! Each key is in the file in a state that it had during the save. There is no one moment for all of them:
//! that takes a fork, or versions of everything that is overwritten meanwhile.
//!
//! | file | what |
//! |---|---|
//! | `saves` | which save was asked for, runs, and has ended |
//! | `keys` | the keys that this node owns, one slice after the other |
//! | `value` | a value too large for one slice |

mod keys;
mod saves;
mod value;

pub use keys::{SavedKeys, SavingStep};
pub use saves::Saves;
