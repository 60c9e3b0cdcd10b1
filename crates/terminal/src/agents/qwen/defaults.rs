//! The file of defaults of a run, which takes the place of the system's. What the user, a project
//! or an administrator has set in other files prevails over it.

use crate::hooks::{Armed, ReadFile, Unarmed};
use serde_json::{Map, Value, json};
use std::path::Path;

/// The variable that names the file of defaults, and the one that names the file of settings,
/// next to which it stands otherwise.
const DEFAULTS: &str = "QWEN_CODE_SYSTEM_DEFAULTS_PATH";
const SETTINGS: &str = "QWEN_CODE_SYSTEM_SETTINGS_PATH";

/// The folders of the system's files, on Linux and on macOS.
const FOLDERS: [&str; 2] = ["/etc/qwen-code", "/Library/Application Support/QwenCode"];

const FILE: &str = "system-defaults.json";

/// The version of the form in which our settings are written.
const VERSION: u32 = 4;

/// Returns the defaults that Qwen Code would read without ours.
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

/// Takes the defaults out of a command line that has some of ours.
pub(super) fn take(armed: &mut Armed) -> Option<Result<Map<String, Value>, Unarmed>> {
    let at = armed.files.iter().position(|(name, _)| *name == FILE)?;
    Some(parse(&armed.files.remove(at).1))
}

/// Puts defaults into the file of this run, and makes Qwen Code read it.
pub(super) fn put(settings: &Map<String, Value>, directory: &str, armed: &mut Armed) {
    let text = json!(settings).to_string();
    armed.files.push((FILE, text));
    armed.env.retain(|(name, _)| *name != DEFAULTS);
    armed.env.push((DEFAULTS, Path::new(directory).join(FILE).display().to_string()));
}

/// Returns the object that is a member of settings, which is added if it is missing.
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
