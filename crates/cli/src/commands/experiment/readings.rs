//! Workloads that were read before.
//!
//! Experiments run on the same requests again and again, on other devices or after another fill. To make a twin's
//! requests, or to parse a trace's, and to profile them, takes as long as many a run, so they are kept: as many as
//! would be kept of one workload, those that nobody has asked for longest given up first. Whoever asks for what is
//! being read waits for it.

use super::reading::Read;
use crate::error::CliError;
use crate::feed::Shared;
use sim::workload::Source;
use sim::workload::profile::Profile;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A workload that was read.
#[derive(Clone)]
struct Kept {
    profile: Arc<Profile>,
    /// `None`: they are too many to be kept, and every run reads them for itself.
    requests: Option<Shared>,
    announcement: Option<String>,
}

impl Kept {
    fn read(&self) -> Read {
        let Kept { profile, requests, announcement } = self.clone();
        let kept = requests.map(|requests| Box::new(requests.replay()) as Box<dyn Source>);
        Read { profile, in_memory: kept.is_some(), kept, announcement, flows_timed: Vec::new() }
    }
}

/// The place of one workload; empty while it is being read.
#[derive(Clone, Default)]
struct Place {
    kept: Arc<Mutex<Option<Kept>>>,
    requests: u64,
    /// When somebody asked for it last.
    asked: u64,
}

#[derive(Default)]
struct Shelf {
    places: BTreeMap<String, Place>,
    asked: u64,
}

/// See the module's description.
pub struct Readings {
    most: u64,
    shelf: Mutex<Shelf>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Readings {
    /// Keeps so many requests at the most.
    pub fn new(most: u64) -> Readings {
        Readings { most, shelf: Mutex::default() }
    }

    /// The workload that `key` stands for: as it was kept, or else as `read` reads it. What `is_whole` denies is not
    /// kept.
    pub(super) fn get(
        &self,
        key: &str,
        read: impl FnOnce() -> Result<Read, CliError>,
        is_whole: impl FnOnce() -> bool,
    ) -> Result<Read, CliError> {
        let place = {
            let mut shelf = locked(&self.shelf);
            shelf.asked += 1;
            let asked = shelf.asked;
            let place = shelf.places.entry(key.to_owned()).or_default();
            place.asked = asked;
            Arc::clone(&place.kept)
        };
        let mut place = locked(&place);
        if let Some(kept) = &*place {
            return Ok(kept.read());
        }
        let read = read()?;
        if !is_whole() {
            return Ok(read);
        }
        let Read { profile, kept, announcement, .. } = read;
        let requests = kept.map(|mut source| Shared::read(source.as_mut())).transpose()?;
        let kept = Kept { profile, requests, announcement };
        let read = kept.read();
        if read.in_memory {
            self.make_room(key, read.profile.requests);
        }
        *place = Some(kept);
        Ok(read)
    }

    /// Gives up what was asked for longest ago, until there is room for the requests of `key`.
    fn make_room(&self, key: &str, requests: u64) {
        let mut shelf = locked(&self.shelf);
        if let Some(place) = shelf.places.get_mut(key) {
            place.requests = requests;
        }
        while shelf.places.values().map(|place| place.requests).sum::<u64>() > self.most {
            let others = shelf.places.iter().filter(|(other, place)| *other != key && place.requests > 0);
            let Some(last) = others.min_by_key(|(_, place)| place.asked).map(|(key, _)| key.clone()) else { break };
            shelf.places.remove(&last);
        }
    }
}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Readings").field("most", &self.most).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::workload::Request;
    use sim::workload::generate::{Context, generate};
    use std::cell::Cell;

    /// Reads so many requests, and counts how often that was done.
    fn read(requests: u64, times: &Cell<u32>) -> Result<Read, CliError> {
        times.set(times.get() + 1);
        let open = || generate(&format!("zipf:requests={requests}"), &Context { capacity_bytes: 1 << 24, seed: 1 });
        let profile = Arc::new(Profile::of(open()?.as_mut(), 4096)?);
        let kept = Shared::read(open()?.as_mut())?.replay();
        Ok(Read { profile, kept: Some(Box::new(kept)), in_memory: true, announcement: None, flows_timed: Vec::new() })
    }

    fn all(read: Read) -> Vec<Request> {
        let mut source = read.kept.unwrap();
        let mut all = Vec::new();
        source.fill(&mut all, 1000).unwrap();
        all
    }

    #[test]
    fn what_was_read_is_not_read_again_until_there_is_no_room_for_it() {
        let (readings, times) = (Readings::new(250), Cell::new(0));
        let get = |key: &str| all(readings.get(key, || read(100, &times), || true).unwrap()).len();
        assert_eq!((get("a"), get("b"), get("a"), times.get()), (100, 100, 100, 2));
        // The third leaves room for one other: that which somebody has asked for since.
        assert_eq!((get("c"), get("a"), times.get()), (100, 100, 3));
        assert_eq!((get("b"), times.get()), (100, 4));
    }

    #[test]
    fn the_same_requests_come_again() {
        let (readings, times) = (Readings::new(1000), Cell::new(0));
        let get = || all(readings.get("a", || read(100, &times), || true).unwrap());
        assert_eq!(get(), get());
        assert_eq!(times.get(), 1);
    }

    #[test]
    fn what_was_broken_off_is_not_kept() {
        let (readings, times) = (Readings::new(1000), Cell::new(0));
        for _ in 0..2 {
            assert_eq!(all(readings.get("a", || read(100, &times), || false).unwrap()).len(), 100);
        }
        assert_eq!(times.get(), 2);
        let failing = readings.get("b", || Err(CliError::new("gone")), || true);
        assert_eq!(failing.err().map(|error| error.message().to_owned()), Some("gone".to_owned()));
        assert_eq!(all(readings.get("b", || read(100, &times), || true).unwrap()).len(), 100);
    }
}
