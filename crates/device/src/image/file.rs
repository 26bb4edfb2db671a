//! How an image writes its file: gathered or at once, settled, durable, and what its standing says.

use super::Image;
use super::layout::Layout;
use super::record::Entry;
use super::standing::{Life, Standing};
use flash::{Block, Fault, FaultKind};
use std::io;

impl Image {
    /// Brings every command so far into the file: it survives the end of this process, however that comes about.
    ///
    /// # Errors
    /// The host failed. The file holds a part of the commands since the last call, up to some point.
    #[inline]
    pub fn settle(&mut self) -> Result<(), Fault> {
        self.usable()?;
        if self.gather.is_empty() { Ok(()) } else { self.write_gathered() }
    }

    /// Makes everything so far durable on the host's disk.
    ///
    /// # Errors
    /// The host failed.
    pub fn sync(&mut self) -> Result<(), Fault> {
        self.settle()?;
        if self.totals != self.stored_totals {
            self.write(Layout::TOTALS, &self.totals.encode())?;
            self.stored_totals = self.totals;
        }
        let synced = self.backing.sync();
        self.host(synced)
    }

    /// Stores the scheme's RAM: the next mount need not read the flash. Any change afterwards makes it worthless.
    /// `form` is the version of the form that the bytes have.
    ///
    /// # Errors
    /// The host failed. The image is then mounted by reading the flash.
    pub fn store_checkpoint(&mut self, form: u32, bytes: &[u8]) -> Result<(), Fault> {
        self.touch()?;
        self.write(self.layout.end, bytes)?;
        self.sync()?;
        let (length, check) = (bytes.len() as u64, crc32fast::hash(bytes));
        self.stand(Standing { life: Life::Clean, bytes: length, check, form, ..self.standing })
    }

    /// The scheme's RAM, if the image was shut down cleanly by this version of ftlab and left it in this form. A
    /// checkpoint that cannot be read, or is not what was written, is none.
    ///
    /// # Errors
    /// The host failed before.
    pub fn checkpoint(&mut self, form: u32) -> Result<Option<Vec<u8>>, Fault> {
        self.usable()?;
        let Standing { life, bytes, check, .. } = self.standing;
        if life != Life::Clean || self.standing.form != form {
            return Ok(None);
        }
        let end = self.layout.end.checked_add(bytes);
        if self.backing.bytes().is_ok_and(|total| end.is_none_or(|end| total < end)) {
            return Ok(None);
        }
        let mut saved = vec![0; bytes as usize];
        let read = self.backing.read(self.layout.end, &mut saved);
        Ok((read.is_ok() && crc32fast::hash(&saved) == check).then_some(saved))
    }

    /// The next mount reads the flash.
    ///
    /// # Errors
    /// The host failed.
    pub(crate) fn distrust_checkpoint(&mut self) -> Result<(), Fault> {
        self.touch()
    }

    const FAILED: Fault = Fault(FaultKind::HostFailed);

    pub(super) fn usable(&self) -> Result<(), Fault> {
        if self.failed.is_some() { Err(Self::FAILED) } else { Ok(()) }
    }

    pub(super) fn host<T>(&mut self, result: io::Result<T>) -> Result<T, Fault> {
        result.map_err(|cause| {
            self.failed = Some(cause);
            Self::FAILED
        })
    }

    #[inline(never)]
    pub(super) fn write_gathered(&mut self) -> Result<(), Fault> {
        let written = self.gather.write_to(&mut self.backing);
        self.host(written)
    }

    /// Writes at once, after everything that is gathered.
    pub(super) fn write(&mut self, offset: u64, data: &[u8]) -> Result<(), Fault> {
        self.settle()?;
        let written = self.backing.write(offset, data);
        self.host(written)
    }

    pub(super) fn fetch(&mut self, offset: u64, out: &mut [u8]) -> Result<(), Fault> {
        let read = self.backing.read(offset, out);
        self.host(read)
    }

    pub(super) fn stand(&mut self, standing: Standing) -> Result<(), Fault> {
        self.write(Layout::STATE, &standing.encode())?;
        self.sync()?;
        self.standing = standing;
        self.is_durably_dirty = standing.life == Life::Dirty;
        Ok(())
    }

    /// Before a change: the checkpoint is worthless, durably.
    #[inline]
    pub(super) fn touch(&mut self) -> Result<(), Fault> {
        self.usable()?;
        if self.is_durably_dirty { Ok(()) } else { self.stand_dirty() }
    }

    #[cold]
    fn stand_dirty(&mut self) -> Result<(), Fault> {
        let Standing { own, interrupted, damaged, .. } = self.standing;
        self.stand(Standing { interrupted, damaged, ..Standing::dirty(own) })?;
        // Were the copy that was believed damaged later, the other one would tell of another life of the block.
        for block in std::mem::take(&mut self.unlike) {
            self.put_entry(block, self.blocks[block.index()])?;
        }
        Ok(())
    }

    pub(super) fn put_entry(&mut self, block: Block, entry: Entry) -> Result<(), Fault> {
        let bytes = entry.encode(block);
        for copy in 0..2 {
            self.write(self.layout.entry(copy, block), &bytes)?;
        }
        self.blocks[block.index()] = entry;
        Ok(())
    }
}
