//! Scenarios of one migration on virtual time: a source and a target machine with their stores, workers that
//! follow the node's rules at both ends, and links with faults. One test per edge case, one per reordering,
//! and hundreds of seeded random runs.
//!
//! A test runs with every protocol of the registry, or with every one that makes the choice under test
//! ([`protocols`]). Expectations follow from the protocol's choices, never from its name. So a line in the
//! registry gets a new protocol tested. In "the middle" of a migration records arrive while the target
//! serves, or the source still does, or nobody ([`world::Pair::begin_to_the_middle`]).
//!
//! | edge case, with every protocol | test |
//! |---|---|
//! | deleted, and its old record comes later | `records::delete_then_late_replay` |
//! | written, and its old record comes later | `records::blind_write_then_late_replay` |
//! | the source's version is the higher one | `records::source_version_higher_than_the_targets` |
//! | racing the freeze, old map | `phases::writes_that_race_the_freeze_by_clients_with_old_maps` |
//! | racing the freeze, new map | `phases::reads_and_writes_that_race_the_freeze_by_clients_with_new_maps` |
//! | frozen reads, early and late | `phases::frozen_reads_before_during_and_after` |
//! | there and back | `phases::a_to_b_to_a` |
//! | on to a third node | `phases::a_to_b_then_b_to_c` |
//! | an old value, not here yet | `records::commands_that_need_the_old_value_of_a_key_not_here_yet` |
//! | an old value that never was | `records::commands_that_need_the_old_value_of_a_key_that_never_existed` |
//! | deadlines travel | `records::absolute_deadlines_travel` |
//! | expired in the middle, at whichever end owns it | `records::expired_in_the_middle_stays_away` |
//! | past its deadline at the frozen source | `records::the_frozen_source_does_not_expire` |
//! | values larger than a pull | `records::values_larger_than_a_pull` |
//! | empty partitions | `records::empty_partitions` |
//! | an empty range | `basics::an_empty_range_moves` |
//! | two keys with one position | `records::two_keys_with_equal_position` |
//! | the same, larger than a pull | `records::a_pull_never_ends_between_two_keys_of_one_position` |
//! | a slot full of keys | `records::a_hash_tag_slot_with_very_many_keys` |
//! | a range inside slots | `records::a_range_inside_slots_moves_without_its_neighbours` |
//! | flushed in the middle | `phases::flush_in_the_middle` |
//! | flushed under a batch | `phases::flush_between_arrival_and_replay` |
//! | flushed before activation | `phases::flush_before_activation` |
//! | tables grow, logs are cleaned | `phases::index_growth_and_log_cleaning_at_both_ends` |
//! | cancelled, in each phase before the commit | `phases::cancel_before_the_commit_leaves_no_trace` |
//! | no memory in the middle | `faults::target_out_of_memory_in_the_middle` |
//! | the same, and keys are asked for | `faults::absent_keys_do_not_keep_a_migration_stalled` |
//! | the same, and a deletion waits | `faults::keys_are_pulled_for_commands_while_bulk_stalls` |
//! | the same, and it is flushed | `faults::flush_while_out_of_memory` |
//! | the same, under every fault | `faults::out_of_memory_under_every_fault` |
//! | slow source | `faults::slow_source` |
//! | slow target | `faults::slow_target` |
//! | slower than the timers | `faults::a_way_slower_than_the_timers` |
//! | links cut and back | `faults::link_cut_and_back` |
//! | links down across the freeze | `faults::link_down_across_the_freeze` |
//! | frames again, backwards | `refusals::every_frame_again_in_reverse_order` |
//! | larger than a reply, and lost, overwritten, deleted, flushed | `pieces` |
//! | a large collection that changes all the time | `collections` |
//! | the source is dead, and a copy of its log is read | `dead_source` |
//! | of another epoch | `refusals::a_message_of_another_epoch_is_refused_and_not_applied` |
//! | all of it at random | `random::seeded_migrations_end_as_the_model_does` |
//!
//! | edge case, with the protocols that make a choice | test |
//! |---|---|
//! | sampled, then in bulk (sampling) | `records::sampled_pull_then_bulk_pull_of_the_same_record` |
//! | asked to retry (missing) | `pulls::a_client_that_comes_again_finds_its_key` |
//! | many wait for one key (serves) | `pulls::many_commands_that_wait_for_one_key_pull_it_once` |
//! | one link of two is down (serves) | `faults::bulk_pulls_wake_commands_while_the_priority_lane_is_down` |
//! | counted before it arrives (serves) | `counts::keys_count_once_whatever_is_lost` |
//! | flushed while it is copied (copies) | `copies::flush_while_it_is_copied` |
//! | no memory in a round (copies) | `copies::out_of_memory_in_a_round` |
//! | no memory in the last round (copies) | `copies::out_of_memory_in_the_last_round` |
//! | hot, and its turn is far (hot_first) | `hints::what_clients_access_is_given_before_its_turn` |
//! | hot, and copied before the freeze (hot_first) | `hot` |
//! | turned back, at any time, there and back (copies) | `turn` |
//! | changes never end (copies) | `copies::the_rounds_end_though_changes_do_not` |
//!
//! What takes whole nodes is in `sidle-node`'s `tests/migration`: commands on many keys and walks over them,
//! overlapping and queued requests, a cancellation that comes too late, restarts.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod basics;
mod checks;
mod collections;
mod copies;
mod counts;
mod cuts;
mod dead_source;
mod faults;
mod hints;
mod hot;
mod model;
mod named_faults;
mod net;
mod phases;
mod pieces;
mod protocols;
mod pulls;
mod random;
mod records;
mod refusals;
mod restarts;
mod turn;
mod workers;
mod world;
