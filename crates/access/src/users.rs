//! All users, by name, and the file of them.

use crate::catalogue::Catalogue;
use crate::rules::{RuleError, has_spaces, whole_rules};
use crate::user::User;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Who a client is before it says so. This user is always there.
pub const DEFAULT_USER: &[u8] = b"default";

/// A user that is known.
#[derive(Clone, Debug)]
pub struct Entry {
    /// What it may do.
    pub user: Arc<User>,
    /// Another one with every user that is made: one of the same name, made later, is another user.
    pub born: u64,
}

/// All users.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: BTreeMap<Vec<u8>, Entry>,
    last_born: u64,
}

impl Users {
    /// Only the default user, who may do everything.
    pub fn new(catalogue: &Catalogue) -> Users {
        let mut users = Users { by_name: BTreeMap::new(), last_born: 0 };
        users.put(DEFAULT_USER, User::open(catalogue));
        users
    }

    /// The user of this name.
    pub fn find(&self, name: &[u8]) -> Option<&Entry> {
        self.by_name.get(name)
    }

    /// The default user.
    pub fn default_user(&self) -> &Entry {
        self.by_name.get(DEFAULT_USER).expect("it is never removed")
    }

    /// All of them, by name.
    pub fn all(&self) -> impl Iterator<Item = (&[u8], &Entry)> {
        self.by_name.iter().map(|(name, entry)| (name.as_slice(), entry))
    }

    /// Sets what a user is, who may be new.
    pub fn put(&mut self, name: &[u8], user: User) {
        let user = Arc::new(user);
        match self.by_name.get_mut(name) {
            Some(entry) => entry.user = user,
            None => {
                self.last_born += 1;
                self.by_name.insert(name.to_vec(), Entry { user, born: self.last_born });
            }
        }
    }

    /// Removes a user; whether there was one. The default user stays.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        name != DEFAULT_USER && self.by_name.remove(name).is_some()
    }

    /// Applies rules to a user, who may be new: all of them, or none.
    ///
    /// # Errors
    /// The index of the first that is none, and why.
    pub fn change(
        &mut self,
        catalogue: &Catalogue,
        name: &[u8],
        rules: &[Vec<u8>],
    ) -> Result<(), (usize, RuleError)> {
        let mut user = self.by_name.get(name).map_or_else(User::default, |entry| (*entry.user).clone());
        for (index, rule) in rules.iter().enumerate() {
            user.apply(catalogue, rule).map_err(|error| (index, error))?;
        }
        self.put(name, user);
        Ok(())
    }

    /// A line for each user: its rules behind its name.
    pub fn lines(&self, catalogue: &Catalogue) -> Vec<Vec<u8>> {
        let line =
            |(name, entry): (&[u8], &Entry)| [b"user ", name, b" ", &entry.user.rules(catalogue)].concat();
        self.all().map(line).collect()
    }

    /// The users of a file's lines take the place of these. A default user that the file does not name stays.
    ///
    /// # Errors
    /// All that is wrong, in Redis's words; nothing has changed. `path` is what it calls the file.
    pub fn load(&mut self, catalogue: &Catalogue, path: &str, text: &[u8]) -> Result<(), String> {
        let mut read: BTreeMap<Vec<u8>, User> = BTreeMap::new();
        let mut wrong = String::new();
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            match read_line(catalogue, line.trim_ascii()) {
                Ok(None) => {}
                Ok(Some((name, user))) => {
                    let shown = String::from_utf8_lossy(&name).into_owned();
                    if read.insert(name, user).is_some() {
                        wrong += &format!("WARNING: Duplicate user '{shown}' found on line {number}. ");
                    }
                }
                Err(why) => wrong += &format!("{path}:{number}: {why}. "),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong
                + "WARNING: ACL errors detected, no change to the previously active ACL rules was performed");
        }
        let gone = |name: &Vec<u8>| !read.contains_key(name) && name != DEFAULT_USER;
        self.by_name.retain(|name, _| !gone(name));
        read.into_iter().for_each(|(name, user)| self.put(&name, user));
        Ok(())
    }
}

/// The user of a line, or what is wrong with it. A password is not shown.
fn read_line(catalogue: &Catalogue, line: &[u8]) -> Result<Option<(Vec<u8>, User)>, String> {
    if line.is_empty() {
        return Ok(None);
    }
    let words: Vec<&[u8]> = line.split(|&byte| byte == b' ').collect();
    let [b"user", name, words @ ..] = words.as_slice() else {
        return Err("should start with user keyword followed by the username".to_owned());
    };
    if has_spaces(name) {
        return Err(format!("username '{}' contains invalid characters", String::from_utf8_lossy(name)));
    }
    let rules = whole_rules(words).map_err(|_| "Unmatched parenthesis in selector definition".to_owned())?;
    let mut user = User::default();
    for rule in rules {
        user.apply(catalogue, rule.trim_ascii()).map_err(|error| match error {
            RuleError::Unknown => {
                format!("Error in applying operation '{}': {error}", String::from_utf8_lossy(&rule))
            }
            _ => error.to_string(),
        })?;
    }
    Ok(Some((name.to_vec(), user)))
}
