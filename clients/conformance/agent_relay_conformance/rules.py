"""The rules of docs/PROTOCOL.md: whom each binds, and how the kit checks it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, FrozenSet, Optional

from . import client_checks as client
from . import daemon_checks as daemon

CLIENT, DAEMON = "client", "daemon"
#: The sections of docs/PROTOCOL.md, as its anchors name them.
SECTIONS = (
    "1-first-minute 2-transport-and-endpoint 3-frames 4-envelopes 5-names 6-handshake "
    "7-sending-and-receiving 8-delivery 9-backpressure 10-heartbeats 11-leaving 12-resuming "
    "13-requests-to-the-daemon 14-codes 15-life-cycle-of-a-client 16-limits 17-security 18-channels").split()


@dataclass(frozen=True)
class Rule:
    """A rule of a section of docs/PROTOCOL.md.

    The id is the number of the section and a few words, such as `6-second-hello`. Without `check`
    the rule cannot be observed from outside, and `why_not` is the reason. `needs` are what a client
    must be able to do (`--can`), or `start` for a daemon that the kit must start.
    """

    id: str
    binds: str
    since: str
    text: str
    check: Optional[Callable[[Any], None]]
    needs: FrozenSet[str] = frozenset()
    why_not: str = ""

    @property
    def section(self) -> str:
        return self.id.partition("-")[0]

    @property
    def reference(self) -> str:
        return f"docs/PROTOCOL.md#{SECTIONS[int(self.section) - 1]}"


def of_client(
    id: str, since: str, check: Callable[[Any], None], text: str, needs: str = "",
) -> Rule:
    return Rule(id, CLIENT, since, text, check, frozenset(needs.split()))


def of_daemon(
    id: str, since: str, check: Callable[[Any], None], text: str, needs: str = "",
) -> Rule:
    return Rule(id, DAEMON, since, text, check, frozenset(needs.split()))


def not_observable(id: str, binds: str, why: str, text: str) -> Rule:
    return Rule(id, binds, "1.1", text, None, frozenset(), why)


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

CLIENT_RULES = (
    of_client(
        "1-read-while-writing", "1.1", client.reads_while_it_writes,
        "A client reads while it writes."),
    of_client(
        "2-peer-user", "1.1", client.checks_who_runs_the_daemon,
        "A client sends nothing before it knows that its own user or the system runs the daemon."),
    not_observable(
        "2-pipe-rights", CLIENT,
        "the arguments of a system call of Windows are not visible from another process",
        "A client opens a pipe with the access rights 0x12019B and no others."),
    of_client(
        "2-leave-socket", "1.1", client.leaves_the_socket,
        "A client that leaves does not remove the socket."),
    of_client(
        "2-dead-socket", "1.1", client.leaves_a_dead_socket,
        "A client does not remove a socket at which nothing listens."),
    of_client(
        "3-max-frame", "1.0", client.keeps_to_the_frame_limit,
        "A client sends no frame longer than `max_frame_bytes` of WELCOME.", needs="send"),
    of_client(
        "3-pieces", "1.0", client.reads_frames_in_pieces,
        "A client reads frames that come in any number of pieces, or several at once."),
    of_client(
        "4-envelope", "1.0", client.sends_envelopes,
        "A client sends envelopes that the daemon accepts.", needs="send"),
    of_client(
        "4-unknown-members", "1.1", client.ignores_unknown_members,
        "A client ignores members that it does not know, at every level.", needs="send"),
    of_client(
        "4-any-payload", "1.1", client.accepts_any_payload,
        "A client accepts any JSON object as the payload of a message."),
    of_client(
        "6-hello-first", "1.0", client.greets_first,
        "A client's first frame is HELLO or RESUME."),
    of_client(
        "6-hello-in-time", "1.1", client.greets_in_time,
        "HELLO comes within `handshake_timeout_ms` of connecting."),
    of_client(
        "6-hello-again", "1.1", client.repeats_hello_after_invalid,
        "After ERROR `INVALID` about its HELLO, a client sends HELLO again or leaves.",
        needs="send"),
    of_client(
        "7-answer-delivery", "1.0", client.answers_a_delivery,
        "A client answers a DELIVER with `requires_ack` by ACK or NACK."),
    of_client(
        "8-repeat-unanswered", "1.1", client.repeats_an_unanswered_message,
        "A client sends a message that was not answered again on its next connection, with its id.",
        needs="send reconnect"),
    of_client(
        "8-acknowledge-all", "1.0", client.acknowledges_everything,
        "A client acknowledges everything that has `delivery.requires_ack`."),
    of_client(
        "8-no-more-than-came", "1.1", client.acknowledges_no_more_than_came,
        "A client states no `cumulative_seq` beyond what it has received in the stream."),
    of_client(
        "8-drop-duplicates", "1.1", client.drops_duplicates,
        "A client drops a message that it has seen, and acknowledges it again."),
    of_client(
        "8-drop-outcomes", "1.1", client.drops_repeated_outcomes,
        "A client drops an ACK or NACK whose `id` it has seen.", needs="send outcomes reconnect"),
    of_client(
        "8-answer-question", "1.1", client.answers_questions,
        "A client answers a question by an ACK with the question's `correlationId`.",
        needs="answer"),
    of_client(
        "8-ask", "1.1", client.asks,
        "A client does not take the ACK `accepted` of its question for the answer.", needs="ask"),
    of_client(
        "8-same-content", "1.1", client.repeats_the_same_message,
        "A client sends a message again with the same bytes in its content.",
        needs="send reconnect"),
    of_client(
        "9-same-after-busy", "1.1", client.repeats_the_same_after_busy,
        "After BUSY, a client sends the same again, with the same id.", needs="send"),
    of_client(
        "9-wait-after-busy", "1.1", client.waits_after_busy,
        "A client waits for `retry_after_ms` after BUSY, and twice as long after each further one.",
        needs="send"),
    of_client(
        "9-order-after-busy", "1.1", client.keeps_order_after_busy,
        "While a message waits after BUSY, a client sends its recipient nothing more.",
        needs="send"),
    of_client(
        "9-remembered-ids", "1.1", client.knows_as_many_ids_as_it_holds,
        "A client remembers as many ids as its `max_inflight` allows in flight."),
    of_client(
        "10-nonce", "1.0", client.answers_pings,
        "A client answers PING by PONG with the PING's `nonce`."),
    of_client(
        "11-wait-after-bye", "1.1", client.waits_after_bye,
        "After BYE with `retry_after_ms`, a client does not connect earlier.", needs="reconnect"),
    of_client(
        "12-last-token", "1.1", client.resumes_its_own_session,
        "A client that connects again shows its last token, under the same name.",
        needs="reconnect resume"),
    of_client(
        "12-last-seq", "1.1", client.resumes_after_what_came,
        "RESUME has in `last_seq` the last number that the client has received in the stream.",
        needs="reconnect resume"),
    of_client(
        "12-rejected", "1.1", client.begins_afresh_when_resume_is_rejected,
        "After `RESUME_REJECTED`, a client goes on with a fresh session.",
        needs="reconnect resume"),
    of_client(
        "12-unauthorized", "1.1", client.says_hello_when_resume_is_unauthorized,
        "After RESUME and NACK `UNAUTHORIZED`, a client sends HELLO.", needs="reconnect resume"),
    of_client(
        "12-stale", "1.1", client.says_hello_when_resume_is_stale,
        "After RESUME and NACK `STALE`, a client sends HELLO.", needs="reconnect resume"),
    of_client(
        "14-unknown-code", "1.1", client.tolerates_unknown_codes,
        "A client treats a code that it does not know by its type and by `fatal`.", needs="send"),
    not_observable(
        "15-wrapper-cycle", CLIENT, "it binds wrappers of agents, which the kit does not drive",
        "A wrapper goes on with another cycle of attempts after one that failed."),
    of_client(
        "15-subscribe-again", "1.1", client.subscribes_again,
        "A client subscribes again when its next session is a fresh one.",
        needs="subscribe reconnect"),
    of_client(
        "15-repeat-in-order", "1.1", client.repeats_messages_in_order,
        "A client sends messages that were not answered again in their order.",
        needs="send reconnect"),
    of_client(
        "15-fatal-error", "1.1", client.stays_away_after_a_fatal_error,
        "A client does not connect again after a fatal ERROR, unless its code is a temporary one."),
    of_client(
        "17-control-characters", "1.1", client.escapes_control_characters,
        "A client that shows bodies to a person removes or escapes control characters.",
        needs="show"),
)

DAEMON_RULES = (
    of_daemon(
        "1-version-1.0", "1.0", daemon.serves_version_1_0,
        "A client that knows version 1.0 alone is served."),
    of_daemon(
        "2-socket-mode", "1.1", daemon.socket_is_private, "The socket has mode 0600."),
    of_daemon(
        "2-other-user", "1.1", daemon.other_user_is_refused,
        "A process of another user gets a fatal ERROR `UNAUTHORIZED`.", needs="start"),
    of_daemon(
        "2-endpoint-file", "1.1", daemon.endpoint_is_in_its_file,
        "The file `endpoint` in the home has the endpoint.", needs="start"),
    of_daemon(
        "2-removed-socket", "1.1", daemon.removed_socket_is_created_again,
        "A socket that was removed is created again within five seconds.", needs="start"),
    of_daemon(
        "3-frame-limit", "1.0", daemon.frame_limit_holds,
        "A frame may have `max_frame_bytes`; the length of a longer one ends the connection."),
    of_daemon(
        "3-frame-in-pieces", "1.0", daemon.frames_may_be_in_pieces,
        "A frame may come in any number of pieces, and several may come at once."),
    of_daemon(
        "3-white-space", "1.0", daemon.white_space_is_allowed,
        "White space is allowed around the JSON object of a frame."),
    of_daemon(
        "4-empty-frame", "1.1", daemon.empty_frame_is_bad,
        "An empty frame gets a fatal `BAD_FRAME`."),
    of_daemon(
        "4-long-frame", "1.1", daemon.long_frame_is_too_large,
        "A frame over `max_frame_bytes` gets a fatal `FRAME_TOO_LARGE`."),
    of_daemon(
        "4-utf8", "1.1", daemon.frame_must_be_utf8,
        "A frame that is not UTF-8 gets a fatal `BAD_FRAME`."),
    of_daemon(
        "4-object", "1.1", daemon.frame_must_begin_with_an_object,
        "A frame that does not begin with `{` gets a fatal `BAD_FRAME`."),
    of_daemon(
        "4-nesting", "1.1", daemon.nesting_is_limited,
        "Objects and arrays that nest more than 128 deep get `INVALID`."),
    of_daemon(
        "4-json", "1.1", daemon.frame_must_be_json,
        "A frame that is not JSON, or more than one object, gets a fatal `BAD_FRAME`."),
    of_daemon(
        "4-v-number", "1.1", daemon.v_must_be_a_number,
        "An envelope whose `v` is missing, given twice or no number gets `INVALID`."),
    of_daemon(
        "4-v-1", "1.1", daemon.v_must_be_1,
        "An envelope whose `v` is not 1 gets a fatal `UNSUPPORTED_VERSION`."),
    of_daemon(
        "4-members", "1.1", daemon.members_come_once_and_are_strings,
        "A member of an envelope that is given twice, or is no string where it must be one, gets "
        "`INVALID`."),
    of_daemon(
        "4-type", "1.1", daemon.type_must_be_known,
        "An envelope whose `type` is missing or unknown gets `INVALID`."),
    of_daemon(
        "4-id", "1.1", daemon.id_has_1_to_128_bytes,
        "An envelope whose `id` is missing or has not 1 to 128 bytes gets `INVALID`."),
    of_daemon(
        "4-ts", "1.1", daemon.ts_must_be_a_number,
        "An envelope whose `ts` is missing or no number gets `INVALID`."),
    of_daemon(
        "4-payload", "1.1", daemon.payload_must_be_an_object,
        "An envelope without `payload`, or with a `payload`, `payload_meta` or `delivery` that is "
        "no object, gets `INVALID`."),
    of_daemon(
        "4-handshake-first", "1.1", daemon.handshake_comes_first,
        "A first envelope that is neither HELLO nor RESUME gets a fatal `HANDSHAKE_REQUIRED`."),
    of_daemon(
        "4-payload-kind", "1.1", daemon.payload_must_fit_its_type,
        "A payload that does not fit its type gets `INVALID`."),
    of_daemon(
        "4-values", "1.1", daemon.values_must_be_allowed,
        "A name, a topic or a member of `payload_meta` that is not allowed gets NACK."),
    of_daemon(
        "4-ref", "1.1", daemon.error_has_ref,
        "The `ref` of an ERROR is the envelope's id if that could be read."),
    of_daemon(
        "4-null", "1.1", daemon.null_is_no_omission,
        "A member that is `null` is of the wrong kind, and not omitted."),
    of_daemon(
        "4-unchanged", "1.1", daemon.payload_is_not_changed,
        "`payload` and `payload_meta` of a SEND reach the recipient byte for byte."),
    of_daemon(
        "4-other-connections", "1.1", daemon.other_connections_continue,
        "A fatal ERROR on one connection does not affect the others."),
    of_daemon(
        "4-uuid", "1.1", daemon.ids_are_uuids, "The daemon's ids are UUIDv4."),
    of_daemon(
        "4-ignored-members", "1.1", daemon.unknown_members_are_ignored,
        "Members that the daemon does not know are ignored, at every level."),
    of_daemon(
        "5-name", "1.1", daemon.names_are_checked,
        "A HELLO with a name that is not allowed gets a fatal ERROR `INVALID_NAME`."),
    of_daemon(
        "5-reserved", "1.1", daemon.names_are_reserved,
        "A HELLO with a reserved name, in any case, gets a fatal ERROR `INVALID_NAME`."),
    of_daemon(
        "5-case", "1.1", daemon.case_does_not_distinguish_names,
        "Case does not distinguish names."),
    of_daemon(
        "5-other-machine", "1.1", daemon.name_of_another_machine_is_for_bridges,
        "Only a bridge joins under the name of an agent of another machine."),
    of_daemon(
        "6-handshake-time", "1.1", daemon.handshake_has_a_time_limit,
        "Without HELLO in `handshake_timeout_ms`, a connection ends with `HANDSHAKE_TIMEOUT`."),
    of_daemon(
        "6-second-hello", "1.1", daemon.second_hello_is_invalid,
        "A second HELLO on a connection gets ERROR `INVALID`."),
    of_daemon(
        "6-repeated-hello", "1.1", daemon.hello_may_be_repeated_after_invalid,
        "A HELLO with a member of the wrong kind gets ERROR `INVALID`, and another may follow."),
    of_daemon(
        "6-welcome", "1.1", daemon.welcome_is_complete,
        "WELCOME has the session, a new token, the name, what was granted and what the server is."),
    of_daemon(
        "6-mail", "1.1", daemon.mail_follows_welcome,
        "Messages that waited in the mailbox come right after WELCOME."),
    of_daemon(
        "6-name-in-use", "1.1", daemon.connected_name_is_in_use,
        "A HELLO for a connected name gets that name once the older connection has left, and "
        "otherwise a fatal ERROR `NAME_IN_USE`."),
    of_daemon(
        "6-no-ack", "1.1", daemon.ack_false_refuses_mail,
        "At-least-once messages to a client with `ack` false get NACK `NO_ACK`."),
    of_daemon(
        "6-max-inflight", "1.1", daemon.max_inflight_holds,
        "At most `max_inflight` at-least-once DELIVERs are in flight without an ACK."),
    of_daemon(
        "6-no-topics", "1.1", daemon.supports_topics_false_forbids_subscribe,
        "SUBSCRIBE of a client with `supports_topics` false gets NACK `FORBIDDEN`."),
    of_daemon(
        "6-unknown-mode", "1.1", daemon.unknown_mode_is_invalid,
        "A HELLO with an unknown `mode` gets ERROR `INVALID`."),
    of_daemon(
        "6-companion-key", "1.1", daemon.companion_needs_the_key,
        "A companion that does not state the key of its agent gets a fatal ERROR `UNAUTHORIZED`."),
    of_daemon(
        "6-companion", "1.1", daemon.companion_speaks_for_its_agent,
        "A companion's messages belong to its agent's streams, with `sender.auth` `companion`."),
    of_daemon(
        "6-operator-key", "1.1", daemon.operator_needs_the_key,
        "An operator with another key than that in `operator.key` gets a fatal `UNAUTHORIZED`."),
    of_daemon(
        "6-guest", "1.1", daemon.guest_has_a_name_for_now,
        "A guest gets a name for now, no at-least-once messages, and no topics."),
    of_daemon(
        "6-guest-key", "1.1", daemon.guest_that_returns_is_the_same,
        "A guest that connects again with its `guest_key` is the same, and its repeated SEND one."),
    of_daemon(
        "6-bridge-key", "1.1", daemon.bridge_needs_the_key,
        "A bridge without the operator's key gets a fatal ERROR `UNAUTHORIZED`."),
    of_daemon(
        "6-bridge-session", "1.1", daemon.bridge_resumes_without_a_token,
        "A bridge resumes its session without a token, that of an open connection by its key only.",
        needs="start"),
    of_daemon(
        "6-bridge-broadcast", "1.1", daemon.bridge_gets_no_broadcasts,
        "A bridge gets no messages to `*`, and no topics.", needs="start"),
    of_daemon(
        "7-to-agent", "1.0", daemon.message_reaches_its_agent,
        "A message to a name reaches that agent, also the sender, whether it subscribed or not."),
    of_daemon(
        "7-to-everyone", "1.0", daemon.everyone_is_everyone_but_the_sender,
        "A message to `*` reaches every connected agent but the sender.", needs="start"),
    of_daemon(
        "7-to-topic", "1.0", daemon.topic_reaches_its_subscribers,
        "A message to `*` on a topic reaches every connected subscriber but the sender."),
    of_daemon(
        "7-no-recipient", "1.1", daemon.recipient_must_be_there,
        "A SEND without recipient, or to what is no name, gets NACK `INVALID`."),
    of_daemon(
        "7-own-name", "1.1", daemon.sender_cannot_state_another_name,
        "A SEND whose `from` is another name than the sender's gets NACK `FORBIDDEN`."),
    of_daemon(
        "7-plain-topic", "1.1", daemon.topic_of_a_message_has_no_wildcards,
        "A SEND whose topic has wildcards gets NACK `INVALID`."),
    of_daemon(
        "7-deliver", "1.1", daemon.delivery_is_complete,
        "A DELIVER has an id of its own, the names, and what the daemon says about it."),
    of_daemon(
        "7-set-by-daemon", "1.1", daemon.delivery_is_set_by_the_daemon,
        "A sender cannot set `delivery` of what another agent receives."),
    of_daemon(
        "7-stream-number", "1.1", daemon.streams_count_for_themselves,
        "`seq` counts from 1 in each stream, and a refused SEND uses no number."),
    of_daemon(
        "7-stream-order", "1.0", daemon.stream_is_in_order,
        "The DELIVERs of a stream come in the order of `seq`."),
    of_daemon(
        "7-recipients", "1.1", daemon.broadcast_counts_its_recipients,
        "The ACK of a broadcast has in `recipients` how many agents get it."),
    of_daemon(
        "7-not-reached", "1.1", daemon.broadcast_names_who_cannot_get_it,
        "Each recipient that cannot get a broadcast is named by a NACK, and not counted."),
    of_daemon(
        "7-rest-is-last", "1.1", daemon.wildcard_for_the_rest_is_last,
        "A pattern has `>` only at its end, no empty token, and at most 256 bytes."),
    of_daemon(
        "7-matches", "1.1", daemon.patterns_match,
        "`*` in a pattern matches one token, and `>` one or more.", needs="start"),
    of_daemon(
        "7-matches-once", "1.1", daemon.several_patterns_match_once,
        "A message that matches several patterns comes once."),
    of_daemon(
        "7-256-patterns", "1.1", daemon.session_has_256_patterns,
        "The 257th pattern of a session gets NACK `LIMIT`."),
    of_daemon(
        "7-session-patterns", "1.1", daemon.subscriptions_belong_to_the_session,
        "Subscriptions end with the session, and are in force again when it is resumed."),
    of_daemon(
        "8-at-most-once", "1.1", daemon.at_most_once_is_not_answered,
        "An at-most-once message that is accepted gets no answer."),
    of_daemon(
        "8-never-again", "1.1", daemon.at_most_once_is_never_repeated,
        "An at-most-once message is never sent a second time."),
    of_daemon(
        "8-durability", "1.1", daemon.acceptance_states_its_durability,
        "The ACK `accepted` has the `durability` of the message."),
    of_daemon(
        "8-crash", "1.1", daemon.mail_survives_the_daemon,
        "An accepted message and its dedup window survive a crash of the daemon.", needs="start"),
    of_daemon(
        "8-own-deliveries", "1.1", daemon.only_own_deliveries_are_acknowledged,
        "Only one's own deliveries can be acknowledged, and other ACKs are ignored."),
    of_daemon(
        "8-cumulative-ack", "1.1", daemon.cumulative_ack_covers_the_stream,
        "`cumulative_seq` also acknowledges what was delivered in the same stream before."),
    of_daemon(
        "8-cumulative-future", "1.1", daemon.cumulative_ack_covers_what_came,
        "`cumulative_seq` acknowledges nothing that was not delivered."),
    of_daemon(
        "8-return-order", "1.1", daemon.later_messages_wait_for_a_returned_one,
        "Later messages of the stream wait for one that is returned with `retry_after_ms`."),
    of_daemon(
        "8-return", "1.1", daemon.returned_message_comes_again,
        "A message that is returned with `retry_after_ms` comes again after that time."),
    of_daemon(
        "8-refused", "1.1", daemon.refusal_reaches_the_sender,
        "A message that is returned without `retry_after_ms` gets its sender NACK `REFUSED`."),
    of_daemon(
        "8-ten-failures", "1.1", daemon.ten_failures_are_the_end,
        "A message that fails ten times is given up: its sender gets NACK `GAVE_UP`."),
    of_daemon(
        "8-redelivery", "1.1", daemon.redelivery_keeps_id_and_number,
        "A redelivered message has the same id and `seq`, and `delivery.attempt`."),
    of_daemon(
        "8-accepted-once", "1.1", daemon.repeated_message_is_accepted_once,
        "A SEND that comes again is not accepted again, and gets its answer again."),
    of_daemon(
        "8-other-content", "1.1", daemon.other_content_is_another_message,
        "The same id with other content is another message."),
    of_daemon(
        "8-expired", "1.1", daemon.message_expires,
        "When a message's time to live is over, its sender gets NACK `EXPIRED`."),
    of_daemon(
        "8-expired-broadcast", "1.1", daemon.broadcast_expires_for_each_recipient,
        "When a broadcast's time to live is over, its sender gets NACK `EXPIRED` for each "
        "recipient."),
    of_daemon(
        "8-unknown-agent", "1.1", daemon.unknown_agent_is_reported,
        "A message to an unknown name gets NACK `UNKNOWN_AGENT`, which lists who is connected."),
    of_daemon(
        "8-away", "1.1", daemon.away_agent_gets_mail_only,
        "For an agent that is away, at-least-once messages wait, and others get `AGENT_OFFLINE`."),
    of_daemon(
        "8-too-large", "1.1", daemon.delivery_fits_a_frame,
        "A message whose DELIVER would be too large for a frame gets NACK `TOO_LARGE`."),
    of_daemon(
        "8-instructions", "1.1", daemon.instructions_are_checked,
        "Members of `payload_meta` of the wrong kind get NACK `INVALID`; unknown ones pass."),
    of_daemon(
        "8-late-outcome", "1.1", daemon.outcome_waits_for_its_sender,
        "The outcome for a sender that is away follows WELCOME when its session is resumed."),
    of_daemon(
        "8-answer", "1.1", daemon.answer_reaches_the_asker,
        "An answer reaches the asker as an ACK of its SEND, `responseData` byte for byte."),
    of_daemon(
        "8-question-time", "1.1", daemon.question_has_a_time_limit,
        "A question without an answer in time gets NACK `SYNC_TIMEOUT`."),
    of_daemon(
        "8-first-answer", "1.1", daemon.second_ack_may_answer,
        "The second ACK of a question may answer it; of several answers the first one counts."),
    of_daemon(
        "8-question", "1.1", daemon.question_is_checked,
        "A question with other values than allowed, or to the daemon, gets NACK `INVALID`."),
    of_daemon(
        "8-refused-question", "1.1", daemon.refusal_ends_a_question,
        "The NACK about a question that is refused has its `correlationId`, and is its end."),
    of_daemon(
        "9-full-queue", "1.1", daemon.full_queue_is_busy,
        "A SEND that finds the queue full gets BUSY, and is not accepted."),
    of_daemon(
        "9-half-queue", "1.1", daemon.one_sender_fills_half,
        "One sender may fill half of what others leave of seven eighths of a queue."),
    of_daemon(
        "9-busy-broadcast", "1.1", daemon.busy_broadcast_reaches_the_others,
        "A broadcast that comes again after BUSY goes only to those that BUSY named."),
    of_daemon(
        "10-ping", "1.0", daemon.silent_client_gets_ping,
        "A client gets PING after `heartbeat_ms` without a frame from it."),
    of_daemon(
        "10-timeout", "1.1", daemon.dead_client_is_disconnected,
        "A client without a frame for twice as long again gets a fatal `HEARTBEAT_TIMEOUT`."),
    of_daemon(
        "10-any-frame", "1.1", daemon.any_frame_shows_life,
        "Any frame shows that a client is alive."),
    of_daemon(
        "11-bye", "1.0", daemon.bye_ends_the_connection, "BYE from a client ends its connection."),
    of_daemon(
        "11-session", "1.1", daemon.bye_ends_the_session,
        "BYE from a client ends its session, after what was handed out is written."),
    of_daemon(
        "11-stop", "1.1", daemon.daemon_leaves_with_bye,
        "BYE from the daemon has a `reason`, and ends the connection but not the session.",
        needs="start"),
    of_daemon(
        "12-resume", "1.1", daemon.token_resumes_the_session,
        "A session that is resumed has the same id, and unacknowledged messages follow at once."),
    of_daemon(
        "12-replaced", "1.1", daemon.token_takes_a_session_over,
        "A connection whose session is resumed by another gets a fatal `SESSION_REPLACED`."),
    of_daemon(
        "12-used-token", "1.1", daemon.used_token_is_rejected,
        "A token that was used or never issued gets ERROR `RESUME_REJECTED`, which is not fatal."),
    of_daemon(
        "12-lost-welcome", "1.1", daemon.token_holds_until_its_end_is_proved,
        "A token that was shown holds until the client has answered the PING after WELCOME."),
    of_daemon(
        "12-resume-first", "1.1", daemon.resume_may_come_first,
        "RESUME as the first frame resumes a session with what was granted last."),
    of_daemon(
        "12-other-agent", "1.1", daemon.resume_is_for_the_token_of_its_agent,
        "A token that is shown for another name is rejected, and not used up."),
    of_daemon(
        "12-no-token", "1.1", daemon.resume_without_token_is_unauthorized,
        "RESUME as the first frame without a token gets NACK `UNAUTHORIZED`."),
    of_daemon(
        "12-replay", "1.1", daemon.resume_replays_streams,
        "After RESUME and SYNC, the messages after `last_seq` come again, in order, with their "
        "ids."),
    of_daemon(
        "12-topics-of-1.0", "1.0", daemon.resume_names_topics_as_in_1_0,
        "RESUME may name streams by topic, as in version 1.0."),
    of_daemon(
        "12-gap", "1.1", daemon.gap_is_stale,
        "RESUME for messages that are no longer available gets NACK `STALE`, and ends nothing."),
    of_daemon(
        "13-request", "1.1", daemon.requests_are_answered,
        "A request to `@relay` is answered by a DELIVER with `replyTo` and the result."),
    of_daemon(
        "14-message", "1.1", daemon.codes_have_a_message,
        "Every ERROR and NACK has a sentence for a person."),
    of_daemon(
        "14-only-daemon", "1.1", daemon.only_the_daemon_sends_some_types,
        "A client that sends a type of the daemon gets ERROR `INVALID`."),
    of_daemon(
        "14-bad-request", "1.1", daemon.requests_are_checked,
        "An unknown request gets NACK `INVALID`, and one for operators `FORBIDDEN`."),
)

RULES = CLIENT_RULES + DAEMON_RULES
