"""Every rule has a unique id, which begins with a section of docs/PROTOCOL.md."""

import re
import unittest

from support import CLIENT_RULES, DAEMON_RULES, KIT, ROOT, RULES, SECTIONS, Case

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

    def test_readme_counts_the_rules_of_version_1_0(self) -> None:
        readme = (KIT / "README.md").read_text(encoding="utf-8")
        for who, rules in {"daemon": DAEMON_RULES, "client": CLIENT_RULES}.items():
            count = len([rule for rule in rules if rule.since == "1.0"])
            self.assertIn(f"\n| the {who} | {count} | {count - 1} | `", readme)


if __name__ == "__main__":
    unittest.main()
