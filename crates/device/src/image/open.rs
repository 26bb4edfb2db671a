//! From a file to a chip: a new image, an image that is opened, and one that is read again after a failure.

use super::backing::Backing;
use super::ecc::{Ecc, SPARE_CHECK};
use super::gather::Gather;
use super::layout::{ENTRY, Layout, UNIT};
use super::record::Entry;
use super::standing::{Standing, Totals};
use super::{Image, ImageError, Spec, header};
use flash::Block;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// What an image is opened for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// To be used.
    Use,
    /// To be looked at: the file is not written to, what a scheme changes is kept in RAM and forgotten.
    Look,
}

impl Image {
    /// Whether a copy of an image's header is begun in a file, whatever has become of the rest.
    pub fn is_begun(path: &Path) -> bool {
        let is_file = fs::metadata(path).is_ok_and(|found| found.is_file());
        let Some(mut file) = is_file.then(|| File::open(path).ok()).flatten() else { return false };
        Layout::HEADERS.iter().any(|&start| {
            let mut head = [0; header::MAGIC.len()];
            let read = file.seek(SeekFrom::Start(start)).and_then(|_| file.read_exact(&mut head));
            read.is_ok() && head == *header::MAGIC
        })
    }

    /// A chip fresh from the factory, in a new file. With `replace` an existing file is emptied first.
    ///
    /// # Errors
    /// The file exists, is in use, or the host refuses.
    pub fn create(path: &Path, spec: &Spec, replace: bool) -> Result<Image, ImageError> {
        let host = |cause| ImageError::Host { verb: "create", path: path.to_owned(), cause };
        let header = spec.encode(spec.format()).ok_or(ImageError::TooLong)?;
        if replace && fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            return Err(ImageError::NotAFile(path.to_owned()));
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let file = if replace { options.create(true).truncate(false) } else { options.create_new(true) }.open(path);
        let file = file.map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => ImageError::Exists(path.to_owned()),
            _ => host(cause),
        })?;
        lock(&file, path, Access::Use)?;
        let written = file.set_len(0).and_then(|()| {
            let layout = Layout::new(&spec.device.geometry);
            let mut backing = Backing::new(file, false);
            backing.set_bytes(layout.end)?;
            let blocks = (0..spec.device.geometry.block_count()).map(Block);
            let table: Vec<u8> = blocks.flat_map(|block| Entry::NEW.encode(block)).collect();
            for start in layout.tables {
                backing.write(start, &table)?;
            }
            backing.write(Layout::STATE, &Standing::FRESH.encode())?;
            // Last, so that a file without them is no image.
            backing.sync()?;
            for start in Layout::HEADERS {
                backing.write(start, &header)?;
            }
            backing.sync()?;
            // The name of the file as well. A host that cannot do that of a directory does it with the file.
            let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let _ = File::open(directory).and_then(|directory| directory.sync_all());
            Ok(backing)
        });
        let loaded = written.map_err(host).and_then(|backing| Image::load(path, Access::Use, backing));
        // Its flash is known to be blank; of any other that is opened only its state says so.
        let loaded = loaded.map(|image| Image { opened: false, ..image });
        if loaded.is_err() {
            // What could not be completed is of no use; if it cannot be removed either, the first error says why.
            let _ = fs::remove_file(path);
        }
        loaded
    }

    /// Opens an image.
    ///
    /// # Errors
    /// The file is missing, in use, or no sound image: [`ImageError`].
    pub fn open(path: &Path, access: Access) -> Result<Image, ImageError> {
        let host = |cause| ImageError::Host { verb: "open", path: path.to_owned(), cause };
        // Before it is opened: a pipe would wait for whoever writes to it.
        if !fs::metadata(path).map_err(host)?.is_file() {
            return Err(ImageError::NotAFile(path.to_owned()));
        }
        let file = OpenOptions::new().read(true).write(access == Access::Use).open(path).map_err(host)?;
        lock(&file, path, access)?;
        Image::load(path, access, Backing::new(file, access == Access::Look))
    }

    fn load(path: &Path, access: Access, backing: Backing) -> Result<Image, ImageError> {
        let host = |cause| ImageError::Host { verb: "read", path: path.to_owned(), cause };
        let damaged = |what: String| ImageError::Damaged { path: path.to_owned(), what };
        let bytes = backing.bytes().map_err(host)?;
        let truncated = |needed| ImageError::Truncated { path: path.to_owned(), bytes, needed };
        let mut damaged_copies = 0;
        let copies = Layout::HEADERS.map(|start| {
            let mut copy = vec![0; bytes.saturating_sub(start).min(UNIT) as usize];
            backing.read(start, &mut copy).map(|()| header::Spec::decode(&copy))
        });
        let [first, second] = copies;
        let (spec, format) = match (first.map_err(host)?, second.map_err(host)?) {
            (Ok(read), Ok(_)) => read,
            (Ok(read), Err(_)) | (Err(_), Ok(read)) => {
                damaged_copies += 1;
                read
            }
            (Err(header::Fault::Newer(found)), _) | (_, Err(header::Fault::Newer(found))) => {
                return Err(ImageError::Newer { path: path.to_owned(), found });
            }
            (Err(header::Fault::Code(code)), _) | (_, Err(header::Fault::Code(code))) => {
                return Err(ImageError::UnknownCode { path: path.to_owned(), code });
            }
            (Err(header::Fault::Foreign), Err(header::Fault::Foreign)) => {
                return Err(ImageError::Foreign(path.to_owned()));
            }
            _ if bytes < 3 * UNIT => return Err(truncated(3 * UNIT)),
            _ => return Err(damaged("neither copy of its header is what was written".into())),
        };
        let g = spec.device.geometry;
        let layout = Layout::new(&g);
        if bytes < layout.end {
            return Err(truncated(layout.end));
        }
        let mut standing = [0; 32];
        backing.read(Layout::STATE, &mut standing).map_err(host)?;
        let mut totals = [0; 28];
        backing.read(Layout::TOTALS, &mut totals).map_err(host)?;
        let totals = Totals::decode(&totals);
        let tables = layout.tables.map(|start| {
            let mut table = vec![0; g.block_count() as usize * ENTRY as usize];
            backing.read(start, &mut table).map(|()| table)
        });
        let [first, second] = tables;
        let (first, second) = (first.map_err(host)?, second.map_err(host)?);
        let mut blocks = Vec::with_capacity(g.block_count() as usize);
        let mut unlike = Vec::new();
        let rows = first.as_chunks::<{ ENTRY as usize }>().0.iter().zip(second.as_chunks().0);
        for (block, (first, second)) in (0..).map(Block).zip(rows) {
            if first != second {
                unlike.push(block);
            }
            blocks.push(match (Entry::decode(first, block), Entry::decode(second, block)) {
                // The first is written first: where they differ, it is the newer one.
                (Some(entry), Some(_)) => entry,
                (Some(entry), None) | (None, Some(entry)) => {
                    damaged_copies += 1;
                    entry
                }
                (None, None) => return Err(damaged(format!("neither entry of block {block} is what was written"))),
            });
        }
        let standing = Standing::decode(&standing);
        if standing.own > 0 && u64::from(standing.own) + u64::from(SPARE_CHECK) > u64::from(g.oob_bytes) {
            return Err(damaged("its state says that a scheme keeps more in spare areas than they hold".to_owned()));
        }
        let ecc = match format {
            1 => None,
            _ => Some(Box::new(Ecc::new(spec.ecc, &g, standing.own).map_err(damaged)?)),
        };
        Ok(Image {
            path: path.to_owned(),
            access,
            backing,
            layout,
            format,
            standing,
            is_durably_dirty: false,
            totals,
            stored_totals: totals,
            loaded: vec![None; blocks.len()],
            blocks,
            damaged_copies,
            unlike,
            failed: None,
            stopped_changes: 0,
            opened: true,
            gather: Gather::default(),
            staged: None,
            looked_at: None,
            buffer: vec![0; g.page_bytes as usize],
            words: Vec::new(),
            ecc,
            corrected_bits: 0,
            #[cfg(test)]
            sparse_zeros: false,
            spec,
        })
    }

    /// After a failure of the host: reads the file again, which holds what was acknowledged by this chip, and
    /// perhaps the write that failed: that is done again first.
    ///
    /// # Errors
    /// As [`Image::open`]; the image keeps refusing then.
    pub fn reload(&mut self) -> Result<(), ImageError> {
        self.load_again(self.access == Access::Look)
    }

    /// The same while the file takes no changes: they are kept in RAM, beside it, until [`Image::reload`].
    ///
    /// # Errors
    /// As [`Image::open`]; the image keeps refusing then.
    pub fn reload_beside(&mut self) -> Result<(), ImageError> {
        self.load_again(true)
    }

    fn load_again(&mut self, beside: bool) -> Result<(), ImageError> {
        let host = |cause| ImageError::Host { verb: "open", path: self.path.clone(), cause };
        let backing = self.backing.again(beside).map_err(host)?;
        *self = Image::load(&self.path, self.access, backing)?;
        Ok(())
    }
}

fn lock(file: &File, path: &Path, access: Access) -> Result<(), ImageError> {
    let locked = match access {
        Access::Use => file.try_lock(),
        Access::Look => file.try_lock_shared(),
    };
    locked.map_err(|refused| match refused {
        TryLockError::WouldBlock => ImageError::InUse(path.to_owned()),
        TryLockError::Error(cause) => ImageError::Host { verb: "lock", path: path.to_owned(), cause },
    })
}
