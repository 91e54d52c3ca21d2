//! Building a slot's index anew from its records: a test of what recovery would rely on.

use crate::bucket::Word;
use crate::writer::SlotGuard;
use sidle_types::HashedKey;

/// See [`Store::rebuild`](crate::Store::rebuild).
pub(crate) fn rebuild(guard: &SlotGuard<'_>) -> usize {
    let (data, table, pin) = (guard.data(), guard.table(), guard.pinned());
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut from = Some(0);
    while let Some(span) = from.and_then(|hash| table.span(hash, pin)) {
        words.extend(span.entries(pin).map(|(_, word)| word));
        from = span.last.checked_add(1);
    }
    assert!(words.len() as u64 == table.entries(), "every entry is found");
    table.lock.make_exclusive();
    table.drop_table(&data.index_memory());
    guard.reserve(words.len());
    for word in &words {
        let record = guard.record(*word);
        let key = HashedKey::new(record.key());
        assert!(key.slot() == guard.slot(), "a record of slot {}", key.slot());
        let again = |level| Word::new(word.address(), key.hash().0, level, word.kind());
        let hash_of = |word: Word<'_>| data.hash_of(word, pin);
        table.insert(key.hash().0, again, pin, &data.index_memory(), hash_of);
    }
    table.lock.let_readers_in();
    words.len()
}
