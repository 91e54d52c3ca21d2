//! The faults of the client; put back by way of [`Config`](crate::Config).

sidle_types::bugs! {
    /// The source's value is returned without waiting for what the target says (breaks M4).
    source_value_without_target_answer: "source-value-without-target-answer",
    /// "Not here yet" of one migration is paired with what the source froze for an earlier one (breaks M4).
    source_value_of_other_migration: "source-value-of-other-migration",
    /// A write whose connection was lost is sent again, though it may have run.
    lost_write_sent_again: "lost-write-sent-again",
}
