//! Makes the table of recordings from `data/`: for each `NAME.toml` a row that includes `NAME.parquet`, with its hash
//! from `SHA256SUMS`. What is missing or misspelt there ends the build with a sentence.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

/// What `NAME.toml` says.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Described {
    name: String,
    program: String,
    version: String,
    command: Vec<String>,
    file_system: String,
    mount_options: String,
    kernel: String,
    date: String,
    size: String,
    capacity_mib: u64,
    memory_mib: u64,
    seed: u64,
    description: String,
    limits: String,
    recorder: String,
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=data");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let data = Path::new(&root).join("data");
    let out = Path::new(&env::var("OUT_DIR").expect("cargo sets it")).join("table.rs");
    match table(&data).and_then(|text| fs::write(&out, text).map_err(|cause| format!("{}: {cause}", out.display()))) {
        Ok(()) => {}
        Err(what) => {
            println!("cargo::error={what}");
            std::process::exit(1);
        }
    }
}

/// The table as an expression of Rust.
fn table(data: &Path) -> Result<String, String> {
    let read = |path: &Path| fs::read_to_string(path).map_err(|cause| format!("{}: {cause}", path.display()));
    let sums = data.join("SHA256SUMS");
    let mut hashes = BTreeMap::new();
    for line in read(&sums)?.lines() {
        let pair = line.split_once(' ').map(|(hash, name)| (hash, name.trim_start_matches([' ', '*'])));
        let (hash, name) = pair.ok_or_else(|| format!("{}: `{line}` is no hash and a name", sums.display()))?;
        hashes.insert(name.to_owned(), hash.to_owned());
    }
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(data).map_err(|cause| format!("{}: {cause}", data.display()))? {
        let path = entry.map_err(|cause| format!("{}: {cause}", data.display()))?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            names.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    let mut text = "&[\n".to_owned();
    for name in names {
        let path = data.join(format!("{name}.toml"));
        let fault = |what: String| format!("{}: {what}", path.display());
        let row: Described = toml::from_str(&read(&path)?).map_err(|cause| fault(cause.to_string()))?;
        if row.name != name {
            return Err(fault(format!("the name is `{}`, the file's `{name}`", row.name)));
        }
        let file = format!("{name}.parquet");
        let bytes = data.join(&file);
        if !bytes.is_file() {
            return Err(fault(format!("there is no {file} beside it")));
        }
        let hash = hashes
            .get(&file)
            .ok_or_else(|| fault(format!("SHA256SUMS has no {file}; run `sha256sum *.parquet > SHA256SUMS` there")))?;
        let Described { program, version, command, file_system, mount_options, kernel, date, size, .. } = &row;
        let Described { capacity_mib, memory_mib, seed, description, limits, recorder, .. } = &row;
        let row = format!(
            "Recording {{ name: {name:?}, program: {program:?}, version: {version:?}, command: &{command:?}, \
             file_system: {file_system:?}, mount_options: {mount_options:?}, kernel: {kernel:?}, date: {date:?}, \
             size: {size:?}, capacity_bytes: {capacity_mib} << 20, memory_bytes: {memory_mib} << 20, seed: {seed}, \
             description: {description:?}, limits: {limits:?}, recorder: {recorder:?}, sha256: {hash:?}, \
             bytes: include_bytes!({bytes:?}) }},"
        );
        writeln!(text, "{row}").map_err(|cause| cause.to_string())?;
    }
    Ok(text + "]\n")
}
