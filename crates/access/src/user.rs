//! A user: whether it may come in, by which passwords, and what it may do then.

use crate::catalogue::Catalogue;
use crate::describe;
use crate::password::{Digest, is_equal_in_constant_time};
use crate::rules::RuleError;
use crate::selector::Selector;

/// What rules say of payloads. It is shown, and has no other effect: every payload is checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Payloads {
    #[default]
    Unsaid,
    Checked,
    Trusted,
}

/// A user. A new one is off, and may do nothing.
#[derive(Clone, Debug, Default)]
pub struct User {
    is_on: bool,
    needs_no_password: bool,
    payloads: Payloads,
    passwords: Vec<Digest>,
    pub(crate) root: Selector,
    pub(crate) selectors: Vec<Selector>,
}

impl User {
    /// A user that may do everything, and needs no password.
    pub fn open(catalogue: &Catalogue) -> User {
        let mut user = User::default();
        for rule in [&b"+@all"[..], b"~*", b"&*", b"on", b"nopass"] {
            user.apply(catalogue, rule).expect("it is a rule");
        }
        user
    }

    /// Applies a rule; an empty one changes nothing.
    ///
    /// # Errors
    /// It is none, and nothing has changed.
    pub fn apply(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        match rule.to_ascii_lowercase().as_slice() {
            b"" => {}
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" => (self.needs_no_password, self.passwords) = (true, Vec::new()),
            b"resetpass" => (self.needs_no_password, self.passwords) = (false, Vec::new()),
            b"skip-sanitize-payload" => self.payloads = Payloads::Trusted,
            b"sanitize-payload" => self.payloads = Payloads::Checked,
            b"clearselectors" => self.selectors.clear(),
            b"reset" => *self = User { payloads: Payloads::Checked, ..User::default() },
            _ => return self.apply_with_value(catalogue, rule),
        }
        Ok(())
    }

    fn apply_with_value(&mut self, catalogue: &Catalogue, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [b'>', password @ ..] => self.add_password(Digest::of(password)),
            [b'#', text @ ..] => self.add_password(Digest::parse(text).ok_or(RuleError::NoDigest)?),
            [b'<', password @ ..] => return self.remove_password(Digest::of(password)),
            [b'!', text @ ..] => {
                return self.remove_password(Digest::parse(text).ok_or(RuleError::NoDigest)?);
            }
            [b'(', within @ .., b')'] => {
                let mut selector = Selector::default();
                for rule in within.split(|byte| byte.is_ascii_whitespace()).filter(|rule| !rule.is_empty()) {
                    selector.apply(catalogue, rule)?;
                }
                self.selectors.push(selector);
            }
            _ => return self.root.apply(catalogue, rule),
        }
        Ok(())
    }

    fn add_password(&mut self, digest: Digest) {
        if !self.passwords.contains(&digest) {
            self.passwords.push(digest);
        }
        self.needs_no_password = false;
    }

    fn remove_password(&mut self, digest: Digest) -> Result<(), RuleError> {
        let at = self.passwords.iter().position(|known| *known == digest);
        self.passwords.remove(at.ok_or(RuleError::NoSuchPassword)?);
        Ok(())
    }

    /// Gives it this password only; an empty one: it needs none.
    pub fn set_password(&mut self, password: &[u8]) {
        self.passwords.clear();
        self.needs_no_password = password.is_empty();
        if !password.is_empty() {
            self.add_password(Digest::of(password));
        }
    }

    /// Whether a client may come in as this user with the password.
    pub fn admits(&self, password: &[u8]) -> bool {
        let given = Digest::of(password);
        let is_right = |known: &Digest| is_equal_in_constant_time(known.text(), given.text());
        self.is_on && (self.needs_no_password || self.passwords.iter().any(is_right))
    }

    /// Whether a client is this user without a password.
    pub fn is_open(&self) -> bool {
        self.is_on && self.needs_no_password
    }

    /// Whether it needs no password, if it is on.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// Whether it may do everything.
    pub fn is_unlimited(&self) -> bool {
        self.root.has_all_commands && self.root.has_all_keys && self.root.has_all_channels
    }

    /// The words for what it is: on, off, and so on.
    pub fn flags(&self) -> Vec<&'static str> {
        let payloads = match self.payloads {
            Payloads::Unsaid => None,
            Payloads::Trusted => Some("skip-sanitize-payload"),
            Payloads::Checked => Some("sanitize-payload"),
        };
        let on = if self.is_on { "on" } else { "off" };
        [Some(on), self.needs_no_password.then_some("nopass"), payloads].into_iter().flatten().collect()
    }

    /// Its passwords' digests, in order.
    pub fn passwords(&self) -> &[Digest] {
        &self.passwords
    }

    /// Its selectors as rules: of commands, of keys, of channels. The first is its own.
    pub fn described(&self, catalogue: &Catalogue) -> Vec<[Vec<u8>; 3]> {
        let describe = |selector: &Selector| {
            let commands = describe::commands(selector, catalogue);
            [commands, describe::keys(selector), describe::channels(selector)]
        };
        std::iter::once(&self.root).chain(&self.selectors).map(describe).collect()
    }

    /// The rules that make it.
    pub fn rules(&self, catalogue: &Catalogue) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = self.flags().into_iter().map(|flag| flag.into()).collect();
        words.extend(self.passwords.iter().map(|digest| [b"#", digest.text()].concat()));
        words.push(describe::all(&self.root, catalogue));
        let selectors = self.selectors.iter();
        words
            .extend(selectors.map(|selector| [b"(", &describe::all(selector, catalogue)[..], b")"].concat()));
        words.join(&b' ')
    }
}
