//! Extraction from texts that are not on a screen, such as the texts in a transcript.

use super::extracted::{Extracted, Fault};
use super::finding::Finding;
use super::injected_frames::quoted_lines;
use super::line_scanner::LineScanner;
use super::logical_line::LogicalLine;
use super::rules::Rules;

/// How many messages of one text are read again without considering code fences in their bodies.
const BODIES_WITHOUT_FENCES_MAX: usize = 32;

/// An extractor of messages from whole texts of an agent.
pub(crate) struct TextExtractor {
    rules: Rules,
}

impl TextExtractor {
    /// Returns an extractor. For `allows_inline` see [`super::ScreenExtractor::allow_inline`].
    pub(crate) fn new(allows_inline: bool) -> Self {
        let rules = Rules {
            allows_inline,
            reports_misplaced: true,
            has_body_fences: true,
            ..Rules::default()
        };
        Self { rules }
    }

    /// Extracts messages from one whole text of the agent. A message without an end in the text is
    /// unclosed. A message in a whole frame is quoted.
    pub(crate) fn read(&mut self, text: &str, out: &mut Vec<Extracted>) {
        self.rules.bodies_without_fences.clear();
        self.rules.quoted_lines = quoted_lines(text);
        let findings = loop {
            let findings = self.scan(text);
            // The beginning of another fence, far below, may close a code fence in a body by
            // mistake. So an unclosed message is read again without considering fences in its body.
            let read_already = &self.rules.bodies_without_fences;
            let unclosed = findings.iter().find(|finding| {
                finding.has_fault(Fault::Unclosed) && !read_already.contains(&finding.first_row)
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
