"""Runs rules, and reports one verdict a rule."""

from __future__ import annotations

import contextlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, Dict, Generator, Iterable, NamedTuple, Sequence, Tuple

from .rules import Rule
from .scripted_client import DaemonRun
from .scripted_daemon import ClientRun, Options
from .wire import Cited, Failed, Skipped, Trace, new_trace

PASS, FAIL, SKIPPED, NOT_OBSERVABLE = "pass", "fail", "skipped", "not observable"
NEEDS = {"start": "a daemon that the kit starts"}
SCHEMA = "agent-relay-conformance"


class OutputFailed(Exception):
    """A line could not be written to standard output. The cause is an `OSError`."""


class Verdict(NamedTuple):
    """The result of checking a rule. `why` is empty if it passed.

    `frames` are the last ones before a failure.
    """

    rule: Rule
    result: str
    why: str = ""
    frames: Tuple[Cited, ...] = ()


def judge(rule: Rule, can: Iterable[str], check: Callable[[Rule, Trace], None]) -> Verdict:
    """Checks one rule. A missing member that the check reads is a failure, too."""
    if rule.check is None:
        return Verdict(rule, NOT_OBSERVABLE, rule.why_not)
    missing = sorted(rule.needs - set(can))
    if missing:
        named = ", ".join(NEEDS.get(need, f"`--can {need}`") for need in missing)
        return Verdict(rule, SKIPPED, f"needs {named}")
    trace = new_trace()
    try:
        check(rule, trace)
    except Failed as failed:
        return Verdict(rule, FAIL, str(failed), tuple(trace))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        why = f"something came in another form than expected: {error!r}"
        return Verdict(rule, FAIL, why, tuple(trace))
    except Skipped as skipped:
        return Verdict(rule, SKIPPED, str(skipped))
    return Verdict(rule, PASS)


def judge_client(program: Sequence[str], rule: Rule, options: Options) -> Verdict:
    """Checks one rule of a client, which is started for it."""
    def check(rule: Rule, trace: Trace) -> None:
        assert rule.check
        with ClientRun(program, options, trace) as run:
            rule.check(run)

    return judge(rule, options.can, check)


def judge_clients(
    program: Sequence[str], rules: Iterable[Rule], options: Options, jobs: int,
) -> Generator[Verdict, None, None]:
    """Yields the verdicts about a client in the order of the rules, checking several at a time."""
    with ThreadPoolExecutor(jobs) as pool:
        yield from pool.map(lambda rule: judge_client(program, rule, options), rules)


def judge_daemon(run: DaemonRun, rule: Rule) -> Verdict:
    """Checks one rule of a daemon. One that breaks the daemon fails, whatever else was found."""
    def check(rule: Rule, trace: Trace) -> None:
        assert rule.check
        run.begin(trace)
        try:
            rule.check(run)
        finally:
            run.finish()

    verdict = judge(rule, run.can, check)
    wrong = run.mend()
    if not wrong:
        return verdict
    why = f"{verdict.why}. And {wrong}" if verdict.why else wrong
    return verdict._replace(result=FAIL, why=why, frames=verdict.frames or tuple(run.trace))


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
    lines = [f"{result:14}  {rule.id:21}  {rule.text}"]
    lines += [f"    {verdict.why}"] if verdict.why else []
    if verdict.result == FAIL:
        lines.append(f"    {rule.reference}")
        lines += [f"        {frame}" for frame in verdict.frames]
    return "\n".join(lines)


def json_of(verdict: Verdict) -> str:
    rule = verdict.rule
    row: Dict[str, Any] = {
        "schema": f"{SCHEMA}.verdict/2", "rule": rule.id, "section": rule.section,
        "reference": rule.reference, "binds": rule.binds, "since": rule.since,
        "verdict": verdict.result, "text": rule.text}
    row.update({"why": verdict.why} if verdict.why else {})
    row.update({"frames": [frame._asdict() for frame in verdict.frames]} if verdict.frames else {})
    return json.dumps(row)
