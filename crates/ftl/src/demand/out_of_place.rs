//! Translation pages that are written out of place (the DFTL paper): every update is a read, a change and a program
//! elsewhere.

use super::map::{Batch, MapStore, TranslationPage, Update};
use crate::parts::lanes::Stream;
use crate::parts::space::Space;
use crate::parts::translation::TranslationStore;
use crate::{ConfigError, Loader, Outcome, Parameter, Saver, Settings};
use flash::{Flash, Geometry, Ppn, Tvpn};

/// `batch-evict`: what an eviction writes back.
pub(crate) const BATCH_EVICT: Parameter = Parameter::switch("batch-evict", true)
    .text(
        "An eviction writes back all dirty entries of its translation page. Off writes the victim's alone, as \
         FlashSim does, and updates pages more often.",
    )
    .source("{dftl}, section 3.3");

/// What the store is told.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// `batch-evict`.
    pub batch_evict: bool,
}

impl From<&Settings> for Options {
    fn from(settings: &Settings) -> Options {
        Options { batch_evict: settings.switch(&BATCH_EVICT) }
    }
}

/// See the module's description.
#[derive(Clone, Debug)]
pub struct OutOfPlace {
    pages: TranslationStore,
    batch_evict: bool,
}

impl MapStore for OutOfPlace {
    type Options = Options;

    fn new(g: &Geometry, logical_pages: u32, stream: Stream, options: &Options) -> Result<Self, ConfigError> {
        let pages = TranslationStore::new(logical_pages, g.entries_per_page(), stream);
        Ok(OutOfPlace { pages, batch_evict: options.batch_evict })
    }

    #[inline(always)]
    fn pages(&self) -> &TranslationStore {
        &self.pages
    }

    #[inline(always)]
    fn entries(&self, TranslationPage { words, .. }: TranslationPage<'_>, first: usize, out: &mut [u32]) {
        let known = out.len().min(words.len().saturating_sub(first));
        out[..known].copy_from_slice(&words[first..first + known]);
        out[known..].fill(Ppn::NONE.0);
    }

    #[inline(always)]
    fn batch<F: Flash>(&mut self, _: &mut F, _: Tvpn, _: u32) -> Result<Batch, F::Fault> {
        Ok(if self.batch_evict { Batch::All } else { Batch::Victim })
    }

    fn edit<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        how: Update,
        edit: impl FnMut(&mut [u32]),
    ) -> Outcome<F> {
        self.pages.update(flash, space, tvpn, how.all, how.cause, edit)
    }

    fn rewrite<F: Flash>(
        &mut self,
        flash: &mut F,
        space: &mut Space,
        tvpn: Tvpn,
        words: &[u32],
        how: Update,
    ) -> Outcome<F> {
        self.pages.rewrite(flash, space, tvpn, words, how.all, how.cause)
    }

    fn moved(&mut self, tvpn: Tvpn, to: Ppn) {
        self.pages.found(tvpn, to);
    }

    fn found(&mut self, at: Ppn, page: TranslationPage<'_>) {
        self.pages.found(page.oob.tvpn(), at);
    }

    fn memory(&self) -> u64 {
        self.pages.memory()
    }

    fn save(&self, out: &mut Saver) {
        self.pages.save(out);
    }

    fn load(&mut self, from: &mut Loader<'_>) {
        self.pages.load(from);
    }
}
