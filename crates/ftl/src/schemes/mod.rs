//! The schemes, one file each, and their table.
//!
//! Adding a scheme is a file here and a line in the `schemes!` call below.

mod aftl;
mod bast;
mod block;
mod cdftl;
mod cftl;
mod dftl;
pub(crate) mod fast;
mod hybridlog;
mod last;
mod lazyftl;
mod lsftl;
mod nftl;
mod null;
mod page;
mod rose;
mod rose_log;
mod scftl;
mod sftl;
mod simple;
mod superblock;
mod tpftl;

mod registry;

#[cfg(feature = "canary")]
mod canary;

use crate::{Recipe, Scheme, Static};
use flash::Flash;

#[cfg(feature = "canary")]
pub use canary::Canary;
pub use {
    aftl::Aftl, bast::Bast, block::BlockMap, cdftl::Cdftl, cftl::Cftl, dftl::Dftl, fast::Fast, hybridlog::HybridLog,
    last::Last, lazyftl::LazyFtl, lsftl::Lsftl, lsftl::ScftlLog, nftl::Nftl, null::Null, page::Page,
    registry::Registry, rose::Rose, rose_log::RoseLog, scftl::Scftl, sftl::Sftl, simple::Simple,
    superblock::Superblock, tpftl::Tpftl,
};

/// Something to do with a scheme that is chosen at run time: the type is known inside [`Visitor::visit`], so that a
/// whole run is compiled for its scheme and one choice pays for all of it. Who can pay for every page takes
/// [`Registry::recipe`] instead, and is compiled once.
///
/// ```
/// use flash::{Geometry, Nand};
/// use ftl::schemes::{self, Visitor};
/// use ftl::{Inspect, Recipe, Scheme};
///
/// /// The RAM of a scheme, bytes.
/// struct Memory;
/// impl Visitor<Nand> for Memory {
///     type Output = u64;
///     fn visit<S: Recipe<Nand>>(self, row: &Scheme<'_>, recipe: &S) -> u64 {
///         let g = Geometry { blocks_per_die: 64, pages_per_block: 16, ..Geometry::default() };
///         let mut chip = Nand::new(g.checked().unwrap());
///         let scheme = recipe.format(&mut chip, 768, &row.settings()).unwrap();
///         scheme.memory().iter().map(|&(_, bytes)| bytes).sum()
///     }
/// }
///
/// let [page, fast] = ["page", "fast"].map(|name| schemes::visit(name, Memory).unwrap());
/// assert!(page > 768 * 4 && page > fast, "a map of pages is larger than one of blocks");
/// assert!(schemes::visit("no-such-scheme", Memory).is_none());
/// ```
pub trait Visitor<F: Flash> {
    /// What comes of it.
    type Output;
    /// Does it with the scheme that `recipe` makes, and that `row` describes.
    fn visit<S: Recipe<F>>(self, row: &Scheme<'_>, recipe: &S) -> Self::Output;
}

macro_rules! schemes {
    ($($(#[$cfg:meta])* $module:ident :: $scheme:ident => $row:path),+ $(,)?) => {
        /// The rows of all schemes of this crate.
        pub const SCHEMES: &[&Scheme] = &[$($(#[$cfg])* &$row),+];

        /// Does something with the scheme of this name; `None` if there is none.
        pub fn visit<F: Flash, V: Visitor<F>>(name: &str, visitor: V) -> Option<V::Output> {
            $($(#[$cfg])* if name == $row.name {
                return Some(visitor.visit(&$row, &Static::<$module::$scheme>::NEW));
            })+
            None
        }
    };
}

schemes! {
    null::Null => null::ROW,
    simple::Simple => simple::ROW,
    page::Page => page::ROW,
    dftl::Dftl => dftl::ROW,
    dftl::Dftl => dftl::ROW_E,
    tpftl::Tpftl => tpftl::ROW,
    cftl::Cftl => cftl::ROW,
    lsftl::Lsftl => lsftl::ROW,
    lsftl::Lsftl => lsftl::ROW_E,
    cdftl::Cdftl => cdftl::ROW,
    sftl::Sftl => sftl::ROW,
    scftl::Scftl => scftl::ROW,
    scftl::Scftl => scftl::ROW_ADAPTIVE,
    scftl::Scftl => scftl::ROW_CAST,
    lsftl::ScftlLog => lsftl::ROW_RUNS,
    lazyftl::LazyFtl => lazyftl::ROW,
    block::BlockMap => block::ROW,
    nftl::Nftl => nftl::ROW,
    bast::Bast => bast::ROW,
    aftl::Aftl => aftl::ROW,
    superblock::Superblock => superblock::ROW,
    hybridlog::HybridLog => hybridlog::ROW,
    fast::Fast => fast::ROW,
    last::Last => last::ROW,
    rose::Rose => rose::ROW,
    rose_log::RoseLog => rose_log::ROW,
    #[cfg(feature = "canary")]
    canary::Canary => canary::ROW,
}

/// The row of this name.
pub fn by_name(name: &str) -> Option<&'static Scheme<'static>> {
    SCHEMES.iter().copied().find(|row| row.name == name)
}

#[cfg(test)]
mod across_dies;
#[cfg(test)]
mod full;
#[cfg(test)]
mod plain;
