//! Differentiated error correction in a scheme: asks the policy, and holds the page that is to be rewritten.
//!
//! A page map takes a page anywhere, so that only three places need to know of modes: a host write is programmed in the
//! mode that the policy names, a copy of a collection is classified anew, and a read may order a rewrite. The data are
//! in the controller by then: they are held in a page of its RAM and programmed from there, on nobody's time but the
//! flash's, unless the read waits (`ecc-rewrite-waits`). A rewrite is a copy as far as versions go: it keeps the page's
//! version, so that a power cut between the two copies leaves equal data under equal numbers. It is an improvement and
//! no duty, and is left out where there is no room for it.

use crate::ecc_policy::{EccPolicy, Options};
use crate::{Loader, Saver};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use flash::{Cause, Chain, Collection, Flash, Geometry, HostData, Lpn, Mode, Oob, Ppn, Store, copy_each};

/// What keeps a page of a medium's host data.
pub(crate) type Kept<F> = <<F as Flash>::User as HostData>::Store;

/// See the module's description.
#[derive(Debug)]
pub struct Ecc {
    policy: Box<dyn EccPolicy + Send>,
    /// The fill is asked about too.
    judges_fill: bool,
    filling: bool,
    /// The read that asks for a rewrite waits for it.
    rewrite_waits: bool,
    page_bytes: u32,
    /// The page read last that may have to be rewritten, as a [`Kept`] of the scheme's medium, which it does not know.
    held: Option<Box<dyn Any + Send>>,
}

impl Clone for Ecc {
    fn clone(&self) -> Self {
        // What is held means nothing between two calls.
        Ecc { policy: self.policy.clone(), held: None, ..*self }
    }
}

impl Ecc {
    /// What the options ask for, if they ask for a policy.
    pub fn of(options: &Options, g: &Geometry, logical_pages: u32) -> Option<Box<Ecc>> {
        let row = options.policy?;
        Some(Box::new(Ecc {
            policy: (row.make)(logical_pages, options),
            judges_fill: options.judges_fill,
            filling: false,
            rewrite_waits: options.rewrite_waits,
            page_bytes: g.page_bytes,
            held: None,
        }))
    }

    /// The device is being filled, or that is over.
    pub fn filling(&mut self, filling: bool) {
        self.filling = filling && !self.judges_fill;
    }

    /// The host announces a request.
    pub fn request(&mut self, first: Lpn, pages: u32) {
        self.policy.request(first, pages);
    }

    /// The host writes a page: the mode to program it in.
    #[inline(never)]
    pub fn written(&mut self, lpn: Lpn) -> Mode {
        if self.filling { self.policy.unknown() } else { self.policy.written(lpn) }
    }

    /// The host reads a page: whether it is to be held, to be rewritten if it was programmed with low cost.
    #[inline(never)]
    pub fn was_read(&mut self, lpn: Lpn) -> bool {
        self.policy.was_read(lpn)
    }

    /// As [`Flash::copy_run`], the mode of each copy as the policy says.
    pub fn copy_run<F: Flash>(
        &self,
        flash: &mut F,
        (from, live): (Ppn, u64),
        to: Ppn,
        program: u64,
        cause: Cause,
        moved: impl FnMut(u32, Ppn),
    ) -> (u32, Result<(), F::Fault>) {
        let judge = |oob: &mut Oob| {
            oob.mode = if self.filling { self.policy.unknown() } else { self.policy.copied(oob.lpn(), oob.mode) };
        };
        copy_each(flash, (from, live), (to, program), cause, judge, moved)
    }

    /// Takes the data of a page that was just read.
    pub fn hold<F: Flash>(&mut self, data: &F::User) -> Box<Kept<F>> {
        let mut page = match self.held.take().map(<Box<dyn Any + Send>>::downcast::<Kept<F>>) {
            Some(Ok(page)) => page,
            _ => Box::new(Kept::<F>::new(1, self.page_bytes as usize)),
        };
        page.put(0, data);
        page
    }

    /// A page was rewritten beside the read that asked for it.
    pub fn rewritten<F: Flash>(&self, flash: &mut F, beside: Chain) {
        if self.rewrite_waits {
            Collection::resume(flash, beside).wait();
        }
    }

    /// Puts the page back, to be handed to the host.
    pub fn keep<D: Store + Send + 'static>(&mut self, page: Box<D>) -> &D::User {
        self.held.insert(page).downcast_ref::<D>().expect("it was just put there").get(0)
    }

    /// Controller RAM, bytes.
    pub fn memory(&self) -> Vec<(&'static str, u64)> {
        let mut out = Vec::from([("error-correction policy", self.policy.memory())]);
        if self.policy.rewrites() {
            out.push(("page to be rewritten", self.page_bytes.into()));
        }
        out
    }

    /// Saves the state.
    pub fn save(&self, out: &mut Saver) {
        self.policy.save(out);
    }

    /// Loads what [`Ecc::save`] saved.
    pub fn load(&mut self, from: &mut Loader<'_>) {
        self.policy.load(from);
    }
}
