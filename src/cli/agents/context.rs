//! How much of its model's context an agent's conversation takes, by its transcript.

use crate::wrap::agents;
use protocol::control::Source;
use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};
use terminal::transcript::ContextUse;

/// The bytes at the end of a transcript that are read.
const END_BYTES: u64 = 128 << 10;

/// Reads the use from the end of the transcript of an agent that runs this program. `None` if the
/// transcript does not state it.
pub(super) fn of(program: &str, source: Option<&Source>) -> Option<ContextUse> {
    let Some(Source::Transcript { path }) = source else { return None };
    let format = agents::named(program)?.transcript?;
    // A transcript that is gone tells nothing.
    format.context_in(&end(Path::new(path)).ok()?)
}

fn end(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(END_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A use in words: `45k of 200k tokens`.
pub(super) fn words(used: ContextUse) -> String {
    let thousands = |tokens: u64| match tokens {
        0..1000 => tokens.to_string(),
        _ => format!("{}k", tokens / 1000),
    };
    let window = used.window.map(|window| format!(" of {}", thousands(window)));
    format!("{}{} tokens", thousands(used.tokens), window.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_is_told_in_thousands() {
        for (tokens, window, told) in [
            (999, None, "999 tokens"),
            (45_678, None, "45k tokens"),
            (45_678, Some(200_000), "45k of 200k tokens"),
        ] {
            assert_eq!(words(ContextUse { tokens, window }), told);
        }
    }

    #[test]
    fn use_is_at_the_end_of_a_transcript() {
        let path = std::env::temp_dir().join(format!("ar-context-{}", std::process::id()));
        let line = r#"{"tokens":{"total":45678}}"#;
        std::fs::write(&path, format!("{}\n{line}\n", "x".repeat(300_000))).unwrap();
        let source = Source::Transcript { path: path.to_string_lossy().into_owned() };
        assert_eq!(of("gemini", Some(&source)).unwrap().tokens, 45_678);
        assert_eq!(of("sleep", Some(&source)), None);
        assert_eq!(of("gemini", Some(&Source::Screen)), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(of("gemini", Some(&source)), None);
    }
}
