"""The rules of docs/PROTOCOL.md: which sentence binds whom, and how the kit checks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, FrozenSet, Optional, Tuple

from . import client_checks as client
from . import daemon_checks as daemon

CLIENT, DAEMON = "client", "daemon"


@dataclass(frozen=True)
class Rule:
    """A rule, with the sentences of docs/PROTOCOL.md that state it.

    Without `check` it cannot be observed from outside, and `why_not` says why. `needs` are what a
    client must be able to do (`--can`), or what the kit must know of a daemon.
    """

    id: str
    section: str
    binds: str
    since: str
    quotes: Tuple[str, ...]
    check: Optional[Callable[[Any], None]]
    needs: FrozenSet[str] = frozenset()
    why_not: str = ""


def of_client(
    id: str, section: str, since: str, check: Callable[[Any], None], *quotes: str, needs: str = "",
) -> Rule:
    return Rule(id, section, CLIENT, since, quotes, check, frozenset(needs.split()))


def of_daemon(
    id: str, section: str, since: str, check: Callable[[Any], None], *quotes: str, needs: str = "",
) -> Rule:
    return Rule(id, section, DAEMON, since, quotes, check, frozenset(needs.split()))


def not_observable(id: str, section: str, binds: str, why: str, *quotes: str) -> Rule:
    return Rule(id, section, binds, "1.1", quotes, None, frozenset(), why)


#: What a client can be able to do beyond joining, receiving and leaving, as `--can` names it.
ABILITIES = {
    "send": "the command `send TO BODY`",
    "publish": "the command `publish TOPIC BODY`",
    "subscribe": "the command `subscribe PATTERN`",
    "unsubscribe": "the command `unsubscribe PATTERN`",
    "ask": "the command `ask TO BODY`; the answer is printed as an ACK with `responseData`",
    "answer": "the command `answer ID BODY`; questions are not acknowledged before it",
    "outcomes": "prints NACKs about messages that were accepted before",
    "reconnect": "connects again after a lost connection",
    "resume": "shows its token when it connects again",
    "show": "prints bodies for a person, not for a program",
}
DEFAULT_ABILITIES = frozenset({"send", "publish", "subscribe", "unsubscribe", "outcomes"})

#: The title of the document, under which its first sentences stand.
TITLE = "The Agent Relay protocol, version 1.1"

CLIENT_RULES = (
    not_observable(
        "0.1", TITLE, CLIENT, "it defines words",
        "The words *must*, *must not*, *should* and *may* are used as in RFC 2119: a client that "
        "does not do what it must loses messages or its connection."),
    of_client(
        "1.1", "1 First minute", "1.1", client.reads_while_it_writes,
        "**A client must read while it writes**: the daemon stops reading from a client that does "
        "not read its answers, so a client that writes everything first and reads afterwards can "
        "block for ever."),
    of_client(
        "2.1", "2 Transport and endpoint", "1.1", client.checks_who_runs_the_daemon,
        "Before a client sends anything, it must ask the system who runs the other end, and must "
        "leave unless that is its own user, the system itself (root; on Windows LocalSystem or an "
        "administrator), or, at the endpoint in `service.toml`, the account given there."),
    not_observable(
        "2.2", "2 Transport and endpoint", CLIENT,
        "the arguments of a system call of Windows are not visible from another process",
        "must ask for the access rights 0x12019B and no others (`FILE_GENERIC_READ` and "
        "`FILE_GENERIC_WRITE` without `FILE_APPEND_DATA`, which for a pipe is the right to create "
        "instances): the pipe of a service refuses `GENERIC_WRITE`;"),
    of_client(
        "2.3", "2 Transport and endpoint", "1.1", client.leaves_the_socket,
        "A client must not remove a socket."),
    of_client(
        "2.4", "2 Transport and endpoint", "1.1", client.leaves_a_dead_socket,
        "A client must not remove a socket."),
    of_client(
        "3.1", "3 Frames", "1.0", client.keeps_to_the_frame_limit,
        "N must be at least 1 and at most `max_frame_bytes` of WELCOME (1 MiB unless configured).",
        needs="send"),
    of_client(
        "3.2", "3 Frames", "1.0", client.reads_frames_in_pieces,
        "A frame can arrive in any number of pieces, and several can arrive at once."),
    of_client(
        "4.1", "4 Envelopes", "1.0", client.sends_envelopes,
        "An envelope is an object with these members, in any order.", needs="send"),
    of_client(
        "4.2", "4 Envelopes", "1.0", client.ignores_unknown_members,
        "A receiver must ignore members that it does not know, at every level that this document "
        "describes: new ones can come at any time.", needs="send"),
    of_client(
        "4.3", "What the daemon does not change", "1.0", client.accepts_any_payload,
        "A recipient must therefore accept any JSON there, even a lone `\\ud800`; it should answer "
        "what it cannot use with NACK `INVALID`."),
    of_client(
        "6.1", "6 Handshake", "1.0", client.greets_first,
        "The first frame must be HELLO (or RESUME, section 12)."),
    of_client(
        "6.2", "6 Handshake", "1.0", client.greets_in_time,
        "It must come within `handshake_timeout_ms` of connecting, or the connection ends with "
        "`HANDSHAKE_TIMEOUT`."),
    of_client(
        "6.3", "6 Handshake", "1.1", client.repeats_hello_after_invalid,
        "A member of the wrong kind is ERROR `INVALID`; the client must then send HELLO again.",
        needs="send"),
    of_client(
        "7.1", "DELIVER", "1.0", client.answers_a_delivery,
        "| `requires_ack` | boolean, optional | the recipient must answer with ACK or NACK |"),
    of_client(
        "8.1", "At least once", "1.1", client.repeats_an_unanswered_message,
        "A sender whose connection ends before one of these must send the same again on a new "
        "connection, with the same id.",
        "*Sender:* if a connection ended before the ACK came, the sender must send the same SEND "
        "on the new one.", needs="send reconnect"),
    of_client(
        "8.2", "Acknowledging", "1.0", client.acknowledges_everything,
        "An ACK for an id that is unknown, already acknowledged or at most once is ignored: a "
        "client must acknowledge everything that has `delivery.requires_ack`, and may acknowledge "
        "the rest."),
    of_client(
        "8.3", "Duplicates", "1.1", client.drops_duplicates,
        "A client must remember the ids that it acknowledged, drop what it has seen, **and "
        "acknowledge it again**."),
    of_client(
        "8.4", "When the recipient is not connected", "1.1", client.drops_repeated_outcomes,
        "They end with the session and survive the daemon: after a crash one can come again with "
        "the same envelope `id`, so a client must drop an ACK or NACK whose `id` it has seen.",
        needs="send outcomes reconnect"),
    of_client(
        "8.5", "Questions", "1.1", client.answers_questions,
        "The recipient finds `sync` in the DELIVER's `payload_meta`, and answers with an ACK that "
        "has the same `correlationId`:", needs="answer"),
    of_client(
        "8.6", "Questions", "1.1", client.asks, "ACK `accepted` comes first.", needs="ask"),
    of_client(
        "9.1", "9 Backpressure", "1.1", client.repeats_the_same_after_busy,
        "The sender must send the same again, **with the same id**, after `retry_after_ms`, and "
        "must wait twice as long after each further BUSY, up to 30 s, give or take up to 15 % by "
        "chance.", needs="send"),
    of_client(
        "9.2", "9 Backpressure", "1.1", client.waits_after_busy,
        "The sender must send the same again, **with the same id**, after `retry_after_ms`, and "
        "must wait twice as long after each further BUSY, up to 30 s, give or take up to 15 % by "
        "chance.", needs="send"),
    of_client(
        "9.3", "9 Backpressure", "1.1", client.keeps_order_after_busy,
        "Messages are ordered by acceptance: a sender that needs order must send that recipient "
        "nothing more meanwhile.", needs="send"),
    of_client(
        "9.4", "Choosing `max_inflight`", "1.1", client.knows_as_many_ids_as_it_holds,
        "It must not exceed the number of ids by which the client recognizes duplicates "
        "(section 8): our library remembers 4,096."),
    of_client(
        "10.1", "10 Heartbeats", "1.0", client.answers_pings,
        "Any frame shows that the client is alive; a client with nothing else to send must send "
        "PONG with the PING's `nonce`."),
    of_client(
        "11.1", "11 Leaving", "1.1", client.waits_after_bye,
        "With `retry_after_ms`, which this daemon never sends, a client must not reconnect "
        "earlier.", needs="reconnect"),
    of_client(
        "12.1", "12 Resuming", "1.1", client.resumes_its_own_session,
        "Its `agent`, if present, must be the token's.", needs="reconnect resume"),
    of_client(
        "12.2", "12 Resuming", "1.1", client.begins_afresh_when_resume_is_rejected,
        "After HELLO, a fresh session begins; after RESUME, the client must send HELLO.",
        needs="reconnect resume"),
    of_client(
        "12.3", "12 Resuming", "1.1", client.says_hello_when_resume_is_unauthorized,
        "RESUME as the first frame without a token: NACK `UNAUTHORIZED`; the client must send "
        "HELLO.", needs="reconnect resume"),
    of_client(
        "12.4", "RESUME", "1.1", client.says_hello_when_resume_is_stale,
        "A session that was joined stays as it is; a connection that began with RESUME must send "
        "HELLO, and its token is still valid.", needs="reconnect resume"),
    of_client(
        "14.1", "14 Codes", "1.0", client.tolerates_unknown_codes,
        "Programs must go by the code, and must treat a code that they do not know by its type and "
        "by `fatal`.", needs="send"),
    not_observable(
        "15.1", "As the client sees it", CLIENT,
        "it binds wrappers of agents, which the kit does not drive",
        "| next cycle | 30000 | milliseconds | of a wrapper, which must survive the daemon: after "
        "a failed cycle, and after `NAME_IN_USE` on its way back |"),
    of_client(
        "15.2", "As the client sees it", "1.1", client.subscribes_again,
        "After WELCOME on a new connection a client must subscribe again, unless `session_id` is "
        "the one that it had; and must send, in their order and with their ids, its at-least-once "
        "SENDs that were not answered.", needs="subscribe reconnect"),
    of_client(
        "15.3", "As the client sees it", "1.1", client.repeats_messages_in_order,
        "After WELCOME on a new connection a client must subscribe again, unless `session_id` is "
        "the one that it had; and must send, in their order and with their ids, its at-least-once "
        "SENDs that were not answered.", needs="send reconnect"),
    of_client(
        "15.4", "As the client sees it", "1.1", client.stays_away_when_replaced,
        "the client's own BYE; any other fatal ERROR, which would only repeat, such as "
        "`SESSION_REPLACED`, `NAME_IN_USE`, `INVALID_NAME`, `UNAUTHORIZED`; or a cause of 5 when "
        "the attempts of a cycle are used up"),
    of_client(
        "17.1", "17 Security", "1.1", client.escapes_control_characters,
        "A client that shows bodies to a person must remove or escape characters that control the "
        "terminal; one that gives them to a model should say whose words they are.", needs="show"),
)

DAEMON_RULES: Tuple[Rule, ...] = daemon.rules(of_daemon, not_observable)

RULES = CLIENT_RULES + DAEMON_RULES
