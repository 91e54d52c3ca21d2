//! A client's counters.

/// Sums since the client was made; they only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Operations that ended with a reply.
    pub replies: u64,
    /// Operations that failed.
    pub failures: u64,
    /// Reads of a migrating range that asked source and target at once.
    pub double_reads: u64,
    /// Reads of a migrating range that asked the target alone, by MCR or SPH.
    pub single_target_reads: u64,
    /// Reads that asked the source after the target, asked alone, answered "not here yet".
    pub single_source_reads: u64,
    /// Reads that were answered with the source's value.
    pub source_values: u64,
    /// Attempts beyond the first.
    pub retries: u64,
    /// MOVED and ASK among the answers.
    pub redirects: u64,
    /// Answers of a source that it has given the key.
    pub given: u64,
    /// Pushes of what targets were given, of migrations that run.
    pub given_pushes: u64,
    /// Keys that such pushes named and that were not known to be given.
    pub given_learnt: u64,
    /// Operations that timed out.
    pub timeouts: u64,
    /// Progress reports received.
    pub progress_reports: u64,
    /// Maps that were installed.
    pub maps: u64,
    /// Bytes of all requests.
    pub request_bytes: u64,
    /// Bytes of requests beyond one for each operation: second requests of double reads, retries, greetings,
    /// maps.
    pub extra_request_bytes: u64,
    /// Bytes of all replies.
    pub reply_bytes: u64,
    /// Bytes of replies beyond the one that ended each operation: unused answers, redirects, attributes,
    /// maps.
    pub extra_reply_bytes: u64,
}
