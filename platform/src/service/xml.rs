//! Text in XML.

/// A text escaped for an element's content.
pub(super) fn escaped(word: &str) -> String {
    word.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// The text of an element's content, also with entities that [`escaped`] does not write.
pub(super) fn plain(text: &str) -> String {
    let text = text.replace("&lt;", "<").replace("&gt;", ">");
    text.replace("&quot;", "\"").replace("&apos;", "'").replace("&amp;", "&")
}
