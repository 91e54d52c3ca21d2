//! Who may do what at this node: its users, and what was refused.
//!
//! A connection keeps its user as it was ([`Rights`]). Where the users have changed since, it looks again
//! before it runs what it has read: so a request sent after the reply to ACL SETUSER is judged by the new
//! rules.
//!
//! Cost: a connection of a user who may do everything pays for one comparison with each batch of requests.

use crate::clients::{Clients, Ending};
use crate::rights::{Named, Rights};
use crate::session::Session;
use sidle_access::{AccessLog, Catalogue, DEFAULT_USER, Entry, Refused, RuleError, Users};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

/// So many refusals are kept: Redis's default.
const LOG_ENTRIES: usize = 128;

/// The users of a node.
#[derive(Debug)]
pub struct Access {
    /// All commands, as rules name them.
    pub(crate) catalogue: Catalogue,
    users: RwLock<Arc<Users>>,
    /// Grows with every change of the users, behind it.
    version: AtomicU64,
    log: Mutex<AccessLog>,
    /// What passwords are made from, and how many were.
    seed: Mutex<([u8; 32], u64)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is in them is whole wherever a panic could happen.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Access {
    /// Only the default user, with this password; `None`: without one.
    pub(crate) fn new(catalogue: Catalogue, password: Option<&str>) -> Access {
        let access = Access {
            users: RwLock::new(Arc::new(Users::new(&catalogue))),
            catalogue,
            version: AtomicU64::new(0),
            log: Mutex::default(),
            seed: Mutex::default(),
        };
        if let Some(password) = password {
            access.set_password(password.as_bytes());
        }
        access
    }

    /// Gives it secret bytes from outside: what ACL GENPASS returns is made from them.
    pub fn set_seed(&self, seed: [u8; 32]) {
        lock(&self.seed).0 = seed;
    }

    /// A password that nobody can guess who does not know the secret bytes.
    pub(crate) fn password(&self, bits: usize) -> String {
        let (seed, made) = &mut *lock(&self.seed);
        let mut text = String::new();
        while text.len() * 4 < bits {
            *made += 1;
            let digest = sidle_access::Digest::of(&[&seed[..], &made.to_le_bytes()].concat());
            text += &String::from_utf8_lossy(digest.text());
        }
        text.truncate(bits.div_ceil(4));
        text
    }

    /// All users.
    pub(crate) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the users: all that `change` does, or nothing if it fails.
    fn change<E>(&self, change: impl FnOnce(&mut Users) -> Result<(), E>) -> Result<(), E> {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        let mut changed = (**users).clone();
        change(&mut changed)?;
        *users = Arc::new(changed);
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Applies rules to a user, who may be new: all of them, or none.
    pub(crate) fn set_user(&self, name: &[u8], rules: &[Vec<u8>]) -> Result<(), (usize, RuleError)> {
        self.change(|users| users.change(&self.catalogue, name, rules))
    }

    /// Removes users, and ends their connections but this one; how many there were.
    pub(crate) fn remove_users(&self, names: &[&[u8]], clients: &Clients, but: u64) -> usize {
        let mut removed = Vec::new();
        let result: Result<(), ()> = self.change(|users| {
            removed.extend(names.iter().copied().filter(|name| users.remove(name)));
            Ok(())
        });
        debug_assert_eq!(result, Ok(()));
        end_connections(clients, but, |name| removed.contains(&name));
        removed.len()
    }

    /// The users of a file take the place of all others, whose connections end but this one.
    ///
    /// # Errors
    /// What is wrong with it; then nothing has changed. `path` is what the text calls the file.
    pub fn load(&self, path: &str, text: &[u8], clients: &Clients, but: u64) -> Result<(), String> {
        self.change(|users| users.load(&self.catalogue, path, text))?;
        let users = self.users();
        end_connections(clients, but, |name| users.find(name).is_none());
        Ok(())
    }

    /// What a file of all users holds.
    pub fn file(&self) -> Vec<u8> {
        let mut lines = self.users().lines(&self.catalogue);
        lines.push(Vec::new());
        lines.join(&b'\n')
    }

    /// Gives the default user this password only; an empty one: it needs none.
    pub(crate) fn set_password(&self, password: &[u8]) {
        let result: Result<(), ()> = self.change(|users| {
            let mut user = (*users.default_user().user).clone();
            user.set_password(password);
            users.put(DEFAULT_USER, user);
            Ok(())
        });
        debug_assert_eq!(result, Ok(()));
    }

    /// Whether a new connection may run commands before it says who it is.
    pub fn is_open(&self) -> bool {
        self.users().default_user().user.is_open()
    }

    /// Whether anyone is the default user who says so.
    pub fn needs_no_password(&self) -> bool {
        self.users().default_user().user.needs_no_password()
    }

    /// Makes a connection a user's, if the password is right; whether it is.
    pub(crate) fn admit(&self, session: &mut Session, name: &[u8], password: &[u8]) -> bool {
        let users = self.users();
        let Some(entry) = users.find(name).filter(|entry| entry.user.admits(password)) else { return false };
        session.authenticated = true;
        self.become_user(session, name, entry.clone());
        true
    }

    /// Makes a connection the default user's, as a new one is.
    pub(crate) fn forget_user(&self, session: &mut Session) {
        let users = self.users();
        session.authenticated = users.default_user().user.is_open();
        self.become_user(session, DEFAULT_USER, users.default_user().clone());
    }

    fn become_user(&self, session: &mut Session, name: &[u8], entry: Entry) {
        session.client.details().user = name.to_vec();
        session.rights.user = Some(Named { name: name.into(), entry });
        // An older version is looked at again.
        session.rights.version = 0;
        self.look_again(session);
    }

    /// Whether a connection's user is still there.
    pub(crate) fn has(&self, session: &Session) -> bool {
        known(&self.users(), &session.rights).is_some()
    }

    /// Before a connection runs what it has read: whether its user has changed.
    #[inline]
    pub(crate) fn keep_up(&self, session: &mut Session) {
        if session.rights.version != self.version.load(Ordering::Acquire) {
            self.look_again(session);
        }
    }

    /// Looks a connection's user up. One whose user is gone ends.
    #[cold]
    pub(crate) fn look_again(&self, session: &mut Session) {
        if session.is_forwarded {
            session.rights.version = self.version.load(Ordering::Acquire);
            return;
        }
        // A change between the two is seen the next time.
        session.rights.version = self.version.load(Ordering::Acquire);
        let users = self.users();
        let Some(entry) = known(&users, &session.rights) else {
            session.authenticated = false;
            session.client.end(Ending::Killed);
            return;
        };
        let name =
            session.rights.user.as_ref().map_or_else(|| DEFAULT_USER.into(), |named| named.name.clone());
        session.authenticated |= *name == *DEFAULT_USER && entry.user.is_open();
        session.rights.is_limited = !entry.user.is_unlimited();
        session.rights.user = Some(Named { name, entry: entry.clone() });
    }

    /// Notes a refusal.
    pub(crate) fn note(&self, refused: Refused) {
        lock(&self.log).note(refused, LOG_ENTRIES);
    }

    /// The refusals, the newest first.
    pub(crate) fn refused(&self, most: usize) -> Vec<Refused> {
        lock(&self.log).all().take(most).cloned().collect()
    }

    /// Forgets the refusals.
    pub(crate) fn forget_refused(&self) {
        lock(&self.log).reset();
    }
}

/// A connection's user as it is now, if it is still the same one.
fn known<'u>(users: &'u Users, rights: &Rights) -> Option<&'u Entry> {
    match &rights.user {
        Some(named) => users.find(&named.name).filter(|entry| entry.born == named.entry.born),
        None => Some(users.default_user()),
    }
}

/// Ends the connections of users by name, but for one.
fn end_connections(clients: &Clients, but: u64, is_gone: impl Fn(&[u8]) -> bool) {
    for client in clients.list() {
        let user = client.user();
        if client.id != but && !user.is_empty() && is_gone(&user) {
            clients.end(&client, Ending::Killed);
        }
    }
}
