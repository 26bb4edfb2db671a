//! The schemes that a name can mean: those of this crate, and those that were added at run time.
//!
//! A run is compiled for its scheme, so the *types* of schemes are known when a program is built. Those that are added
//! share one type of recipe, `T`, whose values tell them apart: a firmware's own scheme is a value of a unit struct,
//! and a binding to another language has one type for all classes that its users write. Rows are borrowed for `'a`:
//! who adds a scheme keeps the text.

use super::{SCHEMES, Visitor, by_name, visit};
use crate::schemes::null::Null;
use crate::{AnyRecipe, Built, MountReport, Recipe, Scheme, Settings};
use alloc::vec::Vec;
use core::convert::Infallible;
use flash::{Flash, Geometry};

/// See the module's description. [`Registry::BUILT_IN`] has the schemes of this crate alone.
///
/// ```
/// use ftl::schemes::{Page, Registry, by_name};
/// use ftl::{Scheme, Static};
///
/// let name = format!("page-{}", 2);
/// let mut schemes = Registry::default();
/// let row = Scheme { name: &name, summary: "page mapping under another name", ..*by_name("page").unwrap() };
/// schemes.add(row, Static::<Page>::NEW).unwrap();
/// assert_eq!(schemes.by_name("page-2").unwrap().paper, by_name("page").unwrap().paper);
/// assert!(schemes.add(row, Static::NEW).is_err(), "the name is taken");
/// ```
#[derive(Clone, Debug)]
pub struct Registry<'a, T = Infallible> {
    added: Vec<(Scheme<'a>, T)>,
}

impl Registry<'static> {
    /// The schemes of this crate.
    pub const BUILT_IN: Registry<'static> = Registry { added: Vec::new() };
}

impl<T> Default for Registry<'_, T> {
    fn default() -> Self {
        Registry { added: Vec::new() }
    }
}

impl<'a, T> Registry<'a, T> {
    /// Adds a scheme.
    ///
    /// # Errors
    /// Its name, if that is taken.
    pub fn add(&mut self, row: Scheme<'a>, recipe: T) -> Result<(), &'a str> {
        if self.by_name(row.name).is_some() {
            return Err(row.name);
        }
        self.added.push((row, recipe));
        Ok(())
    }

    /// The rows of all schemes: first those of this crate, then those that were added, in that order.
    pub fn rows(&self) -> impl Iterator<Item = &Scheme<'a>> {
        SCHEMES.iter().copied().chain(self.added.iter().map(|(row, _)| row))
    }

    /// The row of this name.
    pub fn by_name(&self, name: &str) -> Option<&Scheme<'a>> {
        by_name(name).or_else(|| self.rows().find(|row| row.name == name))
    }

    /// Does something with the scheme of this name; `None` if there is none.
    pub fn visit<F: Flash, V: Visitor<F>>(&self, name: &str, visitor: V) -> Option<V::Output>
    where
        T: Recipe<F>,
    {
        match self.added.iter().find(|(row, _)| row.name == name) {
            Some((row, recipe)) => Some(visitor.visit(row, recipe)),
            None => visit(name, visitor),
        }
    }

    /// The recipe of the scheme of this name, as the type that all have who take any scheme; `None` if there is none.
    pub fn recipe<F: Flash + 'static>(&self, name: &str) -> Option<AnyRecipe<F>>
    where
        T: Recipe<F>,
    {
        struct Any;
        impl<F: Flash + 'static> Visitor<F> for Any {
            type Output = AnyRecipe<F>;
            fn visit<S: Recipe<F>>(self, _: &Scheme<'_>, recipe: &S) -> AnyRecipe<F> {
                AnyRecipe::of(recipe)
            }
        }
        self.visit(name, Any)
    }
}

/// The recipe that nobody has: a registry to which nothing was added.
impl<F: Flash> Recipe<F> for Infallible {
    type Scheme = Null;

    fn format(&self, _: &mut F, _: u32, _: &Settings) -> Built<F, Null> {
        match *self {}
    }

    fn mount(&self, _: &mut F, _: u32, _: &Settings) -> Built<F, (Null, MountReport)> {
        match *self {}
    }

    fn restore(&self, _: &Geometry, _: u32, _: &Settings, _: &[u8]) -> Null {
        match *self {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::Page;
    use crate::{Build, Ftl, Inspect, Settings};
    use alloc::format;
    use alloc::string::String;
    use flash::{Lpn, Nand};

    /// What a binding would have: one type, whose values are schemes. These keep some of the pages for themselves.
    #[derive(Clone)]
    struct Smaller(u32);

    impl<F: Flash> Recipe<F> for Smaller {
        type Scheme = Page;
        fn format(&self, flash: &mut F, pages: u32, settings: &Settings) -> Built<F, Page> {
            Page::format(flash, pages - self.0, settings)
        }
        fn mount(&self, flash: &mut F, pages: u32, settings: &Settings) -> Built<F, (Page, MountReport)> {
            Page::mount(flash, pages - self.0, settings)
        }
        fn restore(&self, geometry: &Geometry, pages: u32, settings: &Settings, bytes: &[u8]) -> Page {
            <Page as Build<F>>::restore(geometry, pages - self.0, settings, bytes)
        }
    }

    /// Bytes of the page map of 64 logical pages, and of the scheme's name.
    struct Map;
    impl Visitor<Nand> for Map {
        type Output = (usize, u64);
        fn visit<S: Recipe<Nand>>(self, row: &Scheme<'_>, recipe: &S) -> (usize, u64) {
            let mut flash = Nand::new(Geometry::default().checked().unwrap());
            let mut scheme = recipe.format(&mut flash, 64, &row.settings()).unwrap();
            scheme.write(&mut flash, Lpn(0), &()).unwrap();
            (row.name.len(), scheme.memory()[0].1)
        }
    }

    #[test]
    fn a_scheme_that_is_added_at_run_time_is_a_scheme_like_any_other() {
        let names: [String; 2] = [1, 10].map(|less| format!("page-less-{less}"));
        let page = by_name("page").unwrap();
        let mut registry = Registry::default();
        for (name, less) in names.iter().zip([1, 10]) {
            registry.add(Scheme { name, ..*page }, Smaller(less)).unwrap();
        }
        assert_eq!(registry.visit(&names[1], Map), Some((12, 54 * 4)));
        assert_eq!(registry.visit(&names[0], Map), Some((11, 63 * 4)));
        assert_eq!(registry.visit("page", Map), Some((4, 64 * 4)));
        let any = registry.recipe(&names[1]).unwrap();
        assert_eq!(Map.visit(registry.by_name(&names[1]).unwrap(), &any), (12, 54 * 4));
        assert!(registry.recipe::<Nand>("no-such-scheme").is_none());
        assert_eq!(registry.visit("no-such-scheme", Map), None);
        assert_eq!(registry.rows().count(), SCHEMES.len() + 2);
        for taken in ["page", &names[0]] {
            assert_eq!(registry.add(Scheme { name: taken, ..*page }, Smaller(0)), Err(taken));
        }
        assert_eq!(Registry::BUILT_IN.visit(&names[0], Map), None);
    }

    #[test]
    fn a_scheme_may_be_an_object() {
        let mut flash: Nand = Nand::new(Geometry::default().checked().unwrap());
        let page = Page::format(&mut flash, 64, &by_name("page").unwrap().settings()).unwrap();
        let mut object: alloc::boxed::Box<dyn Inspect<Nand>> = alloc::boxed::Box::new(page);
        object.write(&mut flash, Lpn(3), &()).unwrap();
        assert_eq!(object.is_mapped(Lpn(3)), Some(true));
        object.audit(&mut flash).unwrap();
    }
}
