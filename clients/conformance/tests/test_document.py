"""Every must of docs/PROTOCOL.md has a rule, and every rule quotes the document."""

import re
import unittest
from typing import Iterator, List, Tuple

from support import ROOT, RULES, Case

DOCUMENT = (ROOT / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")
MARKER = re.compile(r"([*-]|\d+\.) ")
# A sentence ends before a capital letter, a quotation or emphasis.
END_OF_SENTENCE = re.compile(r"(?<=[.!?])(?:\*\*)? (?=[A-Z*`\"(])")


def blocks() -> Iterator[Tuple[str, str]]:
    """Yields paragraphs, items of lists and rows of tables, in one line, with their headings."""
    section, lines, is_code = "", [], False  # type: str, List[str], bool

    for line in [*DOCUMENT.splitlines(), ""]:
        text = line.strip()
        if text.startswith("```"):
            is_code, text = not is_code, ""
        begins = not text or is_code or text[0] in "#|" or MARKER.match(text)
        if begins and lines:
            yield section, " ".join(lines)
            lines = []
        if not text or is_code:
            continue
        if text.startswith("#"):
            section = text.lstrip("# ")
        elif text.startswith("|"):
            yield section, text
        else:
            lines.append(MARKER.sub("", text, 1) if MARKER.match(text) else text)


def musts() -> List[Tuple[str, str]]:
    """Returns each sentence with a must, and its heading."""
    return [
        (section, sentence) for section, block in blocks()
        for sentence in END_OF_SENTENCE.split(block) if re.search(r"\bmust\b", sentence, re.I)]


class Document(Case):
    def test_every_must_has_a_rule(self) -> None:
        quoted = {quote for rule in RULES for quote in rule.quotes}
        self.assertGreater(len(musts()), 30, "the document was not read")
        for section, sentence in musts():
            with self.subTest(section):
                if sentence not in quoted:
                    self.fail(f"no rule of the kit quotes this sentence of {section!r}: {sentence}")

    def test_every_rule_quotes_its_section(self) -> None:
        for rule in RULES:
            with self.subTest(rule.id):
                texts = [block for section, block in blocks() if section == rule.section]
                self.assertTrue(texts, f"{rule.id}: no section {rule.section!r}")
                for quote in rule.quotes:
                    if not any(quote in text for text in texts):
                        self.fail(f"{rule.id}: not in the section {rule.section!r}: {quote}")

    def test_rules_have_ids_of_their_chapters(self) -> None:
        ids = [rule.id for rule in RULES]
        self.assertEqual(len(ids), len(set(ids)), "an id is given twice")
        chapter, chapters = "0", {}
        for line in DOCUMENT.splitlines():
            heading = re.match(r"#+ (.*)", line)
            number = re.match(r"## (\d+) ", line)
            chapter = number.group(1) if number else chapter
            if heading:
                chapters[heading.group(1)] = chapter
        for rule in RULES:
            with self.subTest(rule.id):
                self.assertEqual(rule.id.split(".")[0], chapters[rule.section])


if __name__ == "__main__":
    unittest.main()
