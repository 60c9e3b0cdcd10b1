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

    Without `check` it cannot be observed from outside, and `why_not` is the reason. `needs` are
    what a client must be able to do (`--can`), or `start` for a daemon that the kit must start.
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
        "connection, with the same id.", needs="send reconnect"),
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
        "8.7", "Duplicates", "1.1", client.repeats_the_same_message,
        "*Sender:* if a connection ended before the ACK came, the sender must send the same SEND "
        "on the new one.", needs="send reconnect"),
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
        "15.4", "As the client sees it", "1.1", client.stays_away_after_a_fatal_error,
        "the client's own BYE; any other fatal ERROR, which would only repeat, such as "
        "`SESSION_REPLACED`, `NAME_IN_USE`, `INVALID_NAME`, `UNAUTHORIZED`; or a cause of 5 when "
        "the attempts of a cycle are used up"),
    of_client(
        "17.1", "17 Security", "1.1", client.escapes_control_characters,
        "A client that shows bodies to a person must remove or escape characters that control the "
        "terminal; one that gives them to a model should say whose words they are.", needs="show"),
)

DAEMON_RULES = (
    of_daemon(
        "0.2", TITLE, "1.0", daemon.serves_version_1_0,
        "Clients of version 1.0 are served unchanged: `v` is still 1, and what 1.1 added is "
        "optional."),
    of_daemon(
        "2.11", "2 Transport and endpoint", "1.1", daemon.socket_is_private,
        "The socket has mode 0600; the pipe's access list has only the owner's SID, and "
        "remote clients are refused."),
    of_daemon(
        "2.12", "2 Transport and endpoint", "1.1", daemon.other_user_is_refused,
        "Before it reads the first frame, the daemon also asks the system which user is at "
        "the other end, and answers any other user with a fatal ERROR `UNAUTHORIZED`.",
        needs="start"),
    of_daemon(
        "2.13", "2 Transport and endpoint", "1.1", daemon.endpoint_is_in_its_file,
        "The daemon writes its endpoint into the file `endpoint` in its home.",
        needs="start"),
    of_daemon(
        "2.14", "2 Transport and endpoint", "1.1", daemon.removed_socket_is_created_again,
        "A daemon whose socket was removed creates it again within five seconds; if another "
        "user has taken the path meanwhile, it listens at the endpoint in the last column of "
        "the table, and says so in the file `endpoint` and in `status`.",
        needs="start"),
    of_daemon(
        "3.11", "3 Frames", "1.0", daemon.frame_limit_holds,
        "N must be at least 1 and at most `max_frame_bytes` of WELCOME (1 MiB unless "
        "configured).",
        "A longer frame is refused as soon as its length is known: fatal ERROR "
        "`FRAME_TOO_LARGE`."),
    of_daemon(
        "3.12", "3 Frames", "1.0", daemon.frames_may_be_in_pieces,
        "A frame can arrive in any number of pieces, and several can arrive at once."),
    of_daemon(
        "3.13", "3 Frames", "1.0", daemon.white_space_is_allowed,
        "N bytes of UTF-8: one JSON object, with nothing but white space around it."),
    of_daemon(
        "4.11", "How a frame is checked", "1.1", daemon.empty_frame_is_bad,
        "| 1 | the length is at least 1 | fatal `BAD_FRAME` |"),
    of_daemon(
        "4.12", "How a frame is checked", "1.1", daemon.long_frame_is_too_large,
        "| 2 | the length is at most `max_frame_bytes` | fatal `FRAME_TOO_LARGE` |"),
    of_daemon(
        "4.13", "How a frame is checked", "1.1", daemon.frame_must_be_utf8,
        "| 3 | the bytes are UTF-8 | fatal `BAD_FRAME` |"),
    of_daemon(
        "4.14", "How a frame is checked", "1.1", daemon.frame_must_begin_with_an_object,
        "| 4 | the first character that is not white space is `{` | fatal `BAD_FRAME` |"),
    of_daemon(
        "4.15", "How a frame is checked", "1.1", daemon.nesting_is_limited,
        "| 5 | objects and arrays nest at most 128 deep, the envelope itself counting as 1 | "
        "`INVALID` |"),
    of_daemon(
        "4.16", "How a frame is checked", "1.1", daemon.frame_must_be_json,
        "| 6 | the whole is JSON, with nothing after the object | fatal `BAD_FRAME` |"),
    of_daemon(
        "4.17", "How a frame is checked", "1.1", daemon.v_must_be_a_number,
        "| 7 | `v` is there, once, and a number | `INVALID` |"),
    of_daemon(
        "4.18", "How a frame is checked", "1.1", daemon.v_must_be_1,
        "| 8 | `v` is 1 | fatal `UNSUPPORTED_VERSION` |"),
    of_daemon(
        "4.19", "How a frame is checked", "1.1", daemon.members_come_once_and_are_strings,
        "| 9 | no other member of the table is given twice; `type`, `id`, `from`, `to` and "
        "`topic` are strings | `INVALID` |"),
    of_daemon(
        "4.20", "How a frame is checked", "1.1", daemon.type_must_be_known,
        "| 10 | `type` is there and known | `INVALID` |"),
    of_daemon(
        "4.21", "How a frame is checked", "1.1", daemon.id_has_1_to_128_bytes,
        "| 11 | `id` is there and has 1 to 128 bytes | `INVALID` |"),
    of_daemon(
        "4.22", "How a frame is checked", "1.1", daemon.ts_must_be_a_number,
        "| 12 | `ts` is there and a number | `INVALID` |"),
    of_daemon(
        "4.23", "How a frame is checked", "1.1", daemon.payload_must_be_an_object,
        "| 13 | `payload` is there; `payload`, `payload_meta` and `delivery` are objects | "
        "`INVALID` |"),
    of_daemon(
        "4.24", "How a frame is checked", "1.1", daemon.handshake_comes_first,
        "| 14 | the first envelope of a connection is HELLO or RESUME | fatal "
        "`HANDSHAKE_REQUIRED`, also if rule 5, 7 or 9 to 13 is broken, too |"),
    of_daemon(
        "4.25", "How a frame is checked", "1.1", daemon.payload_must_fit_its_type,
        "| 15 | the payload fits its type | `INVALID` |"),
    of_daemon(
        "4.26", "How a frame is checked", "1.1", daemon.values_must_be_allowed,
        "| 16 | the values are allowed (names, topics, `payload_meta`, …) | NACK |"),
    of_daemon(
        "4.27", "How a frame is checked", "1.1", daemon.error_has_ref,
        "Its `ref` is the envelope's id if that could be read."),
    of_daemon(
        "4.28", "How a frame is checked", "1.1", daemon.null_is_no_omission,
        "`null` is not the same as omitting a member: it is of the wrong kind wherever the "
        "daemon checks one, also in `payload_meta` and in requests to `@relay`."),
    of_daemon(
        "4.29", "What the daemon does not change", "1.1", daemon.payload_is_not_changed,
        "`payload` and `payload_meta` of a SEND reach the recipient byte for byte, including "
        "spacing, escapes, order, large numbers and repeated keys."),
    of_daemon(
        "4.30", "How a frame is checked", "1.1", daemon.other_connections_continue,
        "After a *fatal* ERROR it closes the connection; other connections are not affected."),
    of_daemon(
        "4.31", "4 Envelopes", "1.1", daemon.ids_are_uuids,
        "The daemon's ids are UUIDv4."),
    of_daemon(
        "4.32", "4 Envelopes", "1.1", daemon.unknown_members_are_ignored,
        "A receiver must ignore members that it does not know, at every level that this "
        "document describes: new ones can come at any time."),
    of_daemon(
        "5.11", "5 Names", "1.1", daemon.names_are_checked,
        "An agent's name has 1 to 64 characters out of `A–Z a–z 0–9 . _ -`; the first and the"
        " last are a letter or a digit.",
        "A HELLO with any other name gets a fatal ERROR `INVALID_NAME`."),
    of_daemon(
        "5.12", "5 Names", "1.1", daemon.names_are_reserved,
        "Reserved in any case: `user`, `human`, `owner`, `operator`, `overseer`, `admin`, "
        "`administrator`, `root`, `system`, `assistant`, `relay`, `agent-relay`, `cli`, "
        "`all`, `everyone`."),
    of_daemon(
        "5.13", "5 Names", "1.1", daemon.case_does_not_distinguish_names,
        "Case is kept but does not distinguish names: `bob` reaches Bob, and while Bob is "
        "connected no client can be `BOB`."),
    of_daemon(
        "6.11", "6 Handshake", "1.1", daemon.handshake_has_a_time_limit,
        "It must come within `handshake_timeout_ms` of connecting, or the connection ends "
        "with `HANDSHAKE_TIMEOUT`."),
    of_daemon(
        "6.12", "6 Handshake", "1.1", daemon.second_hello_is_invalid,
        "A second HELLO on a connection is ERROR `INVALID`."),
    of_daemon(
        "6.13", "6 Handshake", "1.1", daemon.hello_may_be_repeated_after_invalid,
        "A member of the wrong kind is ERROR `INVALID`; the client must then send HELLO "
        "again."),
    of_daemon(
        "6.14", "6 Handshake", "1.1", daemon.welcome_is_complete,
        "| `session_id` | string | begins with `s-`; the same when the session is resumed |",
        "| `resume_token` | string | 64 hex digits, new in each WELCOME |",
        "| `capabilities` | object | what was granted |"),
    of_daemon(
        "6.15", "6 Handshake", "1.1", daemon.mail_follows_welcome,
        "Right after WELCOME come the messages that waited in the mailbox of that name."),
    of_daemon(
        "6.16", "6 Handshake", "1.1", daemon.connected_name_is_in_use,
        "If HELLO asks for a connected name, the daemon sends that connection a PING and "
        "waits 250 ms for it to prove closed; then the new client gets the name, or a fatal "
        "ERROR `NAME_IN_USE`."),
    of_daemon(
        "6.17", "6 Handshake", "1.1", daemon.ack_false_refuses_mail,
        "| `ack` | boolean | true | the client acknowledges. With `false`, at-least-once "
        "messages to it are refused: NACK `NO_ACK` to their sender |"),
    of_daemon(
        "6.18", "6 Handshake", "1.1", daemon.max_inflight_holds,
        "| `max_inflight` | whole number | 256 | at most so many at-least-once DELIVERs are "
        "in flight without an ACK; the rest wait. With 0, none is delivered over this "
        "connection |"),
    of_daemon(
        "6.19", "6 Handshake", "1.1", daemon.supports_topics_false_forbids_subscribe,
        "| `supports_topics` | boolean | true | with `false`, SUBSCRIBE gets NACK `FORBIDDEN`"
        " |"),
    of_daemon(
        "6.20", "6 Handshake", "1.1", daemon.unknown_mode_is_invalid,
        "| `mode` | string, optional | absent for an agent; `companion`, `guest`, `operator` or "
        "`bridge` (below); any other is ERROR `INVALID` |"),
    of_daemon(
        "6.21", "Modes", "1.1", daemon.companion_needs_the_key,
        "`agent` names the agent, and `companion_key` must be what that agent's HELLO stated;"
        " otherwise, or if the agent was never here: fatal ERROR `UNAUTHORIZED`."),
    of_daemon(
        "6.22", "Modes", "1.1", daemon.companion_speaks_for_its_agent,
        "Its SENDs belong to the agent's streams and dedup window, and have `sender.auth` "
        "`companion`."),
    of_daemon(
        "6.23", "Modes", "1.1", daemon.operator_needs_the_key,
        "It proves so with the 64 characters in `operator.key` in the daemon's home, which "
        "only the owner can read; with another key: fatal ERROR `UNAUTHORIZED`."),
    of_daemon(
        "6.24", "Modes", "1.1", daemon.guest_has_a_name_for_now,
        "Its granted capabilities are `ack` false, `max_inflight` 0 and `supports_topics` "
        "false: it gets no at-least-once messages and cannot subscribe."),
    of_daemon(
        "6.25", "Modes", "1.1", daemon.bridge_needs_the_key,
        "It states `NAME@HOST` as `agent`, and the operator's key: fatal ERROR `UNAUTHORIZED` "
        "otherwise."),
    of_daemon(
        "6.26", "Modes", "1.1", daemon.bridge_resumes_without_a_token,
        "HELLO resumes the name's session without a token; of an open connection only with the "
        "`companion_key` that this one stated.", needs="start"),
    of_daemon(
        "6.27", "Modes", "1.1", daemon.bridge_gets_no_broadcasts,
        "`supports_topics` is granted as false, and messages to `*` do not reach it.",
        needs="start"),
    of_daemon(
        "5.14", "5 Names", "1.1", daemon.name_of_another_machine_is_for_bridges,
        "Only a [bridge](#modes) joins under such a name."),
    of_daemon(
        "7.11", "SEND", "1.0", daemon.message_reaches_its_agent,
        "| a name | none | that agent, also the sender |",
        "| a name | a topic | that agent, whether it subscribed or not |"),
    of_daemon(
        "7.12", "SEND", "1.0", daemon.everyone_is_everyone_but_the_sender,
        "| `*` | none | every connected agent but the sender |",
        needs="start"),
    of_daemon(
        "7.13", "SEND", "1.0", daemon.topic_reaches_its_subscribers,
        "| `*`, or omitted | a topic | every connected subscriber of the topic but the sender"
        " |"),
    of_daemon(
        "7.14", "SEND", "1.1", daemon.recipient_must_be_there,
        "| omitted | none | none: NACK `INVALID` |",
        "| not a name (section 5) | | none: NACK `INVALID` |"),
    of_daemon(
        "7.15", "SEND", "1.1", daemon.sender_cannot_state_another_name,
        "`from` may be omitted; any other name than the sender's own gets NACK `FORBIDDEN`."),
    of_daemon(
        "7.16", "SEND", "1.1", daemon.topic_of_a_message_has_no_wildcards,
        "A topic must not have wildcards: NACK `INVALID`."),
    of_daemon(
        "7.17", "DELIVER", "1.1", daemon.delivery_is_complete,
        "Its `id` is the delivery's own, not the SEND's; an ACK names it.",
        "`to` is the recipient's name."),
    of_daemon(
        "7.18", "DELIVER", "1.1", daemon.delivery_is_set_by_the_daemon,
        "`payload` and `payload_meta` are the sender's; everything else is set by the daemon."),
    of_daemon(
        "7.19", "Streams and order", "1.0", daemon.streams_count_for_themselves,
        "`seq` counts from 1 in it, and is assigned when a message is accepted; a refused "
        "SEND uses no number."),
    of_daemon(
        "7.20", "Streams and order", "1.0", daemon.stream_is_in_order,
        "The DELIVERs of a stream are sent in the order of `seq`."),
    of_daemon(
        "7.21", "Broadcasts", "1.1", daemon.broadcast_counts_its_recipients,
        "With `requires_ack`, the ACK of a SEND to `*` or to a topic has in `recipients` how "
        "many agents get it; 0 is no error."),
    of_daemon(
        "7.22", "Broadcasts", "1.1", daemon.broadcast_names_who_cannot_get_it,
        "Recipients that cannot get it are not counted; for each of them there is a NACK "
        "whose `to` names it (`NO_ACK`, `TOO_LARGE`, `LIMIT`)."),
    of_daemon(
        "7.23", "Topics", "1.1", daemon.wildcard_for_the_rest_is_last,
        "In a subscription, two tokens are wildcards: `*` matches one token, and `>`, which "
        "must be last, one or more.",
        "A topic is one or more tokens with `.` between them, none of them empty, at most 256"
        " bytes in all: `build`, `build.linux`."),
    of_daemon(
        "7.24", "Topics", "1.1", daemon.patterns_match,
        "| `build` | `build` | `build.linux` |",
        "| `build.*` | `build.linux` | `build`, `build.linux.arm` |",
        "| `build.>` | `build.linux`, `build.linux.arm` | `build` |",
        "| `*.linux` | `build.linux` | `linux`, `a.build.linux` |",
        "| `>` | every topic | a message without a topic |",
        needs="start"),
    of_daemon(
        "7.25", "Topics", "1.1", daemon.several_patterns_match_once,
        "Subscribing twice, or leaving a pattern without a subscription, is no error.",
        "A message that matches several patterns comes once."),
    of_daemon(
        "7.26", "Topics", "1.1", daemon.session_has_256_patterns,
        "| `LIMIT` | a new pattern | | the session has 256 patterns. Leave one |"),
    of_daemon(
        "7.27", "Topics", "1.1", daemon.subscriptions_belong_to_the_session,
        "Subscriptions end with the session, and are in force again at once when it is "
        "resumed (section 12)."),
    of_daemon(
        "8.11", "At most once", "1.0", daemon.at_most_once_is_not_answered,
        "No answer means that the message was accepted; otherwise the sender gets NACK or "
        "BUSY."),
    of_daemon(
        "8.12", "At most once", "1.1", daemon.at_most_once_is_never_repeated,
        "The message counts as delivered once it is written to the recipient's connection; if"
        " that ends earlier, the sender gets NACK `AGENT_OFFLINE`.",
        "It is never sent a second time."),
    of_daemon(
        "8.13", "At least once", "1.1", daemon.acceptance_states_its_durability,
        "| `durability` | string | what an accepted message survives. `disk`: a power "
        "failure; it is synced before it is accepted. `process`: the end of the daemon, "
        "however it ends. The owner chooses in `config.toml`. Absent for a request to "
        "`@relay` |"),
    of_daemon(
        "8.14", "At least once", "1.1", daemon.mail_survives_the_daemon,
        "The daemon delivers it until the recipient acknowledges: across disconnects of "
        "either side and across its own end, even by a crash, until the time to live is over.",
        needs="start"),
    of_daemon(
        "8.15", "Acknowledging", "1.1", daemon.only_own_deliveries_are_acknowledged,
        "Only one's own deliveries can be acknowledged.",
        "An ACK for an id that is unknown, already acknowledged or at most once is ignored: a"
        " client must acknowledge everything that has `delivery.requires_ack`, and may "
        "acknowledge the rest."),
    of_daemon(
        "8.16", "Acknowledging", "1.1", daemon.cumulative_ack_covers_the_stream,
        "| `cumulative_seq` | whole number, optional | also acknowledges everything up to "
        "this number that was delivered in the same stream; ignored unless the delivery in "
        "`ack_id` awaits its ACK |"),
    of_daemon(
        "8.17", "Returning", "1.1", daemon.returned_message_comes_again,
        "With `retry_after_ms` the message comes again after that time."),
    of_daemon(
        "8.18", "Returning", "1.1", daemon.refusal_reaches_the_sender,
        "Without `retry_after_ms` the delivery is over: the sender gets NACK `REFUSED`."),
    of_daemon(
        "8.19", "Failures", "1.1", daemon.ten_failures_are_the_end,
        "A message that fails ten times is given up, so that a message that crashes its "
        "reader cannot do so for ever: the sender gets NACK `GAVE_UP`."),
    of_daemon(
        "8.20", "Failures", "1.1", daemon.redelivery_keeps_id_and_number,
        "A redelivered message has the same id and `seq`, and `delivery.attempt` of 2 or "
        "more."),
    of_daemon(
        "8.21", "Duplicates", "1.1", daemon.repeated_message_is_accepted_once,
        "The daemon recognizes a SEND with `requires_ack` by the sender's name, the id and "
        "the content (`to`, `topic`, and `payload` and `payload_meta` as bytes; not `ts`): it"
        " does not accept it again, but repeats its answer."),
    of_daemon(
        "8.22", "Duplicates", "1.1", daemon.other_content_is_another_message,
        "The same id with other content is another message."),
    of_daemon(
        "8.23", "Time to live", "1.1", daemon.message_expires,
        "When it is over, the sender gets NACK `EXPIRED`; of a broadcast, one for each "
        "recipient, named in `to`."),
    of_daemon(
        "8.24", "When the recipient is not connected", "1.1", daemon.unknown_agent_is_reported,
        "The name is unknown or was forgotten: NACK `UNKNOWN_AGENT`, whose message lists who "
        "is connected."),
    of_daemon(
        "8.25", "When the recipient is not connected", "1.1", daemon.away_agent_gets_mail_only,
        "The agent is away: an at-least-once message waits in its mailbox; an at-most-once "
        "one gets NACK `AGENT_OFFLINE`."),
    of_daemon(
        "8.26", "When the recipient is not connected", "1.1", daemon.delivery_fits_a_frame,
        "The DELIVER would be too large for a frame: NACK `TOO_LARGE`."),
    of_daemon(
        "8.27", "8 Delivery", "1.1", daemon.instructions_are_checked,
        "Members of the wrong kind get NACK `INVALID`; other members pass unchanged."),
    of_daemon(
        "8.28", "When the recipient is not connected", "1.1", daemon.outcome_waits_for_its_sender,
        "**If the sender is away**, these NACKs and the outcomes of its questions follow "
        "WELCOME when its session is resumed (section 12)."),
    of_daemon(
        "8.29", "Questions", "1.1", daemon.answer_reaches_the_asker,
        "The sender gets it as an ACK of its SEND.",
        "`from` says who answered; `responseData` arrives byte for byte (`null` is omitted):"),
    of_daemon(
        "8.30", "Questions", "1.1", daemon.question_has_a_time_limit,
        "Without an answer in time, counted from acceptance, the sender gets NACK "
        "`SYNC_TIMEOUT`."),
    of_daemon(
        "8.31", "Questions", "1.1", daemon.second_ack_may_answer,
        "The answer may be the ACK that acknowledges the delivery, or a second one after it.",
        "The first one counts; later ones are ignored."),
    of_daemon(
        "8.32", "Questions", "1.1", daemon.question_is_checked,
        "Other values get NACK `INVALID`, as does a question to `@relay` or `@operator`."),
    of_daemon(
        "8.33", "Questions", "1.1", daemon.refusal_ends_a_question,
        "If the delivery expires, is refused or given up, that NACK has the `correlationId`, "
        "and no `SYNC_TIMEOUT` follows."),
    of_daemon(
        "9.11", "9 Backpressure", "1.1", daemon.full_queue_is_busy,
        "A SEND that finds the queue, or its sender's half of it, full is **not accepted**:"),
    of_daemon(
        "9.12", "9 Backpressure", "1.1", daemon.one_sender_fills_half,
        "One sender may fill half of it."),
    of_daemon(
        "9.13", "9 Backpressure", "1.1", daemon.busy_broadcast_reaches_the_others,
        "After a BUSY with `busy`, the same SEND goes only to those names, and `accepted` "
        "comes when all have it."),
    of_daemon(
        "10.11", "10 Heartbeats", "1.0", daemon.silent_client_gets_ping,
        "After `heartbeat_ms` without a frame from a client the daemon sends PING."),
    of_daemon(
        "10.12", "10 Heartbeats", "1.1", daemon.dead_client_is_disconnected,
        "Without a frame within `2 * heartbeat_ms` more: fatal ERROR `HEARTBEAT_TIMEOUT`."),
    of_daemon(
        "10.13", "10 Heartbeats", "1.1", daemon.any_frame_shows_life,
        "Any frame shows that the client is alive; a client with nothing else to send must "
        "send PONG with the PING's `nonce`."),
    of_daemon(
        "11.11", "11 Leaving", "1.0", daemon.bye_ends_the_session,
        "BYE from a client ends its connection and its session; the daemon writes what it has"
        " handed out and closes."),
    of_daemon(
        "11.12", "11 Leaving", "1.1", daemon.daemon_leaves_with_bye,
        "BYE from the daemon ends the connection, not the session.",
        "`reason` is `stop`, or `upgrade` if another daemon follows at once.",
        needs="start"),
    of_daemon(
        "12.11", "12 Resuming", "1.1", daemon.token_resumes_the_session,
        "WELCOME has the same `session_id`, and unacknowledged messages follow at once."),
    of_daemon(
        "12.12", "12 Resuming", "1.1", daemon.token_takes_a_session_over,
        "HELLO with it resumes the session, even if its connection still exists: that one "
        "gets fatal `SESSION_REPLACED`."),
    of_daemon(
        "12.13", "12 Resuming", "1.1", daemon.used_token_is_rejected,
        "A token that was used, has expired, belongs to another name or was never issued: "
        "ERROR `RESUME_REJECTED`, not fatal.",
        "After HELLO, a fresh session begins; after RESUME, the client must send HELLO."),
    of_daemon(
        "12.14", "12 Resuming", "1.1", daemon.resume_may_come_first,
        "RESUME with it, as the first frame, does the same without HELLO, with the "
        "capabilities that were granted last."),
    of_daemon(
        "12.15", "12 Resuming", "1.1", daemon.resume_is_for_the_token_of_its_agent,
        "Its `agent`, if present, must be the token's.",
        "A token shown for another name is not used up."),
    of_daemon(
        "12.16", "12 Resuming", "1.1", daemon.resume_without_token_is_unauthorized,
        "RESUME as the first frame without a token: NACK `UNAUTHORIZED`; the client must send"
        " HELLO."),
    of_daemon(
        "12.17", "RESUME", "1.1", daemon.resume_replays_streams,
        "RESUME says up to which number the client has received its streams, and rewinds "
        "them: later messages come again, in order, with their ids.",
        "SYNC answers it, and the messages follow:"),
    of_daemon(
        "12.18", "RESUME", "1.0", daemon.resume_names_topics_as_in_1_0,
        "It names streams by topic as in 1.0, where each entry means every sender on that "
        "topic and `\"\"` is no topic, or as a list:"),
    of_daemon(
        "12.19", "RESUME", "1.1", daemon.gap_is_stale,
        "If a message after `last_seq` was delivered, or given up with an earlier session, "
        "and is no longer available: NACK `STALE`.",
        "A session that was joined stays as it is; a connection that began with RESUME must "
        "send HELLO, and its token is still valid."),
    of_daemon(
        "13.11", "13 Requests to the daemon", "1.1", daemon.requests_are_answered,
        "It answers with a DELIVER of kind `response` whose `payload_meta.replyTo` is the "
        "SEND's id and whose `payload.data` is the result."),
    of_daemon(
        "14.11", "14 Codes", "1.1", daemon.codes_have_a_message,
        "Every ERROR and NACK has a sentence for a person beside its code."),
    of_daemon(
        "14.12", "ERROR, not fatal", "1.1", daemon.only_the_daemon_sends_some_types,
        "| `INVALID` | an envelope breaks a rule of section 4; a payload does not fit its "
        "type; a HELLO without `agent`, or with an unknown `mode`; a second HELLO; a type "
        "that only the daemon sends | fix the client; the envelope in `ref` had no effect |"),
    of_daemon(
        "14.13", "NACK", "1.1", daemon.requests_are_checked,
        "| `INVALID` | a SEND without recipient, or to what is no name; a topic, a pattern or"
        " `payload_meta` that is not allowed; a question to `@relay`, a request that is "
        "unknown or not possible | fix it |"),
)

RULES = CLIENT_RULES + DAEMON_RULES
