//! Who takes the device next: whoever has waited longest.
//!
//! A mutex alone lets the thread that has just given it back take it again before those who wait, so that one client
//! with a long request in slices would hold all others up. Here a turn is handed on to the one who waits longest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, Thread};

#[derive(Debug)]
struct Waiting {
    thread: Thread,
    /// It is its turn.
    called: AtomicBool,
}

#[derive(Debug, Default)]
struct Queue {
    taken: bool,
    waiting: VecDeque<Arc<Waiting>>,
}

/// The queue for one thing.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Queue>);

impl Turns {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many wait for their turn.
    pub(super) fn waiting(&self) -> usize {
        self.queue().waiting.len()
    }

    /// Takes a turn if nobody has one: who has nothing urgent to do.
    pub(super) fn take(&self) -> Option<Turn<'_>> {
        let mut queue = self.queue();
        if std::mem::replace(&mut queue.taken, true) { None } else { Some(Turn(self)) }
    }

    /// Waits for all who came before, and takes a turn.
    pub(super) fn wait(&self) -> Turn<'_> {
        let mut queue = self.queue();
        if !queue.taken {
            queue.taken = true;
            return Turn(self);
        }
        let waiting = Arc::new(Waiting { thread: thread::current(), called: AtomicBool::new(false) });
        queue.waiting.push_back(Arc::clone(&waiting));
        drop(queue);
        while !waiting.called.load(Ordering::Acquire) {
            thread::park();
        }
        Turn(self)
    }
}

/// A turn, which ends when this is dropped.
#[derive(Debug)]
pub(super) struct Turn<'a>(&'a Turns);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        match queue.waiting.pop_front() {
            Some(next) => {
                next.called.store(true, Ordering::Release);
                next.thread.unpark();
            }
            None => queue.taken = false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_go_in_the_order_in_which_they_are_asked_for() {
        let (turns, order) = (Turns::default(), Mutex::new(Vec::new()));
        let first = turns.take().expect("nobody has a turn");
        assert!(turns.take().is_none());
        thread::scope(|scope| {
            for number in 0..8 {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let turn = turns.wait();
                    order.lock().unwrap().push(number);
                    drop(turn);
                    // Behind all who wait already.
                    let turn = turns.wait();
                    order.lock().unwrap().push(number + 8);
                    drop(turn);
                });
                while turns.waiting() <= number {
                    thread::yield_now();
                }
            }
            drop(first);
        });
        let order = order.into_inner().unwrap();
        assert_eq!(order[..8], [0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(!turns.queue().taken);
    }
}
