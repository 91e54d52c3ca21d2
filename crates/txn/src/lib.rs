//! Transactions over keys of several nodes (RAMCloud, section 6 of RIFL; Fulva, section V-B).
//!
//! A transaction has read what it wanted, and has collected its commands. Its **coordinator** then asks each
//! owner to **prepare** its part: to check that what was read still holds, to run the commands aside, to lock
//! the keys and to keep what is to be written. When all keys have voted for it, that is the decision: nobody
//! records it. The coordinator has it **applied** everywhere, and then **forgotten**.
//!
//! What a node knows of a transaction lies at each of its keys, in a value of its own beside the key, with
//! the same position: `locks`. Such a value is written, kept, copied, moved and recovered as any other is. So
//! nothing but the key's owner need know of it, and a move or a takeover carries it in the middle of a
//! transaction.
//!
//! | file | what |
//! |---|---|
//! | `id` | the name of a transaction |
//! | `locks` | what transactions have at a key: votes, outcomes, refusals |
//! | `entry` | what one of them has |
//! | `codec`, `bytes` | its bytes |
//! | `effect` | what it is to write |
//! | `check` | what it has read, and is to hold still |
//! | `coordinator` | a transaction until it is over everywhere, also one whose client has died |
//! | `committing`, `replies` | its requests in words, and what replies mean |
//! | `retries` | when to ask again |
//!
//! A **participant** is a key, not a node: a range may be split while transactions are under way in it. The
//! **first** key of a transaction has the list of all, so whoever finds one of them locked for long can ask
//! all, and decide as the coordinator would have.
//!
//! Invariants:
//! - X1: a key is locked by one transaction that writes it, or by any number that only read it.
//! - X2: a vote for a transaction ends by its decision, never by a timer.
//! - X3: there is one decision: to commit if every key has voted for it, otherwise to abort. A key that is
//!   asked before it has voted refuses, and keeps that.
//! - X4: nothing that is prepared is readable before it is applied. While a key is locked by a transaction
//!   that writes it, reads of it wait.
//! - X7: votes, outcomes and refusals lie at the position of their key, and move with it.
//! - X9: a transaction whose coordinator is gone is decided by the nodes that have its keys.
//! - X11: a part is sent to be prepared once: again only where a node has reported that it did not look at
//!   it. If the answer is lost, its keys are asked.
//! - X12: a key keeps that a transaction was applied until it was applied at all of its keys; the first key
//!   for longest.
//! - X13: a refusal outlives the request that it refuses, and an outcome that nodes decided outlives the
//!   coordinator that may still ask for it.
//! - X14: a transaction waits only for younger ones. Otherwise it gives way, and is tried again at its age.
//!   So no circle of them waits, and each is the oldest in the end. While it waits, younger ones give way to
//!   it: it is not passed over for ever.

mod bytes;
mod check;
mod codec;
mod committing;
mod coordinator;
mod effect;
mod entry;
mod id;
mod locks;
mod replies;
mod retries;

pub use check::Check;
pub use committing::{Attempt, CommitRequest, Committing, Ended, SeveralOwners, TransactionCommand};
pub use coordinator::{Answer, Coordinator, Lost, Outcome, Part, Request, Vote};
pub use effect::Effect;
pub use entry::{Age, Entry, Keys, State, keys_of};
pub use id::TransactionId;
pub use locks::{Contradiction, HELP_AFTER_MS, KEPT_MS, LIFE_MS, Locks, NotVoted, Status};
pub use replies::check_of;
