//! Replies that are held until they are due.
//!
//! With emulated timing a request is carried out when it arrives and answered when the simulated device would have. A
//! connection then has a second thread, which alone writes to the socket. How much it holds is bounded: a client that
//! asks faster than it is answered waits, as it would for a device whose queue is full.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Most bytes held for a connection, unless a single reply is longer.
const MOST_BYTES: usize = 64 << 20;

/// Timers of an operating system are late by this much as a rule; the rest is waited for awake.
const TIMER_SLACK: Duration = Duration::from_micros(80);

/// Buffers kept for reuse.
const SPARE: usize = 64;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Held {
    at: Instant,
    /// Order of arrival, among replies due at one time.
    number: u64,
    bytes: Vec<u8>,
}

#[derive(Debug, Default)]
struct Queue {
    held: BinaryHeap<Reverse<Held>>,
    number: u64,
    bytes: usize,
    spare: Vec<Vec<u8>>,
    /// Nothing more comes; the rest goes out when it is due.
    closed: bool,
    /// The peer is gone.
    broken: bool,
}

/// The replies of one connection.
#[derive(Debug, Default)]
pub(super) struct Delay {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Delay {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Holds `bytes` until `at`.
    ///
    /// # Errors
    /// The peer is gone.
    pub(super) fn hold(&self, at: Instant, bytes: &[u8]) -> io::Result<()> {
        let full = |queue: &mut Queue| queue.bytes > 0 && queue.bytes + bytes.len() > MOST_BYTES && !queue.broken;
        let mut queue = self.changed.wait_while(self.lock(), full).unwrap_or_else(PoisonError::into_inner);
        if queue.broken {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut buffer = queue.spare.pop().unwrap_or_default();
        buffer.extend_from_slice(bytes);
        queue.bytes += bytes.len();
        let number = queue.number;
        queue.number += 1;
        queue.held.push(Reverse(Held { at, number, bytes: buffer }));
        self.changed.notify_all();
        Ok(())
    }

    /// Nothing more comes once what is returned has been dropped.
    pub(super) fn closed_when_dropped(&self) -> impl Drop {
        Closing(self)
    }

    /// Sends replies when they are due, until closed and empty, or the peer is gone. Calls `answered` after each.
    pub(super) fn run(&self, mut out: impl Write, answered: impl Fn()) {
        let mut queue = self.lock();
        loop {
            let now = Instant::now();
            match queue.held.peek().map(|Reverse(held)| held.at.saturating_duration_since(now)) {
                None if queue.closed => return,
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => {
                    let Some(Reverse(mut held)) = queue.held.pop() else { continue };
                    drop(queue);
                    let sent = out.write_all(&held.bytes);
                    answered();
                    queue = self.lock();
                    queue.bytes -= held.bytes.len();
                    if sent.is_err() {
                        queue.broken = true;
                        // Those that were held count as answered: nobody waits for them.
                        queue.held.drain().for_each(|_| answered());
                        self.changed.notify_all();
                        return;
                    }
                    held.bytes.clear();
                    if queue.spare.len() < SPARE {
                        queue.spare.push(held.bytes);
                    }
                    self.changed.notify_all();
                }
                Some(left) if left > TIMER_SLACK => {
                    let waited = self.changed.wait_timeout(queue, left - TIMER_SLACK);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                Some(_) => {
                    drop(queue);
                    std::thread::yield_now();
                    queue = self.lock();
                }
            }
        }
    }
}

struct Closing<'a>(&'a Delay);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.lock().closed = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_leave_in_the_order_in_which_they_are_due_and_not_before() {
        let delay = Delay::default();
        let began = Instant::now();
        let due = [30, 10, 20, 10].map(|ms| began + Duration::from_millis(ms));
        for (at, letter) in due.into_iter().zip([b"d", b"a", b"c", b"b"]) {
            delay.hold(at, letter).unwrap();
        }
        drop(delay.closed_when_dropped());
        let mut out = Vec::new();
        delay.run(&mut out, || ());
        assert_eq!(out, b"abcd");
        assert!(Instant::now() >= due[0]);
    }

    #[test]
    fn a_peer_that_is_gone_frees_whoever_waits_for_room() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let delay = Delay::default();
        let soon = Instant::now() + Duration::from_millis(20);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                delay.hold(soon, &vec![0; MOST_BYTES]).unwrap();
                delay.hold(soon, b"no room").unwrap_err();
            });
            delay.run(Gone, || ());
        });
    }
}
