//! The resources of the executables: version and manifest.

use std::fs;

#[test]
fn windows_executables_have_a_manifest_and_a_version() {
    let manifest = include_bytes!("../../package/executable.manifest");
    for (name, path) in [
        ("agent-relay", env!("CARGO_BIN_EXE_agent-relay")),
        ("agent-relay-wrap", env!("CARGO_BIN_EXE_agent-relay-wrap")),
        ("agent-relayw", env!("CARGO_BIN_EXE_agent-relayw")),
    ] {
        let bytes = fs::read(path).unwrap();
        // The first bytes of every Windows executable.
        if !bytes.starts_with(b"MZ") {
            continue;
        }
        let at = find(&bytes, manifest).unwrap_or_else(|| panic!("{path} has no manifest of ours"));
        // The resources are in one section; the rest of the file is large.
        let resources = &bytes[at.saturating_sub(64 << 10)..];
        let check = |key: &str, value: &str| {
            let key = wide(key);
            let after = find(resources, &key).unwrap_or_else(|| panic!("{path} has no {key:?}"));
            // The value begins at a multiple of four bytes.
            let actual = resources[after + key.len()..].iter().skip_while(|byte| **byte == 0);
            let value = wide(value);
            assert!(actual.take(value.len()).eq(&value), "{path}: {value:?}");
        };
        check("FileVersion", env!("CARGO_PKG_VERSION"));
        check("OriginalFilename", &format!("{name}.exe"));
    }
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

fn wide(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}
