//! Places in a worker's path where a test can let something happen.

use sidle_store::Store;

type Hook = Box<dyn FnOnce(&Store) + Send>;

/// What happens at those places; nothing unless a test says so.
#[derive(Default)]
pub struct Hooks {
    judged: Option<Hook>,
}

impl Hooks {
    /// Has `hook` called once, after the next decision about keys and before its command looks into the
    /// store.
    pub fn once_judged(&mut self, hook: impl FnOnce(&Store) + Send + 'static) {
        self.judged = Some(Box::new(hook));
    }

    #[inline]
    pub(crate) fn judged(&mut self, store: &Store) {
        if let Some(hook) = self.judged.take() {
            hook(store);
        }
    }
}
