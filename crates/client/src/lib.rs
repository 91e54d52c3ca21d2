//! Sidle's client on tokio.
