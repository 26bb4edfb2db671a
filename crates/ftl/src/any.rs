//! A scheme that is known at run time alone.
//!
//! Whatever is compiled for a scheme is compiled once more for each. That is worth it where a simulator does little
//! but call the scheme. Everybody else, such as a mounted device, a checker or a write buffer, takes any scheme as one
//! type, [`AnyScheme`], and pays an indirect call for a page.

use crate::{Built, CacheCounters, Ftl, Inspect, MountReport, Outcome, Recipe, Settings};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use flash::{Flash, Geometry, Lpn};

/// A scheme over a medium `F`, whichever it is.
pub struct AnyScheme<F: Flash + 'static>(Box<dyn Branching<F>>);

/// How any scheme is made.
pub struct AnyRecipe<F: Flash + 'static>(Box<dyn Making<F>>);

/// A scheme that can be cloned behind a pointer.
trait Branching<F: Flash>: Inspect<F> + Send {
    fn branch(&self) -> Box<dyn Branching<F>>;
}

impl<F: Flash, S: Inspect<F> + Clone + Send + 'static> Branching<F> for S {
    fn branch(&self) -> Box<dyn Branching<F>> {
        Box::new(self.clone())
    }
}

/// A [`Recipe`] behind a pointer.
trait Making<F: Flash>: Send {
    fn branch(&self) -> Box<dyn Making<F>>;
    fn format(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, AnyScheme<F>>;
    fn mount(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (AnyScheme<F>, MountReport)>;
    fn restore(&self, geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> AnyScheme<F>;
}

impl<F: Flash + 'static, R: Recipe<F>> Making<F> for R {
    fn branch(&self) -> Box<dyn Making<F>> {
        Box::new(self.clone())
    }

    fn format(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, AnyScheme<F>> {
        Ok(AnyScheme(Box::new(Recipe::format(self, flash, logical_pages, settings)?)))
    }

    fn mount(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (AnyScheme<F>, MountReport)> {
        let (scheme, report) = Recipe::mount(self, flash, logical_pages, settings)?;
        Ok((AnyScheme(Box::new(scheme)), report))
    }

    fn restore(&self, geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> AnyScheme<F> {
        AnyScheme(Box::new(Recipe::restore(self, geometry, logical_pages, settings, bytes)))
    }
}

impl<F: Flash + 'static> AnyRecipe<F> {
    /// That of `recipe`.
    pub fn of(recipe: &impl Recipe<F>) -> Self {
        AnyRecipe(Making::branch(recipe))
    }
}

impl<F: Flash + 'static> Clone for AnyRecipe<F> {
    fn clone(&self) -> Self {
        AnyRecipe((*self.0).branch())
    }
}

impl<F: Flash + 'static> fmt::Debug for AnyRecipe<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyRecipe").finish_non_exhaustive()
    }
}

impl<F: Flash + 'static> Recipe<F> for AnyRecipe<F> {
    type Scheme = AnyScheme<F>;

    fn format(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, AnyScheme<F>> {
        (*self.0).format(flash, logical_pages, settings)
    }

    fn mount(&self, flash: &mut F, logical_pages: u32, settings: &Settings) -> Built<F, (AnyScheme<F>, MountReport)> {
        (*self.0).mount(flash, logical_pages, settings)
    }

    fn restore(&self, geometry: &Geometry, logical_pages: u32, settings: &Settings, bytes: &[u8]) -> AnyScheme<F> {
        (*self.0).restore(geometry, logical_pages, settings, bytes)
    }
}

impl<F: Flash + 'static> Clone for AnyScheme<F> {
    fn clone(&self) -> Self {
        AnyScheme((*self.0).branch())
    }
}

impl<F: Flash + 'static> fmt::Debug for AnyScheme<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyScheme").finish_non_exhaustive()
    }
}

// All methods, those with a body of their own as well: a scheme may have another.
impl<F: Flash + 'static> Ftl<F> for AnyScheme<F> {
    fn request(&mut self, first: Lpn, pages: u32) {
        self.0.request(first, pages);
    }
    fn request_bytes(&mut self, bytes: u64) {
        self.0.request_bytes(bytes);
    }
    fn read<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        self.0.read(flash, lpn)
    }
    fn is_mapped(&self, lpn: Lpn) -> Option<bool> {
        self.0.is_mapped(lpn)
    }
    fn read_to_modify<'f>(&'f mut self, flash: &'f mut F, lpn: Lpn) -> Outcome<F, Option<&'f F::User>> {
        self.0.read_to_modify(flash, lpn)
    }
    fn write(&mut self, flash: &mut F, lpn: Lpn, data: &F::User) -> Outcome<F> {
        self.0.write(flash, lpn, data)
    }
    fn trim(&mut self, flash: &mut F, first: Lpn, count: u32) -> Outcome<F> {
        self.0.trim(flash, first, count)
    }
    fn flush(&mut self, flash: &mut F) -> Outcome<F> {
        self.0.flush(flash)
    }
    fn idle(&mut self, flash: &mut F, copies: u32) -> Outcome<F, bool> {
        self.0.idle(flash, copies)
    }
}

impl<F: Flash + 'static> Inspect<F> for AnyScheme<F> {
    fn filling(&mut self, filling: bool) {
        self.0.filling(filling);
    }
    fn hint(&self, lpn: Lpn) {
        self.0.hint(lpn);
    }
    fn hint_soon(&self, lpn: Lpn) {
        self.0.hint_soon(lpn);
    }
    fn memory(&self) -> Vec<(&'static str, u64)> {
        self.0.memory()
    }
    fn cache(&self) -> Option<CacheCounters> {
        self.0.cache()
    }
    fn counters(&self) -> Vec<(&'static str, u64)> {
        self.0.counters()
    }
    fn reset_counters(&mut self) {
        self.0.reset_counters();
    }
    fn erase_counts(&self) -> &[u32] {
        self.0.erase_counts()
    }
    fn free_blocks(&self) -> u32 {
        self.0.free_blocks()
    }
    fn audit(&self, flash: &mut F) -> Result<(), String> {
        self.0.audit(flash)
    }
    fn audit_free(&self, flash: &mut F) -> Result<(), String> {
        self.0.audit_free(flash)
    }
    fn save(&self) -> Vec<u8> {
        self.0.save()
    }
}

#[cfg(test)]
mod tests {
    use crate::schemes::{Dftl, Registry, by_name};
    use crate::{AnyRecipe, CacheCounters, Inspect, Recipe, Static};
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;
    use flash::{Flash, Full, Geometry, Lpn, Nand, Rng, Tags};

    type Chip = Nand<Tags, Full>;

    fn chip() -> Chip {
        Chip::new(Geometry::default().checked().unwrap())
    }

    /// Everything that a scheme tells of itself.
    fn told<S: Inspect<Chip>>(scheme: &S, flash: &mut Chip) -> String {
        let mapped: Vec<Option<bool>> = (0..300).map(|lpn| scheme.is_mapped(Lpn(lpn))).collect();
        let numbers = (scheme.memory(), scheme.cache(), scheme.counters(), scheme.free_blocks());
        let audits = (scheme.audit(flash), scheme.audit_free(flash));
        format!("{mapped:?} {numbers:?} {:?} {:?} {audits:?}", scheme.erase_counts(), scheme.save())
    }

    fn work<S: Inspect<Chip>>(scheme: &mut S, flash: &mut Chip, seed: u64) {
        let mut rng = Rng::new(seed);
        for tag in 0..2000 {
            let lpn = Lpn(rng.below(300) as u32);
            scheme.request(lpn, 1);
            match rng.below(8) {
                0 => scheme.trim(flash, lpn, 1).unwrap(),
                1 => scheme.flush(flash).unwrap(),
                2 => drop(scheme.idle(flash, 4).unwrap()),
                3 => drop(scheme.read(flash, lpn).unwrap()),
                4 => drop(scheme.read_to_modify(flash, lpn).unwrap()),
                _ => scheme.write(flash, lpn, &tag).unwrap(),
            }
        }
    }

    #[test]
    fn any_scheme_does_and_tells_what_its_scheme_does() {
        let settings = by_name("dftl").unwrap().settings();
        let recipe: AnyRecipe<Chip> = Registry::BUILT_IN.recipe("dftl").unwrap();
        let (mut flash, mut other) = (chip(), chip());
        let own = Static::<Dftl>::NEW;
        let mut dftl = own.format(&mut flash, 300, &settings).unwrap();
        let mut any = recipe.format(&mut other, 300, &settings).unwrap();
        work(&mut dftl, &mut flash, 1);
        work(&mut any, &mut other, 1);
        assert_eq!(told(&dftl, &mut flash), told(&any, &mut other));

        // A branch goes its own way.
        let before = any.save();
        work(&mut any.clone(), &mut other.clone(), 2);
        assert_eq!(any.save(), before);
        any.reset_counters();
        assert_eq!(any.cache().unwrap(), CacheCounters::default());

        let restored = recipe.clone().restore(other.geometry(), 300, &settings, &before);
        assert_eq!(restored.save(), before);
        let (mounted, found) = recipe.mount(&mut other, 300, &settings).unwrap();
        let (same, same_found) = own.mount(&mut flash, 300, &settings).unwrap();
        assert_eq!((told(&mounted, &mut other), found), (told(&same, &mut flash), same_found));
    }
}
