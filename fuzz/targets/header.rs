//! The first bytes of an image: header, state and block table, with a checksum that is right or not.
#![no_main]

use device::image::{Access, Image};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

thread_local! {
    static PLACE: RefCell<Option<(File, PathBuf)>> = const { RefCell::new(None) };
}

/// Where the text of a header begins, and where its checksum stands.
const HEAD: usize = 28;

fuzz_target!(|data: &[u8]| {
    PLACE.with_borrow_mut(|place| {
        let (file, path) = place.get_or_insert_with(|| {
            let path = PathBuf::from(format!("/dev/shm/ftlab-fuzz-header-{}", std::process::id()));
            (File::options().create(true).truncate(true).read(true).write(true).open(&path).unwrap(), path)
        });
        let Some((&choice, text)) = data.split_first() else { return };
        let text = &text[..text.len().min(4096 - HEAD)];
        let mut header = vec![0; 4096];
        header[..16].copy_from_slice(b"ftlab image\r\n\x1a\n\0");
        header[16] = 1 + (choice & 1);
        header[20..24].copy_from_slice(&(text.len() as u32).to_le_bytes());
        header[HEAD..HEAD + text.len()].copy_from_slice(text);
        let mut check = crc32fast::Hasher::new();
        check.update(&header[..24]);
        check.update(&header[HEAD..HEAD + text.len()]);
        header[24..28].copy_from_slice(&check.finalize().to_le_bytes());
        if choice & 2 != 0 && !text.is_empty() {
            header[usize::from(text[0])] ^= 1 << (choice >> 5);
        }
        file.write_all_at(&header, 0).unwrap();
        file.write_all_at(&header, 4096).unwrap();
        file.set_len(1 << 20).unwrap();
        let _ = Image::open(path, Access::Look);
    });
});
