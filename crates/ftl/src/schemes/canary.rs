//! `canary`: page mapping with a planted bug, that the checks must catch. Test builds only.
//!
//! The bug: a flush returns without having programmed the pending tombstones, so that a power cut brings discarded
//! pages back.

use super::page::{Page, ROW as PAGE};
use crate::{ConfigError, Error, Ftl, MountReport, Scheme, Settings};
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

impl<F: Flash> Ftl<F> for Canary {
    fn format(flash: &mut F, pages: u32, settings: &Settings) -> Result<Result<Self, Error<F::Fault>>, ConfigError> {
        Ok(Page::format(flash, pages, settings)?.map(Canary))
    }
    fn mount(
        flash: &mut F,
        pages: u32,
        settings: &Settings,
    ) -> Result<Result<(Self, MountReport), Error<F::Fault>>, ConfigError> {
        Ok(Page::mount(flash, pages, settings)?.map(|(page, report)| (Canary(page), report)))
    }
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Result<Option<&'f F::User>, Error<F::Fault>> {
        self.0.read(flash, lpn)
    }
    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        Ftl::<F>::is_mapped(&self.0, lpn)
    }
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Result<(), Error<F::Fault>> {
        self.0.write(flash, lpn, data)
    }
    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Result<(), Error<F::Fault>> {
        self.0.trim(flash, first, count)
    }
    fn flush(&mut self, _: &mut F) -> Result<(), Error<F::Fault>> {
        Ok(())
    }
    fn idle(&mut self, flash: &mut F, copies: u32) -> Result<bool, Error<F::Fault>> {
        self.0.idle(flash, copies)
    }
    fn memory(&self) -> Vec<(&'static str, u64)> {
        Ftl::<F>::memory(&self.0)
    }
    fn filling(&mut self, filling: bool) {
        Ftl::<F>::filling(&mut self.0, filling);
    }
    fn reset_counters(&mut self) {
        Ftl::<F>::reset_counters(&mut self.0);
    }
    fn erase_counts(&self) -> &[u32] {
        Ftl::<F>::erase_counts(&self.0)
    }
    fn free_blocks(&self) -> u32 {
        Ftl::<F>::free_blocks(&self.0)
    }
    fn audit(&self, flash: &mut F) -> Result<(), String> {
        self.0.audit(flash)
    }
    fn save(&self) -> Vec<u8> {
        Ftl::<F>::save(&self.0)
    }
    fn restore(geometry: &Geometry, pages: u32, settings: &Settings, bytes: &[u8]) -> Self {
        Canary(<Page as Ftl<F>>::restore(geometry, pages, settings, bytes))
    }
}
