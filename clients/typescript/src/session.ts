/** A client's session: joins, stays joined, and carries out what the program asks for. */
import { randomUUID } from "node:crypto";
import { Calls } from "./calls.js";
import { findEndpoint } from "./endpoint.js";
import { EndedError, RefusedError, RelayError, TimeoutError } from "./errors.js";
import { Inbox, WINDOW, trim } from "./inbox.js";
import { Link } from "./link.js";
import { Message, type Outcomes } from "./message.js";
import { Outbox, type Receipt, type Send } from "./outbox.js";
import type { Answer, Events, Options, Outgoing, State } from "./index.js";
import { WAIT_MS_MAX, backOffMs } from "./timers.js";
import { Unread } from "./unread.js";
import { type Members, encode, members, number, text } from "./wire.js";

export type Emit = <Name extends keyof Events>(name: Name, event: Events[Name][0]) => void;
type Sync = { correlationId: string; timeoutMs: number };

const ANSWERS_MAX = 256;
const REQUESTS_MAX = 4096;
const FRAME_BYTES_BOUND = 80 * 1024 * 1024; // More than a daemon can allow.
const DAY_MS = 86_400_000;
const FIRST_WAIT_MS = 100;
const STEADY_MS = 10_000;
const ANSWER_MS = 10_000;
const GRACE_MS = 5_000;
const CLOSE_MS = 1_000;
const RECONNECT_ATTEMPTS = 10;
const MAX_INFLIGHT = 256;
/** Codes of fatal errors that do not repeat: section 15. */
const TEMPORARY = ["HANDSHAKE_TIMEOUT", "HEARTBEAT_TIMEOUT", "TOO_MANY_CLIENTS", "SHUTTING_DOWN", "INTERNAL"];
/** Envelopes that may come before WELCOME. */
const EARLY = ["WELCOME", "ERROR", "NACK", "BYE", "PING"];
/** What to do after a call has timed out. */
const SENT = "the message was sent; do not repeat it";
const TRY_AGAIN = "try again, and call receive() if much is unread";
const NO_WINDOWS =
  "Node cannot ask Windows who owns a pipe, so this client does not run there: " +
  "run `agent-relay send` and `agent-relay listen --json`, or use a client in another language";

/** Returns the error in a NACK or ERROR. */
function refusalOf({ code, message }: Members): RelayError {
  const Kind = code === "SYNC_TIMEOUT" ? TimeoutError : RefusedError;
  return new Kind(text(code) ?? "", text(message) ?? "");
}

export class Session implements Outcomes {
  state: State = "connecting";
  readonly unread = new Unread(() => this.adjustFlow());
  private error: EndedError | undefined;
  private link: Link | undefined;
  private timer: NodeJS.Timeout | undefined;
  private joined: Promise<void> | undefined;
  private session: { id: string; token: string } | undefined;
  private frameBytesMax = 1024 * 1024;
  private silenceMs = 0;
  private attempts = 0;
  private waits = 0;
  private readySince = 0;
  private hasJoined = false;
  private saidHello = false;
  private readonly patterns = new Set<string>();
  /** The last answers, by the delivery's id. If one did not arrive, the question comes again. */
  private readonly answers = new Map<string, object>();
  /** The ids of the last requests to the daemon, whose responses are no messages. */
  private readonly requests = new Set<string>();
  private readonly calls = new Calls();
  private readonly inbox = new Inbox();
  private readonly outbox = new Outbox((id, receipt) => this.calls.settle(id, receipt));

  constructor(private readonly options: Options, private readonly emit: Emit) {}

  // Calls of the program.

  /** Connects, and waits for the first WELCOME. */
  join(): Promise<void> {
    if (this.joined) return this.joined;
    this.joined = this.error ? Promise.reject(this.error) : this.calls.wait("join");
    if (process.platform === "win32") this.end(new EndedError("UNSUPPORTED", NO_WINDOWS));
    else if (!this.error) this.connect();
    return this.joined;
  }

  /** Sends a message, and waits for its receipt. */
  async send(message: Outgoing, sync?: Sync): Promise<Receipt> {
    const { id = randomUUID(), to, topic, kind = "message", body = "", data, thread, ack = true } = message;
    const { replyTo, importance, ttlMs: ttl_ms } = message;
    const requires_ack = sync !== undefined || ack;
    const payload_meta = { requires_ack, ttl_ms, replyTo, importance, sync };
    const frame = encode("SEND", id, { kind, body, data, thread }, { to, topic, payload_meta });
    const target = to === undefined || to === "*" ? "*" : to.toLowerCase();
    const ms = sync && sync.timeoutMs + GRACE_MS;
    return this.hold<Receipt>({ id, frame, target, isRepeated: requires_ack }, "receipt", ms);
  }

  /** Asks a question, and waits for the answer. */
  async ask(message: Outgoing, timeoutMs: number): Promise<Answer> {
    if (!message.to || message.to === "*") {
      throw new RefusedError("INVALID", "a question is for one agent: name it in `to`");
    }
    const correlationId = randomUUID();
    const what = `answer of ${message.to}`;
    const answer = this.wait<Answer>(correlationId, what, timeoutMs + GRACE_MS, SENT);
    const sent = this.send(message, { correlationId, timeoutMs });
    sent.catch((error) => this.calls.settle(correlationId, error));
    return answer;
  }

  async subscribe(pattern: string): Promise<void> {
    await this.change("SUBSCRIBE", pattern);
    this.patterns.add(pattern);
  }

  async unsubscribe(pattern: string): Promise<void> {
    await this.change("UNSUBSCRIBE", pattern);
    this.patterns.delete(pattern);
  }

  private change(type: string, topic: string): Promise<void> {
    const id = randomUUID();
    const frame = encode(type, id, {}, { topic });
    return this.hold({ id, frame, target: "", isRepeated: true }, `answer to ${type}`, ANSWER_MS);
  }

  /** Asks the daemon (docs/RELAY-API.md), and waits for the `data` of its response. */
  request(body: string, data: object): Promise<Members> {
    const id = randomUUID();
    const frame = encode("SEND", id, { kind: "request", body, data }, { to: "@relay" });
    this.requests.add(id);
    trim(this.requests, REQUESTS_MAX);
    return this.hold({ id, frame, target: "", isRepeated: true }, `answer to ${body}`, ANSWER_MS);
  }

  /** Holds an envelope until the daemon has answered it. */
  private async hold<T>(send: Send, what: string, ms?: number): Promise<T> {
    if (this.error) throw this.error;
    const { id } = send;
    if (!id || Buffer.byteLength(id) > 128) {
      throw new RefusedError("INVALID", "an id must have 1 to 128 bytes");
    }
    if (this.calls.has(id)) {
      throw new RefusedError("INVALID", `a message with the id ${id} is being sent: choose another`);
    }
    this.checkSize(send.frame);
    const answer = this.wait<T>(id, what, ms, send.target === "" ? TRY_AGAIN : SENT);
    try {
      this.outbox.add(send);
    } catch (error) {
      this.calls.settle(id, error);
    }
    return answer;
  }

  private wait<T>(id: string, what: string, ms: number | undefined, hint: string): Promise<T> {
    const answer = this.calls.wait<T>(id, what, ms, hint);
    this.adjustFlow();
    return answer;
  }

  private checkSize(frame: Buffer): void {
    const bytes = frame.length - 4;
    if (bytes <= this.frameBytesMax) return;
    const limit = `a frame has at most ${this.frameBytesMax} bytes`;
    throw new RefusedError("TOO_LARGE", `${limit}, and this one ${bytes}: send smaller pieces`);
  }

  acknowledge(id: string): void {
    if (this.inbox.acknowledge(id)) this.say("ACK", { ack_id: id });
  }

  giveBack(id: string, message: string, retry_after_ms: number | undefined): void {
    const nack = { ack_id: id, code: "REFUSED", message, retry_after_ms };
    this.checkSize(encode("NACK", randomUUID(), nack));
    if (this.inbox.forget(id)) this.say("NACK", nack);
  }

  answer({ id, question }: Message, data: unknown, response: boolean): void {
    const responseData = typeof data === "string" ? { body: data } : data;
    const payload = { ack_id: id, correlationId: question?.correlationId, response, responseData };
    this.checkSize(encode("ACK", randomUUID(), payload));
    this.inbox.acknowledge(id);
    this.answers.set(id, payload);
    trim(this.answers, ANSWERS_MAX);
    this.say("ACK", payload);
  }

  /** Says BYE, waits until the daemon has closed the connection, and ends the session. */
  async close(): Promise<void> {
    const link = this.state === "ready" ? this.link : undefined;
    if (link) {
      this.say("BYE", { reason: "done" });
      this.link = undefined; // It is not destroyed.
    }
    this.end(new EndedError("CLOSED", "the client is closed: make another one to continue"));
    await link?.closed(CLOSE_MS);
  }

  // The connection.

  private connect(): void {
    this.attempts++;
    this.enter("connecting");
    this.timer = setTimeout(() => this.lose("the daemon sent no WELCOME"), ANSWER_MS);
    let path;
    try {
      path = findEndpoint(this.options.endpoint);
    } catch (error) {
      return this.lose((error as Error).message, error as Error);
    }
    const link = new Link(path, {
      opened: () => this.hello(),
      frame: (json) => this.handle(link, json),
      drained: () => this.outbox.flush(),
      silent: () => this.silent(link),
      lost: (reason, cause) => this.lose(reason, cause),
    });
    this.link = link;
  }

  /** Says RESUME, which also replays at-most-once messages; or HELLO, at first or if it is refused. */
  private hello(refusal?: string): void {
    this.enter("handshaking");
    const { name: agent, key, maxInflight = MAX_INFLIGHT } = this.options;
    const { id: session_id, token: resume_token } = this.session ?? {};
    this.saidHello = !resume_token || key !== undefined || refusal !== undefined;
    if (refusal !== undefined) this.emit("missed", { reason: refusal });
    if (this.saidHello) {
      const capabilities = { resume: true, max_inflight: Math.min(maxInflight, WINDOW) };
      const session = resume_token && { resume_token };
      this.write("HELLO", { agent, capabilities, auth: key && { key }, session });
    } else {
      const streams = this.inbox.streams(this.frameBytesMax - 1024);
      this.write("RESUME", { session_id, agent, resume_token, streams });
    }
  }

  private welcome(link: Link, payload: Members): void {
    const [id, token] = [text(payload.session_id), text(payload.resume_token)];
    const server = members(payload.server);
    const bytes = number(server.max_frame_bytes) ?? 0;
    const beat = number(server.heartbeat_ms) ?? 0;
    if (!id || !token || id.length + token.length > 1024 || bytes < 1 || beat < 0) {
      throw new Error("invalid WELCOME");
    }
    const isNew = this.session?.id !== id;
    this.session = { id, token };
    this.silenceMs = Math.min(3 * beat, DAY_MS);
    this.frameBytesMax = Math.min(bytes, FRAME_BYTES_BOUND);
    link.limit(this.frameBytesMax);
    this.readySince = performance.now();
    this.hasJoined = true;
    clearTimeout(this.timer);
    this.enter("ready");
    if (isNew) this.renew();
    this.outbox.connected(link);
    this.calls.settle("join", undefined);
    this.adjustFlow();
  }

  /** Begins a fresh session: with no positions, and with the subscriptions of the last one. */
  private renew(): void {
    this.inbox.positions.clear();
    for (const topic of this.patterns) {
      this.change("SUBSCRIBE", topic).catch((error) => this.emit("warning", error));
    }
  }

  private handle(link: Link, json: string): void {
    const envelope = members(JSON.parse(json));
    const [type, id] = [text(envelope.type) ?? "", text(envelope.id) ?? ""];
    const payload = members(envelope.payload);
    const about = text(payload.ack_id) ?? text(payload.ref) ?? "";
    const isReady = this.state === "ready";
    if (envelope.v !== 1 || id === "" || id.length > 128 || about.length > 128) {
      throw new Error("no valid envelope");
    }
    if (!isReady && !EARLY.includes(type)) throw new Error(`${type} came before WELCOME`);
    if (type === "WELCOME" && !isReady) this.welcome(link, payload);
    else if (type === "PING") this.write("PONG", { nonce: payload.nonce });
    else if (type === "DELIVER") this.deliver(new Message(this, envelope, json));
    else if (type === "ACK") this.acked(id, about, payload, envelope.from);
    else if (type === "NACK" && !isReady) this.hello(text(payload.message) ?? "");
    else if (type === "NACK" && this.inbox.isNewOutcome(id, about)) {
      if (!this.refused(about, payload)) this.emit("refused", { id: about, nack: payload });
    } else if (type === "BUSY") this.busy(about, payload);
    else if (type === "ERROR") this.failed(about, payload, isReady);
    else if (type === "BYE") {
      this.lose(`the daemon left: ${payload.reason}`, undefined, number(payload.retry_after_ms));
    }
  }

  /** Handles the daemon's receipt, or an agent's answer to a question. */
  private acked(id: string, about: string, payload: Members, from: unknown): void {
    if (payload.correlationId === undefined || payload.state === "accepted") {
      const { durability, recipients, away } = payload;
      if (this.outbox.answered(about)) this.calls.settle(about, { id: about, durability, recipients, away });
    } else if (this.inbox.isNewOutcome(id, about)) {
      const { response, responseData: data, correlationId } = payload;
      this.calls.settle(String(correlationId), { from, response, body: text(members(data).body), data });
    }
  }

  private busy(id: string, payload: Members): void {
    const waitMs = this.outbox.busy(id, Math.min(number(payload.retry_after_ms) ?? 50, WAIT_MS_MAX));
    if (waitMs === undefined) this.emit("refused", { id, nack: { ...payload, code: "BUSY" } });
    else this.emit("busy", { id, waitMs });
  }

  private deliver(message: Message): void {
    const { id, from, topic = "", delivery, meta, requiresAck } = message;
    const request = text(meta.replyTo) ?? "";
    if (from === "@relay" && this.requests.has(request)) {
      if (this.outbox.answered(request)) this.calls.settle(request, members(message.data));
      return;
    }
    const seq = number(delivery.seq) ?? 0;
    if (seq < 1 || from === "" || from.length > 128 || topic.length > 256) {
      return this.say("NACK", { ack_id: id, code: "INVALID", message: "the DELIVER is not valid" });
    }
    const verdict = this.inbox.judge(id, requiresAck);
    if (verdict === "full") {
      const reason = "too many messages are unacknowledged";
      return this.say("NACK", { ack_id: id, code: "LIMIT", message: reason, retry_after_ms: 1000 });
    }
    this.inbox.note(from, topic, seq);
    if (verdict === "acknowledged") this.say("ACK", this.answers.get(id) ?? { ack_id: id });
    if (verdict !== "new") return;
    this.unread.push(message);
    this.adjustFlow();
  }

  /** Rejects the call that a NACK or an ERROR is about. Returns false if there is none. */
  private refused(about: string, nack: Members): boolean {
    if (nack.to !== undefined && this.outbox.isBroadcast(about)) return false;
    const call = this.outbox.answered(about) ? about : (text(nack.correlationId) ?? "");
    return this.calls.settle(call, refusalOf(nack));
  }

  private failed(about: string, payload: Members, isReady: boolean): void {
    const error = refusalOf(payload);
    const isFatal = payload.fatal === true;
    if (isFatal && TEMPORARY.includes(error.code)) return this.lose(error.message);
    if (isFatal || (!isReady && error.code !== "RESUME_REJECTED")) {
      return this.end(new EndedError(error.code, text(payload.message) ?? ""));
    }
    if (isReady) {
      if (!this.refused(about, payload)) this.emit("warning", error);
      return;
    }
    this.session = undefined;
    if (!this.saidHello) this.hello(error.message); // After HELLO, a fresh session begins.
  }

  private silent(link: Link): void {
    if (!link.isPaused) return this.lose("the daemon is silent");
    // The program possibly waits for an answer before it reads, but the answer is behind messages.
    const error = new TimeoutError("TIMED_OUT", `too much is unread: call receive(); ${SENT}`);
    this.calls.rejectEndless(error);
  }

  /** Handles a failed attempt or a lost connection: tries again later, or gives up. */
  private lose(reason: string, cause?: Error, waitMsMin = 0): void {
    if (this.state === "backoff" || this.state === "ended") return;
    const isSteady = this.state === "ready" && performance.now() - this.readySince >= STEADY_MS;
    if (isSteady) this.attempts = this.waits = 0;
    this.drop();
    const { firstAttempts = 1, reconnectAttempts = RECONNECT_ATTEMPTS } = this.options;
    if (this.attempts >= (this.hasJoined ? reconnectAttempts : firstAttempts)) {
      return this.end(new EndedError("NO_CONNECTION", reason, cause && { cause: cause.cause ?? cause }));
    }
    this.enter("backoff", reason);
    const waitMs = Math.max(backOffMs(FIRST_WAIT_MS, this.waits++), Math.min(waitMsMin, DAY_MS));
    this.timer = setTimeout(() => this.connect(), waitMs);
  }

  private drop(): void {
    clearTimeout(this.timer);
    this.outbox.disconnected();
    this.link?.destroy();
    this.link = undefined;
  }

  private end(error: EndedError): void {
    if (this.error) return;
    this.error = error;
    this.drop();
    this.enter("ended", error.message);
    this.calls.rejectAll(error);
    this.unread.end(error);
  }

  /** Pauses the connection while too much is unread: four times as much if a call waits. */
  private adjustFlow(): void {
    if (this.state !== "ready") return;
    const isFull = this.unread.isFull(this.calls.isEmpty ? 1 : 4);
    this.link?.watch(!isFull, isFull ? ANSWER_MS : this.silenceMs);
  }

  /** Writes an envelope if the client is ready. */
  private say(type: string, payload: object): void {
    if (this.state === "ready") this.write(type, payload);
  }

  private write(type: string, payload: object): void {
    this.link?.write(encode(type, randomUUID(), payload));
  }

  private enter(state: State, reason?: string): void {
    this.state = state;
    this.emit("state", { state, reason });
  }
}
