//! What was promised, and what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::cases::Verdict;

/// What is known about an id.
#[derive(Debug, Clone)]
pub struct Entry {
    pub case: &'static str,
    pub verdict: Verdict,
    /// The producer was told that its result will come.
    pub confirmed: bool,
    /// How often the producer was refused, or told nothing, before that.
    pub refusals: u32,
    /// How often the same message was published once more, past the client.
    pub copies: u32,
    /// The result as it was first seen, in the store's own bytes.
    pub first_seen: Option<Vec<u8>>,
}

#[derive(Default)]
pub struct Ledger(Mutex<Books>);

#[derive(Default)]
struct Books {
    entries: BTreeMap<String, Entry>,
    /// Confirmed, and no result seen yet.
    open: BTreeSet<String>,
    done: usize,
    /// Messages without a promise: they are to become dead letters.
    poison: usize,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    pub confirmed: usize,
    pub done: usize,
    pub open: usize,
    pub refusals: usize,
    pub copies: usize,
    pub poison: usize,
}

impl Ledger {
    fn books(&self) -> MutexGuard<'_, Books> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Before anything is sent: a result may be there before the producer is told.
    pub fn announce(&self, id: &str, case: &'static str, verdict: Verdict) {
        let entry = Entry { case, verdict, confirmed: false, refusals: 0, copies: 0, first_seen: None };
        self.books().entries.insert(id.to_owned(), entry);
    }

    pub fn refused(&self, id: &str) {
        self.change(id, |entry| entry.refusals += 1);
    }

    pub fn copied(&self, id: &str) {
        self.change(id, |entry| entry.copies += 1);
    }

    pub fn confirmed(&self, id: &str) {
        self.change(id, |entry| entry.confirmed = true);
        self.books().open.insert(id.to_owned());
    }

    pub fn poisoned(&self) {
        self.books().poison += 1;
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Entry)) {
        change(self.books().entries.get_mut(id).expect("announced before"));
    }

    pub fn open(&self) -> Vec<String> {
        self.books().open.iter().cloned().collect()
    }

    /// A result is there.
    pub fn seen(&self, id: &str, result: Vec<u8>) {
        let mut books = self.books();
        if books.open.remove(id) {
            books.done += 1;
            books.entries.get_mut(id).expect("announced before").first_seen = Some(result);
        }
    }

    pub fn totals(&self) -> Totals {
        let books = self.books();
        let entries = books.entries.values();
        Totals {
            confirmed: books.open.len() + books.done,
            done: books.done,
            open: books.open.len(),
            refusals: entries.clone().map(|entry| entry.refusals as usize).sum(),
            copies: entries.map(|entry| entry.copies as usize).sum(),
            poison: books.poison,
        }
    }

    pub fn entries(&self) -> BTreeMap<String, Entry> {
        self.books().entries.clone()
    }
}
