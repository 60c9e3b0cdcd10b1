"""The program that docs/CLIENTS.md prints keeps the rules."""

from __future__ import annotations

import re
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support import CLIENT_RULES, JOBS, LIMIT_S, ROOT, Case, Options, failures, judge_client

OPTIONS = Options(frozenset("send outcomes reconnect resume".split()), LIMIT_S)


class Page(Case):
    def test_program_keeps_the_rules(self) -> None:
        page = (ROOT / "docs" / "CLIENTS.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(JOBS) as pool:
            program = Path(folder, "client.py")
            program.write_text("\n".join(blocks), encoding="utf-8")
            command = [sys.executable, "-I", str(program), "Ann"]
            verdicts = list(
                pool.map(lambda rule: judge_client(command, rule, OPTIONS), CLIENT_RULES))
        self.assertEqual(failures(verdicts), {})
        passed = [verdict for verdict in verdicts if verdict.result == "pass"]
        self.assertGreater(len(passed), 25)


if __name__ == "__main__":
    unittest.main()
