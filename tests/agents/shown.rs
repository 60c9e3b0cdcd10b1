//! What the CLIs' screens keep of a message: a model of what they throw away, and no more than that.
//!
//! Blank lines come and go around what a CLI renders, and are left out. Outside of fences, marks of Markdown
//! and the indentation of a line go, and blanks count as one; in a fence nothing does but the fence.
//! Words, their order, and where lines end have to be exact.

use crate::agent::Kind;

/// What is compared of a message.
pub(crate) struct Shown {
    lines: Vec<Line>,
    /// It has a fence that `>>>` behind it does not close.
    pub(crate) leaves_a_fence_open: bool,
}

#[derive(Debug)]
struct Line {
    text: String,
    /// It stands in this fence of the message.
    fence: Option<usize>,
}

/// What a CLI shows of a body.
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
        // It is text of the fence that it does not close.
        lines.extend(
            body.lines().last().map(|line| Line { text: visible(line), fence: Some(fences) }),
        );
    }
    lines.retain(|line| !is_blank(&line.text, line.fence));
    Shown { lines, leaves_a_fence_open }
}

/// Whether what was heard is what the CLI shows of a body; if not, the first line that differs.
pub(crate) fn heard_as(kind: Kind, body: &Shown, heard: &str) -> Result<(), String> {
    let heard: Vec<String> = heard.lines().map(visible).collect();
    let mut heard = heard.iter().filter(|line| !is_blank(line, None)).peekable();
    let mut indentation = None;
    for line in &body.lines {
        let Some(next) = heard.next() else {
            return Err(format!("{:?} is missing", cut(&line.text)));
        };
        let same = match line.fence {
            Some(fence) => {
                let next = if kind == Kind::Gemini { without_number(next) } else { next.clone() };
                let moved = columns(&next) as isize - columns(&line.text) as isize;
                let all = *indentation.get_or_insert((fence, moved));
                let stays = all == (fence, moved) || all.0 != fence;
                indentation = Some((fence, moved));
                stays && next.trim() == line.text.trim()
            }
            None => plain(kind, &line.text) == plain(kind, next),
        };
        if !same {
            return Err(format!("{:?} for {:?}", cut(next), cut(&line.text)));
        }
    }
    heard.next().map_or(Ok(()), |more| Err(format!("{:?} beside it", cut(more))))
}

/// What of a line is something to see.
fn visible(line: &str) -> String {
    let hidden = |c: char| {
        c.is_control() && c != '\t'
            || matches!(c, '\u{200b}' | '\u{feff}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            || matches!(c, '\u{fffd}' | '\u{2028}' | '\u{2029}' | '\u{e0000}'..='\u{e007f}')
    };
    line.chars().filter(|&c| !hidden(c)).collect::<String>().trim_end().to_owned()
}

/// Nothing, or the rule of a table or between paragraphs.
fn is_blank(line: &str, fence: Option<usize>) -> bool {
    let rule = |c: char| "-—|:+= ".contains(c) || ('\u{2500}'..='\u{257f}').contains(&c);
    line.trim().is_empty() || fence.is_none() && line.chars().count() >= 3 && line.chars().all(rule)
}

fn columns(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Gemini CLI numbers the lines of a fence.
fn without_number(line: &str) -> String {
    let text = line.trim_start();
    let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
    if rest.len() == text.len() {
        line.to_owned()
    } else {
        rest.strip_prefix(' ').unwrap_or(rest).to_owned()
    }
}

/// A line of Markdown as words: marks of lists and quotes in one form, those of headings and emphasis gone.
fn plain(kind: Kind, line: &str) -> String {
    let mut line = line.trim().to_owned();
    if line.contains("](") {
        // A link, and where it leads.
        line = line.replacen('[', "", 1).replace("](", " (");
    }
    if kind == Kind::Codex {
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
        // Lists are numbered anew.
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
