//! Places in a worker's path where a test can run a hook.

use sidle_store::Store;

type Hook = Box<dyn FnOnce(&Store) + Send>;

/// The hooks of those places; none by default.
#[derive(Default)]
pub struct Hooks {
    judged: Option<Hook>,
    found_nothing: Option<Hook>,
}

impl Hooks {
    /// Calls `hook` once, after the next decision about keys and before its command looks into the store.
    pub fn once_judged(&mut self, hook: impl FnOnce(&Store) + Send + 'static) {
        self.judged = Some(Box::new(hook));
    }

    /// Calls `hook` once, after the next command that found nothing to take, and before it waits.
    pub fn once_found_nothing(&mut self, hook: impl FnOnce(&Store) + Send + 'static) {
        self.found_nothing = Some(Box::new(hook));
    }

    pub(crate) fn found_nothing(&mut self, store: &Store) {
        if let Some(hook) = self.found_nothing.take() {
            hook(store);
        }
    }

    #[inline]
    pub(crate) fn judged(&mut self, store: &Store) {
        if let Some(hook) = self.judged.take() {
            hook(store);
        }
    }
}
