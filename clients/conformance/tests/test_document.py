"""Every rule has an id of its own, which begins with a section of docs/PROTOCOL.md."""

import re
import unittest

from support import ROOT, RULES, SECTIONS, Case

DOCUMENT = (ROOT / "docs" / "PROTOCOL.md").read_text(encoding="utf-8")


class Document(Case):
    def test_ids_are_unique_and_of_a_section(self) -> None:
        titles = re.findall(r"^## (\d+ .+)$", DOCUMENT, re.MULTILINE)
        self.assertEqual([title.lower().replace(" ", "-") for title in titles], SECTIONS)
        ids = [rule.id for rule in RULES]
        self.assertEqual(len(ids), len(set(ids)), "an id is given twice")
        for rule in RULES:
            with self.subTest(rule.id):
                self.assertRegex(rule.id, r"^\d+-[a-z0-9.-]+$")
                self.assertIn(rule.reference.partition("#")[2], SECTIONS)


if __name__ == "__main__":
    unittest.main()
