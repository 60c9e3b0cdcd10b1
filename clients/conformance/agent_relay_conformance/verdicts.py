"""Runs rules, and reports one verdict a rule."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Callable, Generator, Iterable, NamedTuple

from .rules import Rule
from .wire import Failed, Skipped

PASS, FAIL, SKIPPED, NOT_OBSERVABLE = "pass", "fail", "skipped", "not observable"
NEEDS = {"start": "a daemon that the kit starts"}
SCHEMA = "agent-relay-conformance"


class OutputFailed(Exception):
    """A line could not be written to standard output. The cause is an `OSError`."""


class Verdict(NamedTuple):
    """What was found about a rule. `why` is empty if it passed."""

    rule: Rule
    result: str
    why: str = ""


def judge(rule: Rule, can: Iterable[str], check: Callable[[Rule], None]) -> Verdict:
    """Checks one rule. An envelope that lacks what the check reads is a failure, too."""
    if rule.check is None:
        return Verdict(rule, NOT_OBSERVABLE, rule.why_not)
    missing = sorted(rule.needs - set(can))
    if missing:
        named = ", ".join(NEEDS.get(need, f"`--can {need}`") for need in missing)
        return Verdict(rule, SKIPPED, f"needs {named}")
    try:
        check(rule)
    except Failed as failed:
        return Verdict(rule, FAIL, str(failed))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        return Verdict(rule, FAIL, f"something came in another form than expected: {error!r}")
    except Skipped as skipped:
        return Verdict(rule, SKIPPED, str(skipped))
    return Verdict(rule, PASS)


def judge_all(
    rules: Iterable[Rule], can: Iterable[str], check: Callable[[Rule], None], jobs: int,
) -> Generator[Verdict, None, None]:
    """Yields verdicts in the order of the rules, and checks so many rules at a time."""
    if jobs == 1:
        # Where a rule ends the run, no further one has begun.
        yield from (judge(rule, can, check) for rule in rules)
        return
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda rule: judge(rule, can, check), rules)


def emit(line: str) -> None:
    """Prints a line at once."""
    try:
        print(line, flush=True)
    except OSError as error:
        raise OutputFailed from error


def report(verdicts: Generator[Verdict, None, None], as_json: bool) -> bool:
    """Prints verdicts as they come, and their counts. Returns false if a rule failed."""
    counts = dict.fromkeys((PASS, FAIL, SKIPPED, NOT_OBSERVABLE), 0)
    # Where a line cannot be printed, the rules that have not begun are left out.
    with contextlib.closing(verdicts):
        for verdict in verdicts:
            counts[verdict.result] += 1
            emit(json_of(verdict) if as_json else text_of(verdict))
    if as_json:
        emit(json.dumps({"schema": f"{SCHEMA}.summary/1", **counts}))
    else:
        named = ", ".join(f"{count} {result}" for result, count in counts.items())
        total = sum(counts.values())
        emit(f"{total} rule{'' if total == 1 else 's'}: {named}")
    return counts[FAIL] == 0


def text_of(verdict: Verdict) -> str:
    rule, result = verdict.rule, verdict.result
    result = result.upper() if result == FAIL else result
    line = f"{result:14}  {rule.id:21}  {rule.text}"
    return f"{line}\n    {verdict.why}" if verdict.why else line


def json_of(verdict: Verdict) -> str:
    row = {
        "schema": f"{SCHEMA}.verdict/2", "rule": verdict.rule.id, "section": verdict.rule.section,
        "binds": verdict.rule.binds, "since": verdict.rule.since, "verdict": verdict.result,
        "text": verdict.rule.text}
    return json.dumps({**row, "why": verdict.why} if verdict.why else row)
