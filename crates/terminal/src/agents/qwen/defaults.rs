//! The file of defaults for a run, which replaces the system's file. Settings of the user, a
//! project or an administrator in other files override it.

use crate::hooks::{Armed, ReadFile, Unarmed};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The variable that names the file of defaults, and the variable that names the file of settings.
/// Without the former, the defaults are in the same folder as the settings.
const DEFAULTS: &str = "QWEN_CODE_SYSTEM_DEFAULTS_PATH";
const SETTINGS: &str = "QWEN_CODE_SYSTEM_SETTINGS_PATH";

/// The folders of the system's files, on Linux and on macOS.
const FOLDERS: [&str; 2] = ["/etc/qwen-code", "/Library/Application Support/QwenCode"];

const FILE: &str = "system-defaults.json";

/// The format version of our settings.
const VERSION: u32 = 4;

/// Returns the defaults that Qwen Code would read without us.
pub(super) fn of_user(
    env: &dyn Fn(&str) -> Option<String>,
    read: ReadFile<'_>,
) -> Result<Map<String, Value>, Unarmed> {
    let set = |name| env(name).filter(|path| !path.is_empty());
    let beside = |settings: &str| {
        let folder = settings.rfind('/').map_or("", |end| &settings[..=end]);
        format!("{folder}{FILE}")
    };
    let paths = match (set(DEFAULTS), set(SETTINGS)) {
        (Some(path), _) => vec![path],
        (None, Some(settings)) => vec![beside(&settings)],
        (None, None) => FOLDERS.map(|folder| format!("{folder}/{FILE}")).to_vec(),
    };
    for path in paths {
        if let Some(text) = read(&path)? {
            return parse(&text);
        }
    }
    Ok(Map::from_iter([("$version".to_owned(), VERSION.into())]))
}

/// Takes our defaults out of an armed command line, if it has some.
pub(super) fn take(armed: &mut Armed) -> Option<Result<Map<String, Value>, Unarmed>> {
    let at = armed.files.iter().position(|(name, _)| *name == FILE)?;
    Some(parse(&armed.files.remove(at).1))
}

/// Writes defaults to this run's file, and makes Qwen Code read it.
pub(super) fn put(settings: &Map<String, Value>, directory: &str, armed: &mut Armed) {
    let text = json!(settings).to_string();
    armed.files.push((FILE, text));
    armed.env.retain(|(name, _)| *name != DEFAULTS);
    armed.env.push((DEFAULTS, Path::new(directory).join(FILE).display().to_string()));
}

/// Returns the object in the member `name` of the settings. Adds the member if it is missing.
pub(super) fn object<'a>(
    settings: &'a mut Map<String, Value>,
    member: &str,
) -> Result<&'a mut Map<String, Value>, Unarmed> {
    let value = settings.entry(member).or_insert_with(|| json!({}));
    value.as_object_mut().ok_or(Unarmed::Defaults)
}

fn parse(text: &str) -> Result<Map<String, Value>, Unarmed> {
    serde_json::from_str(text).map_err(|_| Unarmed::Defaults)
}
