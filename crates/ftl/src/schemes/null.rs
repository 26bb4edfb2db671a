//! `null`: does nothing. What a run costs with it is what the harness costs.

use crate::{Build, Built, Ftl, Inspect, MountReport, Outcome, Scheme, Settings};
use alloc::string::String;
use alloc::vec::Vec;
use flash::{Flash, Geometry, Lpn};

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "null",
    summary: "does nothing: measures the harness",
    paper: "none",
    essay: include_str!("null.rs"),
    own: &[],
    parts: &[],
    fixed: &[],
    counters: &[],
    phases: &[],
    has_cache: false,
    keeps_data: false,
    state_version: 1,
};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Null;

impl<F: Flash> Build<F> for Null {
    fn format(_: &mut F, _: u32, _: &Settings) -> Built<F, Self> {
        Ok(Null)
    }
    fn mount(_: &mut F, _: u32, _: &Settings) -> Built<F, (Self, MountReport)> {
        Ok((Null, MountReport::default()))
    }
    fn restore(_: &Geometry, _: u32, _: &Settings, _: &[u8]) -> Self {
        Null
    }
}

impl<F: Flash> Ftl<F> for Null {
    #[inline]
    fn read<'f>(&mut self, _: &'f mut F, _: Lpn) -> Outcome<F, Option<&'f F::User>> {
        Ok(None)
    }
    #[inline]
    fn write(&mut self, _: &mut F, _: Lpn, _: &F::User) -> Outcome<F> {
        Ok(())
    }
    fn trim(&mut self, _: &mut F, _: Lpn, _: u32) -> Outcome<F> {
        Ok(())
    }
    fn flush(&mut self, _: &mut F) -> Outcome<F> {
        Ok(())
    }
    fn idle(&mut self, _: &mut F, _: u32) -> Outcome<F, bool> {
        Ok(false)
    }
}

impl<F: Flash> Inspect<F> for Null {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
    fn reset_counters(&mut self) {}
    fn erase_counts(&self) -> &[u32] {
        &[]
    }
    fn free_blocks(&self) -> u32 {
        0
    }
    fn audit(&self, _: &mut F) -> Result<(), String> {
        Ok(())
    }
    fn save(&self) -> Vec<u8> {
        Vec::new()
    }
}
