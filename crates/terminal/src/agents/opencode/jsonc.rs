//! JSON with comments and trailing commas.

/// Returns the text without comments and trailing commas. If the text is not JSON with such
/// additions, the result is not JSON either.
pub(super) fn to_json(text: &str) -> String {
    let mut json = String::with_capacity(text.len());
    // The position of the last comma, if only blanks and comments have followed it.
    let mut comma = None;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let length = match next {
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => {
                rest.get(2..).and_then(|inside| inside.find("*/")).map_or(rest.len(), |at| at + 4)
            }
            '"' => text_length(rest),
            next => next.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        match next {
            '/' if length > 1 => continue,
            ']' | '}' => {
                if let Some(at) = comma.take() {
                    json.remove(at);
                }
            }
            ',' => comma = Some(json.len()),
            next if next.is_whitespace() => {}
            _ => comma = None,
        }
        json.push_str(token);
    }
    json
}

/// Returns the length of the quoted string that the text begins with.
fn text_length(quoted: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in quoted.bytes().enumerate().skip(1) {
        match byte {
            b'"' if !is_escaped => return at + 1,
            _ => is_escaped = byte == b'\\' && !is_escaped,
        }
    }
    quoted.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_trailing_commas_are_removed() {
        for (text, json) in [
            ("{\"a\": 1, // one,\n}", "{\"a\": 1 \n}"),
            ("[1, /* , */ 2, /* ] */ ] //", "[1,  2  ] "),
            (r#"{"a//b": "\"/*\\", "c": ["é,]",],}"#, r#"{"a//b": "\"/*\\", "c": ["é,]"]}"#),
            ("/*", ""),
            ("/", "/"),
            (r#""a\"#, r#""a\"#),
        ] {
            assert_eq!(to_json(text), json, "{text}");
        }
    }
}
