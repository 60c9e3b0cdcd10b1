"""The command line of the kit."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import shutil
import sys
from typing import List, Optional, Tuple

from .rules import (
    ABILITIES, CLIENT_RULES, DAEMON_RULES, DEFAULT_ABILITIES, RULES, Rule,
)
from .scripted_client import DaemonRun
from .scripted_daemon import Options
from .verdicts import SCHEMA, OutputFailed, emit, judge_clients, judge_daemon, report
from .wire import Stopped, UsageError

EPILOG = (
    "Exit codes: 0 no rule failed, 1 a rule failed, 2 an error: the command line is wrong, the "
    "daemon does not run, or the output cannot be written.")
PROGRAM = "agent_relay_conformance"
LONGEST_WAIT_S = 3600.0


def seconds(text: str) -> float:
    """Reads the number of `--timeout`."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= LONGEST_WAIT_S:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number of seconds above 0 and up to {LONGEST_WAIT_S:g}")
    return value


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(
        PROGRAM, description="Checks clients and daemons of Agent Relay against docs/PROTOCOL.md.",
        epilog=EPILOG)
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    abilities = "; ".join(f"{name}: {text}" for name, text in ABILITIES.items())
    client = commands.add_parser(
        "client", help="check a client against a scripted daemon", epilog=EPILOG,
        usage="%(prog)s [options] -- PROGRAM ARGUMENT…",
        description="Starts PROGRAM once for each rule. It finds the daemon's endpoint in "
        "AGENT_RELAY_ENDPOINT, or as {endpoint} in an ARGUMENT; reads commands from its standard "
        "input; and prints what it receives, one JSON envelope a line.")
    client.add_argument(
        "--can", metavar="LIST", default=",".join(sorted(DEFAULT_ABILITIES)),
        help="what the client can do, with commas (default: %(default)s). " + abilities)
    client.add_argument(
        "--jobs", type=int, default=4, metavar="N", help="rules at a time (default: %(default)s)")
    daemon = commands.add_parser(
        "daemon", help="check a daemon with scripted clients", epilog=EPILOG,
        usage="%(prog)s [options] (--endpoint PATH | -- PROGRAM ARGUMENT…)",
        description="Starts PROGRAM as the daemon, whose ARGUMENTs have {endpoint} and {home} "
        "for its endpoint and its home with a config.toml; or checks one that runs.")
    daemon.add_argument("--endpoint", metavar="PATH", help="the endpoint of a daemon that runs")
    for command in (client, daemon):
        command.add_argument(
            "--only", action="append", metavar="RULE",
            help="only this rule, or the rules of this section; may be repeated")
        command.add_argument(
            "--part", choices=["1.0", "1.1"], default="1.1",
            help="judge by the text of this version of the protocol (default: %(default)s)")
        command.add_argument(
            "--timeout", type=seconds, default=20.0, metavar="SECONDS",
            help="the longest wait for an event (default: %(default)s)")
    rules = commands.add_parser("rules", help="list the rules", epilog=EPILOG)
    for command in (client, daemon, rules):
        command.add_argument("--json", action="store_true", help="print one JSON object a line")
    return top


def selected(rules: Tuple[Rule, ...], only: Optional[List[str]], part: str) -> List[Rule]:
    """Returns the rules of a command line. Raises `UsageError` for one that is unknown."""
    known = {name for rule in rules for name in (rule.id, rule.section)}
    for name in only or ():
        if name not in known:
            raise UsageError(f"there is no rule {name!r} here: `{PROGRAM} rules` lists them")
    of_part = [rule for rule in rules if part != "1.0" or rule.since == "1.0"]
    found = [rule for rule in of_part if not only or rule.id in only or rule.section in only]
    if not found:
        raise UsageError(f"version {part} has none of these rules: {', '.join(only or ())}")
    return found


def list_rules(as_json: bool) -> None:
    for rule in RULES:
        row = {
            "schema": f"{SCHEMA}.rule/2", "rule": rule.id, "section": rule.section,
            "binds": rule.binds, "since": rule.since, "needs": sorted(rule.needs),
            "text": rule.text}
        if as_json:
            emit(json.dumps({**row, "not_observable": rule.why_not} if rule.why_not else row))
            continue
        emit(f"{rule.id:21}  {rule.binds}  {rule.since}  {rule.text}")
        if rule.why_not:
            emit(f"    (not observable: {rule.why_not})")


def main(words: List[str]) -> int:
    at = words.index("--") if "--" in words else len(words)
    own, program = words[:at], words[at + 1 :]
    top = parser()
    options = top.parse_args(own)
    if options.command == "rules":
        list_rules(options.json)
        return 0
    try:
        is_client = options.command == "client"
        rules = selected(CLIENT_RULES if is_client else DAEMON_RULES, options.only, options.part)
        if program:
            expect_program(program[0])
        if is_client:
            return check_client(rules, options, program)
        return check_daemon(rules, options, program)
    except UsageError as error:
        top.error(str(error))


def expect_program(word: str) -> None:
    """Raises `UsageError` unless the system can find a program."""
    if shutil.which(word) is not None:
        return
    if os.path.dirname(word) and os.path.isfile(word):
        raise UsageError(
            f"the program {word!r} is not executable: run `chmod +x {word}`, or write its "
            "interpreter before it")
    found = f": write './{word}' for the file in this directory" if os.path.isfile(word) else ""
    raise UsageError(f"there is no program {word!r}{found}")


def check_client(rules: List[Rule], options: argparse.Namespace, program: List[str]) -> int:
    can = frozenset(filter(None, options.can.split(",")))
    for word in can - set(ABILITIES):
        raise UsageError(f"--can: there is no {word!r}; there are {', '.join(ABILITIES)}")
    if not program:
        raise UsageError("the client's program is missing: write it after `--`")

    how = Options(can, options.timeout, options.part)
    verdicts = judge_clients(program, rules, how, max(1, options.jobs))
    return 0 if report(verdicts, options.json) else 1


def check_daemon(rules: List[Rule], options: argparse.Namespace, program: List[str]) -> int:
    if bool(program) == bool(options.endpoint):
        raise UsageError("write either the daemon's program after `--`, or --endpoint PATH")
    with DaemonRun(program, options.endpoint, options.timeout) as run:
        # Where a rule ends the run, no further one has begun.
        verdicts = (judge_daemon(run, rule) for rule in rules)
        return 0 if report(verdicts, options.json) else 1


def failed(text: str) -> int:
    print(f"{PROGRAM}: error: {text}", file=sys.stderr)
    return 2


def run(words: List[str]) -> int:
    """Runs a command line, and returns the exit code."""
    if sys.stdout is None:
        return failed("standard output is closed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = main(words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 2
        try:
            sys.stdout.flush()
        except OSError as error:
            raise OutputFailed from error
        return code
    except KeyboardInterrupt:
        return 130
    except Stopped as stopped:
        return failed(str(stopped))
    except OutputFailed as lost:
        # Without this, Python reports the same once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(lost.__cause__, BrokenPipeError):
            return 2  # The reader has left, and knows.
        return failed(f"the output cannot be written: {lost.__cause__}")


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
