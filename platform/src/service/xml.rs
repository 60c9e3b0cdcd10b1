//! Words in XML.

/// A word as the text of an element.
pub(super) fn escaped(word: &str) -> String {
    word.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The word of such a text, as others may have written it, too.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}
