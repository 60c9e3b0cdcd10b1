//! Extraction from texts that are not on a screen, such as a transcript's.

use super::extracted::Extracted;
use super::finding::Finding;
use super::injected_frames::InjectedFrames;
use super::line_scanner::LineScanner;
use super::logical_line::LogicalLine;
use super::rules::Rules;

/// Bodies of one text that are read again without regard to code fences in them.
const BODIES_WITHOUT_FENCES_MAX: usize = 32;

/// Extracts messages from whole texts of an agent.
pub struct TextExtractor {
    rules: Rules,
    frames: InjectedFrames,
}

impl TextExtractor {
    /// An extractor; `allows_inline` as in [`super::ScreenExtractor::allow_inline`].
    pub fn new(allows_inline: bool) -> Self {
        let rules = Rules { allows_inline, has_body_fences: true, ..Rules::default() };
        Self { rules, frames: InjectedFrames::default() }
    }

    /// Remembers that `body` is typed into the agent, in a frame with these six digits. In a text
    /// that quotes the whole frame, it is not the agent's own.
    pub fn remember_injected(&mut self, hex: &str, body: &str) {
        self.frames.remember(hex, body);
    }

    /// Extracts from one whole text of the agent: a message without an end in it has none.
    pub fn read(&mut self, text: &str, out: &mut Vec<Extracted>) {
        self.rules.bodies_without_fences.clear();
        self.rules.quoted_lines = self.frames.quoted_lines(text);
        let findings = loop {
            let findings = self.scan(text);
            // A fence that a body opens may be closed by the beginning of another one, far below.
            let read_already = &self.rules.bodies_without_fences;
            let unclosed = findings.iter().find(|finding| {
                finding.is_unclosed() && !read_already.contains(&finding.first_row)
            });
            match unclosed {
                Some(finding) if read_already.len() < BODIES_WITHOUT_FENCES_MAX => {
                    let line = finding.first_row;
                    self.rules.bodies_without_fences.push(line);
                }
                _ => break findings,
            }
        };
        out.extend(findings.into_iter().map(|finding| finding.extracted));
    }

    fn scan(&self, text: &str) -> Vec<Finding> {
        let (mut scanner, mut findings) = (LineScanner::default(), Vec::new());
        for (number, line) in (0..).zip(text.split('\n')) {
            scanner.read(LogicalLine::off_screen(line, number), &self.rules, &mut findings);
        }
        scanner.end_turn(&mut findings);
        findings
    }
}
