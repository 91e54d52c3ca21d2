//! Clients' requests: drawn operations, each with the records that its answer completes.
//!
//! There are nine key spaces, each with its own rules: registers (`k`), groups of keys that form one
//! register (`g`), hashes whose fields are registers (`h`), lists (`l`), sorted sets (`z`), sets (`m`), names
//! between which values move (`r`), keys with a time to live (`t`) and noise (`n`), for which only the kind
//! of the answer is checked.

mod asked;
mod drafts;
mod ended;
mod exchange;
mod groups;
mod hashes;
mod kind;
pub(crate) mod list_operation;
pub(crate) mod lists;
mod members;
mod members_operation;
mod name_operation;
mod names;
mod noise;
mod registers;
mod removal;
mod timed;
mod timed_operation;
mod transaction;

pub use asked::{Asked, Order};
pub use drafts::{Draft, Ledgers, Place, Records, account_key, balance_of, text_key, text_of, tokens_of};
pub use ended::History;
pub use exchange::{Exchange, Exchanged};
pub use groups::{MOST_GROUPS, inside_a_group, keep_whole};
pub use hashes::{LEAST_FIELDS, stored_key};
pub use list_operation::{End, LISTS, ListOp, ListOperation, Said};
pub use lists::MOST_SETS;
pub use members::MOST_MEMBER_KEYS;
pub use members_operation::{MEMBERS, MembersOp, MembersOperation, Shown};
pub use name_operation::{NAMES, NameOp, NameOperation, NameSaid};
pub use names::MOST_NAME_SETS;
pub(crate) use removal::Removal;
pub use timed_operation::{Condition, NewEnd, TimedOp, TimedOperation, When};

use sidle_testbed::Random;

/// The hash tag of the slot that ranges are split in.
pub const TAG: &str = "{tag}";

/// The settings of a workload.
#[derive(Clone, Debug)]
pub struct Workload {
    /// How many registers there are. Half of them share the slot of [`TAG`].
    pub keys: u64,
    /// How many groups there are.
    pub groups: u64,
    /// How many sets of lists there are.
    pub list_sets: u64,
    /// How many sorted sets there are, and as many sets.
    pub member_keys: u64,
    /// How many sets of names there are.
    pub name_sets: u64,
    /// How many hashes there are.
    pub hashes: u64,
    /// How many fields each has at most.
    pub fields: u64,
    /// How many keys with a time to live there are.
    pub timed_keys: u64,
    /// How many keys there are that are not judged.
    pub noise_keys: u64,
    /// How many of a thousand operations are on keys with a time to live.
    pub timed_permille: u64,
    /// How many of a thousand operations are on keys that are not judged, or on none.
    pub noise_permille: u64,
    /// How many of a thousand operations are on the first few keys.
    pub hot_permille: u64,
    /// How many of a thousand operations write.
    pub writes_permille: u64,
    /// How many of a thousand operations are on several keys.
    pub multi_permille: u64,
    /// How many of a thousand written values are large.
    pub large_permille: u64,
    /// The size of the largest value, in bytes.
    pub large_bytes: u64,
    /// By how many bytes keys are lengthened.
    pub long_keys: usize,
    /// A key's longest time to live, in milliseconds.
    pub life_ms: u64,
}

/// How many keys are hot.
const HOT_KEYS: u64 = 3;

/// Distinguishes the draws of a client.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// The client.
    pub client: u64,
    /// How many operations it asked for before.
    pub serial: u64,
    /// When it asks.
    pub now_us: u64,
}

impl Workload {
    /// The key with this number. Even numbers hold integers, odd ones texts; every second pair shares a slot.
    pub fn key(&self, number: u64) -> String {
        self.named('k', number)
    }

    /// The key with a time to live with this number.
    pub fn timed_key(&self, number: u64) -> String {
        self.named('t', number)
    }

    fn named(&self, space: char, number: u64) -> String {
        let rest = ".".repeat(if number.is_multiple_of(5) { self.long_keys } else { 0 });
        match (number / 2).is_multiple_of(2) {
            true => format!("{space}{number}{rest}"),
            false => format!("{space}{TAG}{number}{rest}"),
        }
    }

    /// All registers: groups by their names, hashes by those of their fields.
    pub fn all_keys(&self) -> impl Iterator<Item = String> {
        (0..self.keys + 3)
            .map(|number| self.key(number))
            .chain(groups::names(self.groups))
            .chain(hashes::names(self.hashes, self.fields))
    }

    /// All keys with a time to live.
    fn all_timed_keys(&self) -> impl Iterator<Item = String> {
        (0..self.timed_keys).map(|number| self.timed_key(number))
    }

    /// The keys of all lists, sorted sets and sets.
    pub fn all_collections(&self) -> impl Iterator<Item = String> {
        lists::names(self.list_sets).chain(members::names(self))
    }

    /// All keys that are judged and no registers.
    pub fn all_other_keys(&self) -> impl Iterator<Item = String> {
        self.all_timed_keys().chain(self.all_collections()).chain(self.all_names())
    }

    /// The keys of all names.
    pub fn all_names(&self) -> impl Iterator<Item = String> {
        names::all(self.name_sets)
    }

    /// The next operation of a client; every value is written once.
    pub fn draw(&self, random: &mut Random, turn: Turn) -> Asked {
        let drawn = random.below(1000);
        if drawn < self.timed_permille {
            timed::draw(self, random, turn)
        } else if drawn < self.timed_permille + self.noise_permille {
            noise::draw(self, random)
        } else if groups::is_next(self, random) {
            groups::draw(self, random, turn)
        } else if lists::is_next(self, random) {
            lists::draw(self, random, turn)
        } else if members::is_next(self, random) {
            members::draw(self, random, turn)
        } else if names::is_next(self, random) {
            names::draw(self, random, turn)
        } else if hashes::is_next(self, random) {
            hashes::draw(self, random, turn)
        } else if random.permille(self.multi_permille) {
            registers::draw_several(self, random, turn)
        } else {
            registers::draw(self, random, turn)
        }
    }

    /// The request that reads a key or a group back, in any space.
    pub fn read_back(client: u64, key: String, now_us: u64) -> Asked {
        match key.starts_with('t') {
            true => timed::read_back(client, key, now_us),
            false if groups::is_name(&key) => groups::read_back(client, &key, now_us),
            false if lists::is_name(&key) => lists::read_back(client, &key, now_us),
            false if members::is_name(&key) => members::read_back(client, key, now_us),
            false if names::is_name(&key) => names::read_back(client, &key, now_us),
            false if hashes::is_name(&key) => hashes::read_back(client, key, now_us),
            false => registers::read_back(client, key, now_us),
        }
    }

    /// All keys that are not judged.
    pub fn all_noise_keys(&self) -> impl Iterator<Item = String> {
        (0..self.noise_keys).flat_map(|number| [format!("n{number}n"), format!("n{TAG}{number}n")])
    }

    /// A DEL of a register, of a group, of a collection, of a name, or of a key that is not judged.
    pub fn delete(client: u64, key: String, now_us: u64) -> Asked {
        match key.starts_with('n') {
            true => noise::delete(key),
            false if groups::is_name(&key) => groups::delete(client, &key, now_us),
            false if lists::is_name(&key) => lists::delete(client, &key, now_us),
            false if members::is_name(&key) => members::delete(client, key, now_us),
            false if names::is_name(&key) => names::delete(client, &key, now_us),
            false if hashes::is_name(&key) => hashes::delete(client, key, now_us),
            false => registers::delete(client, key, now_us),
        }
    }

    fn number(&self, random: &mut Random, keys: u64) -> u64 {
        let hot = random.permille(self.hot_permille);
        random.below(if hot { keys.min(HOT_KEYS) } else { keys })
    }
}
