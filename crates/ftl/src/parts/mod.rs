//! What schemes share.

use crate::Error;
use flash::{Lpn, Oob, Payload};

pub(crate) mod beside;
pub(crate) mod cache;
pub(crate) mod census;
pub(crate) mod collector;
pub(crate) mod copies;
pub(crate) mod ecc;
pub(crate) mod holdings;
pub(crate) mod lanes;
pub(crate) mod log_units;
pub(crate) mod map_log;
pub(crate) mod pool;
pub(crate) mod refresh;
pub(crate) mod space;
pub(crate) mod spare_map;
pub(crate) mod supply;
pub(crate) mod tombstones;
pub(crate) mod translation;
pub(crate) mod wear;
pub(crate) mod wear_state;

/// The data of a page to which a map on flash has led. After a crash of the host a map may be there and what it names
/// not, but another page in its place.
#[inline(always)]
pub(crate) fn data_of<U: ?Sized, E>(lpn: Lpn, oob: Oob, content: Payload<'_, U>) -> Result<&U, Error<E>> {
    match content {
        Payload::User(data) if oob.address == lpn.0 => Ok(data),
        _ => Err(Error::Corrupt),
    }
}
