//! `ftlab image`, as a user runs it.

use crate::common::Directory;
use std::fs;

const CREATE: &str = "image create ssd.img --device agrawal08:capacity=512MiB,spare=12.5% --scheme dftl";

#[test]
fn an_image_is_made_described_and_verified() {
    let directory = Directory::new();
    let text = directory.ftlab(CREATE).succeeded().stdout;
    assert!(text.starts_with("ssd.img: an image of format 2\ndevice: agrawal08, 512 MiB exported\n"), "{text}");
    assert!(text.contains("scheme: dftl with ") && text.contains("durable-trim=on"), "{text}");
    let before = fs::read(directory.path().join("ssd.img")).unwrap();
    assert_eq!(directory.ftlab("image info ssd.img --json info.json").succeeded().stdout, text);
    let json = fs::read_to_string(directory.path().join("info.json")).unwrap();
    assert!(json.contains("\"state\": \"fresh\"") && json.contains("\"erase_count\""), "{json}");
    let text = directory.ftlab("image verify ssd.img --json verify.json").succeeded().stdout;
    assert!(text.contains("\nlive: 0 pages hold data\nverdict: sound\n"), "{text}");
    let json = fs::read_to_string(directory.path().join("verify.json")).unwrap();
    assert!(json.contains("\"findings\": []"), "{json}");
    assert!(fs::read(directory.path().join("ssd.img")).unwrap() == before, "an image was changed by looking at it");
}

#[test]
fn a_scheme_that_forgets_discards_says_so() {
    let directory = Directory::new();
    for (scheme, forgets) in [("simple", true), ("dftl", false)] {
        let text = directory.ftlab(&format!("{CREATE} --force").replace("dftl", scheme)).succeeded().stdout;
        let said =
            text.contains("discards: a kill or a power cut may undo them, flushed or not: simple has no durable-trim");
        assert_eq!(said, forgets, "{text}");
    }
}

#[test]
fn an_image_with_a_code_says_what_it_corrects() {
    let directory = Directory::new();
    let ldpc = format!("{CREATE} --ecc ldpc:parity=64,data=512").replace("512MiB", "512MiB,oob=512");
    for (line, code) in [
        (ldpc, "ldpc:parity=64,data=512, decoded from bits, in each 512 B"),
        (format!("{CREATE} --ecc bch:t=8,data=512 --force"), "bch:t=8,data=512, 8 wrong bits in each 512 B"),
    ] {
        let text = directory.ftlab(&line).succeeded().stdout;
        assert!(text.starts_with("ssd.img: an image of format 2\n"), "{text}");
        assert!(text.contains(&format!("code: {code}\n")), "{text}");
    }
    let text = directory.ftlab("image age ssd.img --rber 0.01").succeeded().stdout;
    assert!(text.starts_with("ssd.img: 0 bits flipped;"), "nothing is programmed yet: {text}");
    directory.ftlab("image verify ssd.img").succeeded();
}

/// What broke: a report or a capture took the place of the image that was served.
#[test]
fn no_report_takes_the_place_of_an_image() {
    let directory = Directory::new();
    directory.ftlab(CREATE).succeeded();
    let before = fs::read(directory.path().join("ssd.img")).unwrap();
    for (line, flag) in [
        ("image info ssd.img --json ssd.img", "--json"),
        ("image verify ssd.img --json ./ssd.img", "--json"),
        ("serve --image ssd.img --scheme dftl --socket s.sock --json ssd.img", "--json"),
        ("serve --image ssd.img --scheme dftl --socket s.sock --capture ssd.img", "--capture"),
    ] {
        let message = directory.ftlab(line).refused();
        assert!(message.starts_with(flag) && message.contains("ssd.img is the image already"), "{line}: {message}");
        assert!(fs::read(directory.path().join("ssd.img")).unwrap() == before, "{line}");
    }
    assert_eq!(directory.names(), ["ssd.img"]);
    // Nor of an image that nobody serves, and no capture that of another.
    directory.file("clients.iolog", "recorded");
    for (line, expected) in [
        ("compare zipf:requests=9 --json ssd.img", "--json: ssd.img is an ftlab image, whose data would be lost"),
        (
            "serve --image ssd.img --scheme dftl --socket s.sock --capture clients.iolog",
            "--capture: clients.iolog exists and would be lost",
        ),
    ] {
        let message = directory.ftlab(line).refused();
        assert!(message.contains(expected), "{line}: {message}");
        assert!(fs::read(directory.path().join("ssd.img")).unwrap() == before, "{line}");
    }
    assert_eq!(fs::read(directory.path().join("clients.iolog")).unwrap(), b"recorded");
}

#[test]
fn an_existing_file_is_kept_unless_the_user_insists() {
    let directory = Directory::new();
    directory.file("ssd.img", "diary");
    let message = directory.ftlab(CREATE).refused();
    assert_eq!(message, "ssd.img exists already, and would be lost; add --force, or name another file");
    assert_eq!(fs::read(directory.path().join("ssd.img")).unwrap(), b"diary");
    // A mistake is found before the file is emptied.
    let line = CREATE.replace("12.5%", "1%").replace("512MiB", "1MiB");
    let message = directory.ftlab(&format!("{line} --force")).refused();
    assert!(message.starts_with("--device: spare: "), "{message}");
    assert_eq!(fs::read(directory.path().join("ssd.img")).unwrap(), b"diary");
    directory.ftlab(&format!("{CREATE} --force")).succeeded();
    directory.ftlab("image verify ssd.img").succeeded();
}

#[test]
fn what_cannot_be_made_or_opened_is_named() {
    let directory = Directory::new();
    directory.file("diary.img", "a diary, and longer than a magic is");
    for (line, expected) in [
        ("create a.img --device agrawal08 --scheme page", "--device: capacity = nothing"),
        ("create a.img --device agrawal8:capacity=1GiB --scheme page", "did you mean agrawal08?"),
        ("create a.img --device agrawal08:capacity=1GiB --scheme dtfl", "unknown scheme \"dtfl\"; did you mean"),
        ("create a.img --device agrawal08:capacity=1GiB --scheme null", "scheme null keeps no data"),
        (
            "create a.img --device agrawal08:capacity=1GiB --scheme page --set gclow=2",
            "--set: unknown parameter of page \"gclow\"; did you mean \"gc-low\"?",
        ),
        ("create a.img --device agrawal08:capacity=1GiB --scheme page --set gc-low", "write PARAM=VALUE"),
        (
            "create a.img --device agrawal08:capacity=1GiB --scheme page --set page.gc-low=4",
            "--set: there is one scheme here: write gc-low=4",
        ),
        (
            "create a.img --device agrawal08:capacity=1GiB --scheme page --set wear-threshold=3",
            "--set: wear-threshold has no effect with wear-levelling=off",
        ),
        ("create no/a.img --device agrawal08:capacity=1GiB --scheme page", "cannot create no/a.img: no such file"),
        (
            "create a.img --device agrawal08:capacity=1GiB --scheme page --ecc ldpc",
            "ldpc needs parity= and data=; write",
        ),
        ("create a.img --device agrawal08:capacity=1GiB --scheme page --ecc bch:8/512", "\"8/512\" is no key=value"),
        (
            "create a.img --device thesis-80g:capacity=1GiB --scheme page --ecc bch:t=12,data=512",
            "--ecc: bch:t=12,data=512 needs 4 frames x 20 B of parity = 80 B, and the spare area has 64 B; take a code \
             with at most 16 B of parity for 512 B of data, or a device with more (oob=80)",
        ),
        (
            "create a.img --device thesis-80g:capacity=1GiB --scheme superblock --ecc bch:t=4,data=512",
            "B of the scheme, 4 B of checksum and",
        ),
        ("age none.img --rber 1", "write a probability from 0 to 0.5"),
        ("age none.img --rber 1e-4", "cannot open none.img"),
        ("age none.img", "--rber <RATE>"),
        ("age none.img --rber 1e-4 --retention 1y", "cannot be used with"),
        ("age none.img --rber 1e-4 --reads 5", "cannot be used with"),
        ("age none.img --retention 5", "give a time with h, d or y"),
        ("info none.img", "cannot open none.img: no such file or directory"),
        ("verify diary.img", "diary.img is not an ftlab image"),
    ] {
        let message = directory.ftlab(&format!("image {line}")).refused();
        assert!(message.contains(expected), "{line}: {message}");
    }
    assert_eq!(directory.names(), ["diary.img"]);
}

#[test]
fn cells_that_the_model_does_not_know_are_refused() {
    let directory = Directory::new();
    for (device, expected) in [
        ("agrawal08", "agrawal08 has SLC cells; the model knows MLC cells, of two bits: take an MLC device"),
        ("ecc-paper", "ecc-paper does not say how many erases a block endures: add it, as in --device"),
    ] {
        let line = format!("image create ssd.img --device {device}:capacity=64MiB,spare=50% --scheme page --force");
        directory.ftlab(&line).succeeded();
        let before = fs::read(directory.path().join("ssd.img")).unwrap();
        let message = directory.ftlab("image age ssd.img --retention 1y").refused();
        assert!(message.starts_with(expected), "{message}");
        assert!(fs::read(directory.path().join("ssd.img")).unwrap() == before);
    }
}

#[test]
fn damage_is_found_and_the_exit_code_says_so() {
    let directory = Directory::new();
    directory.ftlab(CREATE).succeeded();
    let path = directory.path().join("ssd.img");
    let mut bytes = fs::read(&path).unwrap();
    // One of two copies of the header.
    bytes[40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let ran = directory.ftlab("image verify ssd.img");
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(
        ran.stdout.contains("verdict: DAMAGED\n  1 copies of header or block table are damaged\n"),
        "{}",
        ran.stdout
    );
    // Both.
    bytes[4096 + 40] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let message = directory.ftlab("image info ssd.img").refused();
    assert_eq!(message, "ssd.img is damaged: neither copy of its header is what was written");
}
