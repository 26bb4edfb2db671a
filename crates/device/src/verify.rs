//! What `ftlab image verify` does: everything in an image is looked at, and nothing is written.
//!
//! First the pages are looked at, as far as the file knows them ([`Image::scrub`]). Then the image is mounted, the
//! scheme checks its invariants, and each logical page is read. What cannot be read says of some pages whether they are
//! damaged or were torn by a power cut ([`Scrub::judge`]). An image that was opened to be looked at keeps in RAM what
//! its mount changes.

use crate::disk::{AnyDisk, MountError, MountSummary, mount};
use crate::export::ExportError;
use crate::image::{Image, Scrub, Unsound};
use flash::PowerCut;
use std::io;

/// Pages at fault that a sentence names by number.
const LISTED: usize = 8;

/// Why an image cannot be examined: not because of damage.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The host cannot read the file.
    #[error("cannot read: {0}")]
    Host(io::Error),
    /// The scheme refuses to read.
    #[error("cannot read: {0}")]
    Refused(String),
    /// The scheme or its parameters are not known.
    #[error(transparent)]
    Unknown(MountError),
}

/// What a look at an image has found.
#[derive(Debug)]
pub struct Verified {
    /// Copies of the header, or of entries of the block table, that are damaged while the other one is sound.
    pub damaged_copies: u64,
    /// The state is damaged: what the scheme keeps in spare areas was not looked at, and a checkpoint was not believed.
    pub damaged_state: bool,
    /// What is wrong with pages.
    pub scrub: Scrub,
    /// What a host would get; why the image cannot be mounted otherwise.
    pub contents: Result<Contents, MountError>,
    /// Logical pages of the device.
    logical_pages: u64,
}

/// What a host would get from an image.
#[derive(Debug)]
pub struct Contents {
    /// What the mount did.
    pub mounted: MountSummary,
    /// The scheme.
    pub scheme: &'static str,
    /// The first of its invariants that does not hold.
    pub audit: Result<(), String>,
    /// Logical pages that can be read and hold something.
    pub data: u64,
    /// Logical pages that cannot be read.
    pub lost: Vec<u64>,
    /// Why reading ended before the last page.
    pub ended: Option<String>,
}

/// Examines an image, which should be one that was opened to be looked at ([`crate::Access::Look`]).
///
/// # Errors
/// [`VerifyError`].
pub fn verify(mut image: Image) -> Result<Verified, VerifyError> {
    let (damaged_copies, damaged_state) = (image.damaged_copies(), image.is_state_damaged());
    let logical_pages = u64::from(image.spec().device.logical_pages);
    let Ok(scrub) = image.scrub() else {
        let again = |cause: &io::Error| match cause.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(cause.kind(), cause.to_string()),
        };
        return Err(VerifyError::Host(image.failure().map_or(io::ErrorKind::Other.into(), again)));
    };
    // The medium that `serve` has, for which every scheme is compiled.
    let contents = match mount(PowerCut::counting(image).without_log(), false) {
        Err(error @ (MountError::UnknownScheme(_) | MountError::Settings(_))) => {
            return Err(VerifyError::Unknown(error));
        }
        Err(error) => Err(error),
        Ok(mut disk) => Ok(contents(&mut *disk)?),
    };
    let mut verified = Verified { damaged_copies, damaged_state, scrub, contents, logical_pages };
    let unreadable = verified.unreadable();
    verified.scrub.judge(&unreadable);
    Ok(verified)
}

fn contents(disk: &mut dyn AnyDisk) -> Result<Contents, VerifyError> {
    let page = u64::from(disk.block_bytes());
    let mounted = disk.mounted().clone();
    let (scheme, audit) = (disk.scheme().name, disk.audit());
    let mut contents = Contents { mounted, scheme, audit, data: 0, lost: Vec::new(), ended: None };
    let mut out = vec![0; page as usize];
    for lpn in 0..disk.bytes() / page {
        // A page that cannot be corrected may end a change of the map half way: then the next read mounts the device.
        let mounts = disk.is_lost().then(|| disk.counts().remounts);
        let unmapped = disk.counts().unmapped_reads;
        let read = disk.read(lpn * page, &mut out);
        // Of what a damaged page of the map stands for, nobody knows whether it holds anything.
        contents.data += u64::from(read.is_ok() && disk.counts().unmapped_reads == unmapped);
        match read {
            Ok(_) => {}
            Err(ExportError::Io) if mounts == Some(disk.counts().remounts) => {
                let why = disk.failure().unwrap_or_default();
                contents.ended = Some(format!("nothing can be read from page {lpn} on: it cannot be mounted: {why}"));
                break;
            }
            Err(ExportError::Io) => contents.lost.push(lpn),
            Err(_) => {
                let why = disk.failure().unwrap_or("the scheme refuses to read");
                return Err(VerifyError::Refused(why.to_owned()));
            }
        }
    }
    Ok(contents)
}

impl Verified {
    /// Logical pages that cannot be read: all where nothing can be.
    pub fn unreadable(&self) -> Vec<u64> {
        match &self.contents {
            Ok(Contents { lost, ended: None, .. }) => lost.clone(),
            _ => (0..self.logical_pages).collect(),
        }
    }

    /// What is wrong, a sentence each; nothing with an image that is sound.
    pub fn findings(&self) -> Vec<String> {
        let mut findings = self.damaged_pages();
        if self.damaged_copies > 0 {
            findings.push(format!("{} copies of header or block table are damaged", self.damaged_copies));
        }
        if self.damaged_state {
            let unseen = "what a scheme keeps in spare areas, if anything, was not looked at";
            findings.push(format!("its state is damaged, so that {unseen}"));
        }
        match &self.contents {
            Err(error) => findings.push(format!("it cannot be mounted: {error}")),
            Ok(Contents { scheme, audit, lost, ended, .. }) => {
                if let Err(what) = audit {
                    findings.push(format!("an invariant of {scheme} does not hold: {what}"));
                }
                if !lost.is_empty() {
                    let pages = listed(lost.iter().map(ToString::to_string));
                    findings.push(format!("{} logical pages cannot be read: {pages}", lost.len()));
                }
                findings.extend(ended.clone());
            }
        }
        findings
    }

    /// The damaged pages, and what each costs.
    fn damaged_pages(&self) -> Vec<String> {
        let (Scrub { bad_records, bad_data, .. }, unreadable) = (&self.scrub, self.unreadable());
        let mut findings = Vec::new();
        if !bad_records.is_empty() {
            let pages = listed(bad_records.iter().map(ToString::to_string));
            findings.push(format!("{} pages whose record is not what was written: {pages}", bad_records.len()));
        }
        if !bad_data.is_empty() {
            let cost = |Unsound { ppn, lpn }: &Unsound| match lpn {
                Some(lpn) if unreadable.contains(&u64::from(lpn.0)) => format!("{ppn} (logical page {lpn}, lost)"),
                Some(lpn) => format!("{ppn} (an old version of logical page {lpn})"),
                None => format!("{ppn} (metadata)"),
            };
            let pages = listed(bad_data.iter().map(cost));
            findings.push(format!("{} pages whose data is not what was written: {pages}", bad_data.len()));
        }
        findings
    }
}

/// The first of them.
fn listed(all: impl ExactSizeIterator<Item = String>) -> String {
    let more = if all.len() > LISTED { ", …" } else { "" };
    all.take(LISTED).collect::<Vec<_>>().join(", ") + more
}
