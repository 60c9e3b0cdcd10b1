//! The corpus of the fuzz targets, which ordinary tests run as well.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// The corpus is small, since it is part of every checkout and of every test run.
const CORPUS_BYTES_MAX: u64 = 64 << 10;

/// The folder of the fuzz targets and their corpus.
pub fn fuzz_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

/// Passes each file of a target's corpus to the body of the target, and the empty input.
#[track_caller]
pub fn run(target: &str, body: fn(&[u8])) {
    let folder = fuzz_folder().join("corpus").join(target);
    let mut bytes = 0;
    body(&[]);
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let input = fs::read(&path).unwrap();
        bytes += input.len() as u64;
        // A failed test shows this line, which names the input.
        eprintln!("{}", path.display());
        body(&input);
    }
    assert!((1..=CORPUS_BYTES_MAX).contains(&bytes), "{bytes} bytes in {}", folder.display());
}
