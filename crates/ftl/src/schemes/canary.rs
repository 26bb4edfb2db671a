//! `canary`: page mapping with a planted bug, that the checks must catch. Test builds only.
//!
//! The bug: a flush returns without having programmed the pending tombstones, so that a power cut brings discarded
//! pages back.

use super::page::{Page, ROW as PAGE};
use crate::{Build, Built, Ftl, Inspect, MountReport, Outcome, Scheme, Settings};
use alloc::string::String;
use alloc::vec::Vec;
use flash::{Flash, Geometry, Lpn};

/// The row.
pub(super) static ROW: Scheme = Scheme {
    name: "canary",
    summary: "page mapping whose flush does nothing: must be caught",
    essay: include_str!("canary.rs"),
    ..PAGE
};

/// See the module's description.
#[derive(Clone, Debug)]
pub struct Canary(Page);

impl<F: Flash> Build<F> for Canary {
    fn format(flash: &mut F, pages: u32, settings: &Settings) -> Built<F, Self> {
        Page::format(flash, pages, settings).map(Canary)
    }
    fn mount(flash: &mut F, pages: u32, settings: &Settings) -> Built<F, (Self, MountReport)> {
        Page::mount(flash, pages, settings).map(|(page, report)| (Canary(page), report))
    }
    fn restore(geometry: &Geometry, pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        Canary(<Page as Build<F>>::restore(geometry, pages, settings, bytes))
    }
}

impl<F: Flash> Ftl<F> for Canary {
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        self.0.read(flash, lpn)
    }
    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        Ftl::<F>::is_mapped(&self.0, lpn)
    }
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        self.0.write(flash, lpn, data)
    }
    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        self.0.trim(flash, first, count)
    }
    fn flush(&mut self, _: &mut F) -> Outcome<F> {
        Ok(())
    }
    fn idle(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool> {
        self.0.idle(flash, copies)
    }
}

impl<F: Flash> Inspect<F> for Canary {
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Inspect::<F>::memory(&self.0)
    }
    fn filling(&mut self, filling: bool) {
        Inspect::<F>::filling(&mut self.0, filling);
    }
    fn reset_counters(&mut self) {
        Inspect::<F>::reset_counters(&mut self.0);
    }
    fn erase_counts(&self) -> &[u32] {
        Inspect::<F>::erase_counts(&self.0)
    }
    fn free_blocks(&self) -> u32 {
        Inspect::<F>::free_blocks(&self.0)
    }
    fn audit(&self, flash: &mut F) -> Result<(), String> {
        self.0.audit(flash)
    }
    fn save(&self) -> Vec<u8> {
        Inspect::<F>::save(&self.0)
    }
}
