//! Comparison of a received text with a message as rendered by CLIs.
//!
//! Blank lines are ignored. Outside of fences, Markdown marks and indentation are ignored, and a
//! run of blanks counts as one; a fence only loses its marks. Words, their order and line ends
//! must be exact.

use crate::cli::Cli;

/// A rendered message, for comparison.
pub(crate) struct Shown {
    lines: Vec<Line>,
    /// Whether a fence is still open at the `>>>` after the body.
    pub(crate) leaves_a_fence_open: bool,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// The number of the fence that contains the line.
    fence: Option<usize>,
}

/// A body as a CLI shows it.
pub(crate) fn shown(body: &str) -> Shown {
    let body = body.replace("\r\n", "\n").replace('\r', "\n");
    let (mut lines, mut fence, mut fences) = (Vec::new(), None::<String>, 0);
    let mut closed_by_last = false;
    for line in body.lines() {
        let text = line.trim_start();
        let mark: String =
            text.chars().take_while(|c| text.starts_with(*c) && "`~".contains(*c)).collect();
        closed_by_last = false;
        match &fence {
            None if mark.len() >= 3 && !text[mark.len()..].contains('`') => {
                fence = Some(mark);
                fences += 1;
            }
            Some(open) if mark.starts_with(open.as_str()) && text == mark => {
                fence = None;
                closed_by_last = true;
            }
            open => lines.push(Line { text: visible(line), fence: open.as_ref().map(|_| fences) }),
        }
    }
    let leaves_a_fence_open = fence.is_some() || closed_by_last;
    if closed_by_last {
        // If `>>>` follows the last line, the line does not close the fence: it is text in the
        // fence.
        lines.extend(
            body.lines().last().map(|line| Line { text: visible(line), fence: Some(fences) }),
        );
    }
    lines.retain(|line| !is_blank(&line.text, line.fence));
    Shown { lines, leaves_a_fence_open }
}

/// Checks a received text against the rendered body. The error names the first difference.
pub(crate) fn check_shown(cli: Cli, body: &Shown, received: &str) -> Result<(), String> {
    let received: Vec<String> = received.lines().map(visible).collect();
    let mut received = received.iter().filter(|line| !is_blank(line, None)).peekable();
    let mut indentation = None;
    for line in &body.lines {
        let Some(next) = received.next() else {
            return Err(format!("{:?} is missing", cut(&line.text)));
        };
        let same = match line.fence {
            Some(fence) => {
                let next = if cli == Cli::Gemini { without_number(next) } else { next.clone() };
                let moved = indentation_of(&next) as isize - indentation_of(&line.text) as isize;
                let of_fence = *indentation.get_or_insert((fence, moved));
                let stays = of_fence == (fence, moved) || of_fence.0 != fence;
                indentation = Some((fence, moved));
                stays && next.trim() == line.text.trim()
            }
            None => plain(cli, &line.text) == plain(cli, next),
        };
        if !same {
            return Err(format!("{:?} for {:?}", cut(next), cut(&line.text)));
        }
    }
    received.next().map_or(Ok(()), |line| Err(format!("{:?} follows", cut(line))))
}

/// The visible characters of a line.
fn visible(line: &str) -> String {
    let hidden = |c: char| {
        c.is_control() && c != '\t'
            || matches!(c, '\u{200b}' | '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{fffd}' | '\u{2028}' | '\u{2029}' | '\u{e0000}'..='\u{e007f}')
    };
    line.chars().filter(|&c| !hidden(c)).collect::<String>().trim_end().to_owned()
}

/// Whether a line is blank, or is a rule of a table or between paragraphs.
fn is_blank(line: &str, fence: Option<usize>) -> bool {
    let rule = |c: char| "-—|:+= ".contains(c) || ('\u{2500}'..='\u{257f}').contains(&c);
    line.trim().is_empty() || fence.is_none() && line.chars().count() >= 3 && line.chars().all(rule)
}

/// The width of a line's indentation.
fn indentation_of(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// A fence's line without the number that Gemini CLI adds.
fn without_number(line: &str) -> String {
    let text = line.trim_start();
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == text.len() {
        line.to_owned()
    } else {
        rest.strip_prefix(' ').unwrap_or(rest).to_owned()
    }
}

/// A line of Markdown as words. Marks of lists and quotes have one form; marks of headings and
/// emphasis are removed.
fn plain(cli: Cli, line: &str) -> String {
    let mut line = line.trim().to_owned();
    if line.contains("](") {
        // Links are shown as text and target.
        line = line.replacen('[', "", 1).replace("](", " (");
    }
    if cli == Cli::Codex {
        line = line.replace("[ ]", "☐").replace("[x]", "☑");
        line = line.trim_start_matches("- ☐").trim_start_matches("- ☑").to_owned();
    }
    for (entity, character) in [("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")] {
        line = line.replace(entity, character);
    }
    let text = line.trim_start_matches('#');
    let text = if text.starts_with(' ') { text.trim_start() } else { line.as_str() };
    let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let text = match digits.strip_prefix(". ") {
        // The CLI renumbers lists.
        Some(rest) if digits.len() < text.len() => format!("1. {rest}"),
        _ => text.to_owned(),
    };
    let bar = |c: char| "▎▌│┃|".contains(c);
    let text = match text.strip_prefix(['•', '*', '+', '◦']) {
        Some(rest) if rest.starts_with(' ') => format!("-{rest}"),
        _ => text,
    };
    let text: String = text.chars().map(|c| if bar(c) { '>' } else { c }).collect();
    let marks = |c: char| "*_`~\\>".contains(c);
    let words: Vec<String> = text.split_whitespace().map(|word| word.replace(marks, "")).collect();
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn cut(text: &str) -> String {
    text.chars().take(60).collect()
}
