//! What removes keys that no client named.

/// A flush, or a death.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Removal {
    /// When it began.
    pub(crate) call_us: u64,
    /// When it was over, if it was.
    pub(crate) return_us: Option<u64>,
    /// Whether the key was gone at one instant between the two.
    pub(crate) is_certain: bool,
}

impl Removal {
    /// A death: what was lost is found out later.
    pub(crate) fn by_death(now_us: u64) -> Removal {
        Removal { call_us: now_us, return_us: None, is_certain: false }
    }

    /// When it was over, if the key certainly was removed by then.
    pub(super) fn removed_us(self) -> Option<u64> {
        self.return_us.filter(|_| self.is_certain)
    }
}
