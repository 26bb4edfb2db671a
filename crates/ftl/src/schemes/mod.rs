//! The schemes, one file each, and their table.
//!
//! Adding a scheme is a file here and a line in the `schemes!` call below.

pub mod aftl;
pub mod bast;
pub mod block;
pub mod cdftl;
pub mod cftl;
pub mod dftl;
pub mod fast;
pub mod hybridlog;
pub mod last;
pub mod lazyftl;
pub mod lsftl;
pub mod nftl;
pub mod null;
pub mod page;
pub mod rose;
pub mod rose_log;
pub mod scftl;
pub mod sftl;
pub mod superblock;
pub mod tpftl;

mod registry;

#[cfg(feature = "canary")]
pub mod canary;

use crate::{Recipe, Scheme, Static};
use flash::Flash;
pub use registry::Registry;

/// Something to do with a scheme that is chosen at run time: the type is known inside [`Visitor::visit`], so that a
/// whole run is compiled for its scheme and one choice pays for all of it.
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
mod full;
#[cfg(test)]
mod plain;
