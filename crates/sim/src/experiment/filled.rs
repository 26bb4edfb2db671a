//! A device that was filled, kept for runs that begin alike.
//!
//! To fill a large device takes longer than many a workload on it. What a fill leaves does not depend on the workload,
//! unless that fills the device itself; so the second run of a scheme begins with a copy of what the first began with.

use super::{Config, Fill};
use std::any::Any;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One scheme on one device, as its fill left them, and what they are the state of.
type State = (String, Box<dyn Any + Send>);

/// See the module's description. It keeps the last device that was filled. Whoever shares it among runs brings along no
/// two schemes of one name.
#[derive(Default)]
pub struct Filled(Mutex<Option<State>>);

impl Filled {
    fn state(&self) -> MutexGuard<'_, Option<State>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was kept of a run that begins as this one does.
    pub(super) fn get<T: Clone + 'static>(&self, config: &Config) -> Option<T> {
        let state = self.state();
        let (start, kept) = state.as_ref()?;
        kept.downcast_ref().filter(|_| *start == self::start(config)).cloned()
    }

    /// Keeps a state in place of the one before, if it does not hang on the workload.
    pub(super) fn keep<T: Clone + Send + 'static>(&self, config: &Config, state: &T) {
        if !matches!(config.fill, Fill::None | Fill::Trace) {
            *self.state() = None;
            let state = Box::new(state.clone());
            *self.state() = Some((start(config), state));
        }
    }
}

/// All that decides how a run begins.
fn start(config: &Config) -> String {
    let Config { scheme, settings, device, seed, fill, medium, until, mount, .. } = config;
    format!("{scheme} {settings:?} {device:?} {seed} {fill:?} {medium:?} {until:?} {mount}")
}

impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Filled").field(&self.state().as_ref().map(|(start, _)| start)).finish()
    }
}
