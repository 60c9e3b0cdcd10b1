//! Finds a program's version without running it, from its package or directory.

use platform::process::find_program;
use serde::Deserialize;
use std::{ffi::OsStr, fs, path::Path};
use terminal::recipe::Version;

/// The most directories above the program that are searched.
const DIRECTORIES_MAX: usize = 4;

/// The largest `package.json` that is read, in bytes.
const PACKAGE_BYTES_MAX: u64 = 1 << 20;

/// Returns the version of the program that a command starts. The version comes from a
/// `package.json` in a directory above the program or, failing that, from the name of the program
/// or such a directory.
pub(super) fn version_of(command: &OsStr) -> Option<Version> {
    let program = fs::canonicalize(find_program(command)?).ok()?;
    let above = || program.ancestors().take(DIRECTORIES_MAX + 1);
    let named = above().filter_map(|path| version_in_name(path.file_name()?.to_str()?)).next();
    above().skip(1).find_map(packaged).or(named)
}

/// Parses a directory's name such as `2.1.197`.
fn version_in_name(name: &str) -> Option<Version> {
    Version::parse(name).filter(|_| name.contains('.'))
}

/// Returns the version in this directory's `package.json`.
fn packaged(directory: &Path) -> Option<Version> {
    #[derive(Deserialize)]
    struct Package {
        version: String,
    }
    let path = directory.join("package.json");
    let length = fs::metadata(&path).ok()?.len();
    let text = (length <= PACKAGE_BYTES_MAX).then(|| fs::read(&path).ok())??;
    let package: Package = serde_json::from_slice(&text).ok()?;
    Version::parse(&package.version)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{env, process};

    #[test]
    fn version_is_found_in_a_package_or_a_directory_name() {
        let root = env::temp_dir().join(format!("ar-version-{}", process::id()));
        let bin = root.join("package").join("bin");
        fs::create_dir_all(&bin).unwrap();
        fs::create_dir_all(root.join("3.4.5")).unwrap();
        fs::write(bin.join("agent"), "").unwrap();
        fs::write(root.join("3.4.5").join("agent"), "").unwrap();
        assert_eq!(version_of(bin.join("agent").as_os_str()), None);
        fs::write(root.join("package").join("package.json"), r#"{"version": "2.1.197"}"#).unwrap();
        assert_eq!(version_of(bin.join("agent").as_os_str()), Version::parse("2.1.197"));
        let named = version_of(root.join("3.4.5").join("agent").as_os_str());
        assert_eq!(named, Version::parse("3.4.5"));
        assert_eq!(version_of(OsStr::new("no-such-program-anywhere")), None);
        fs::remove_dir_all(&root).unwrap();
    }
}
