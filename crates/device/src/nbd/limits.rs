//! How many bytes all clients together may have under way.
//!
//! A request that needs more than is left waits until others have finished, and is given up after a while: so that
//! requests that wait for each other do not wait for ever, and clients that finish nothing do not stop the others for
//! longer than that.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The bytes.
#[derive(Debug)]
pub(super) struct Budget {
    most: usize,
    patience: Duration,
    used: Mutex<usize>,
    freed: Condvar,
}

impl Budget {
    pub(super) fn new(most: usize, patience: Duration) -> Budget {
        Budget { most, patience, used: Mutex::new(0), freed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether more than half of them are in use.
    pub(super) fn is_scarce(&self) -> bool {
        *self.lock() > self.most / 2
    }

    /// How many are in use.
    pub(super) fn used(&self) -> usize {
        *self.lock()
    }

    /// A part of them, empty at first.
    pub(super) fn hold(&self) -> Held<'_> {
        Held { budget: self, bytes: 0 }
    }
}

/// A part of the bytes, given back when dropped.
#[derive(Debug)]
pub(super) struct Held<'a> {
    budget: &'a Budget,
    bytes: usize,
}

impl Held<'_> {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it so many bytes. Waits if that is more than before and than is left; `false` if it waited in vain, and
    /// nothing has changed.
    #[must_use = "memory that was not granted must not be taken"]
    pub(super) fn resize(&mut self, bytes: usize) -> bool {
        let Held { budget, bytes: held } = self;
        if bytes == *held {
            return true;
        }
        let others_and = |used: usize| used - *held + bytes;
        let mut used = budget.lock();
        if bytes > *held && others_and(*used) > budget.most {
            let full = |used: &mut usize| others_and(*used) > budget.most;
            let waited = budget.freed.wait_timeout_while(used, budget.patience, full);
            let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            if timeout.timed_out() {
                return false;
            }
            used = now;
        }
        *used = others_and(*used);
        drop(used);
        if bytes < *held {
            budget.freed.notify_all();
        }
        *held = bytes;
        true
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Fewer bytes are always granted.
        let _ = self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_more_than_is_left_waits_for_others_and_not_for_ever() {
        let budget = Budget::new(100, Duration::from_millis(500));
        let (mut one, mut other) = (budget.hold(), budget.hold());
        assert!(one.resize(40) && !budget.is_scarce() && other.resize(60) && budget.is_scarce());
        assert!(!one.resize(41), "nothing is left");
        assert!(one.resize(30) && other.resize(70));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(5));
                drop(other);
            });
            assert!(one.resize(100), "the other one ends");
        });
        drop(one);
        assert_eq!(budget.used(), 0);
    }
}
