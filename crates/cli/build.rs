//! Lists the experiments of `ftlab reproduce`, so that the installed command carries them: a paper or an experiment is
//! added as a file, and nowhere else.

use std::fs;
use std::path::{Path, PathBuf};

/// What a directory holds, in order.
fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap_or_else(|cause| panic!("{}: {cause}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

fn main() {
    // Where this build's tree is: a target directory may serve several.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo names it");
    let root = Path::new(&here).join("../../experiments");
    println!("cargo::rerun-if-changed={}", root.display());
    let mut list = String::from("&[\n");
    for paper in sorted(&root).into_iter().filter(|path| path.is_dir()) {
        println!("cargo::rerun-if-changed={}", paper.display());
        let is_toml = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "toml");
        for file in sorted(&paper).into_iter().filter(is_toml) {
            let name = |path: &Path| path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            list += &format!("({:?}, {:?}, include_str!({:?})),\n", name(&paper), name(&file), file);
        }
    }
    list.push(']');
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo names it")).join("experiments.rs");
    fs::write(out, list).expect("the build directory can be written");
}
