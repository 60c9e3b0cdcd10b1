/** A client of Agent Relay: joins the daemon, sends, receives, asks and answers, and reconnects. */
import { randomUUID } from "node:crypto";
import { connect as open, type Socket } from "node:net";
import { Inbox, WINDOW, trim } from "./inbox.js";
import { Outbox, type Receipt, type Send, WAIT_MS_MAX, backOffMs } from "./outbox.js";
import { FrameReader, type Members, RelayError, encode, findEndpoint, members, number, text } from "./wire.js";
export { type Members, type Receipt, RelayError };

/** The settings of a client, which the README explains. */
export interface Options {
  name: string; key?: string; endpoint?: string; maxInflight?: number; firstAttempts?: number;
  onEvent?: (event: Event) => void;
}
export type State = "connecting" | "handshaking" | "ready" | "backoff" | "ended";
/** An event: `refused` is a message that did not arrive, or not at `nack.to`; `busy` one that is sent again after
 * `waitMs`; `missed` says that at-most-once messages may be lost; `error` is an ERROR that ends nothing. */
export type Event = { type: "state"; state: State; reason?: string | undefined }
  | { type: "refused"; id: string; nack: Members } | { type: "busy"; id: string; waitMs: number }
  | { type: "missed"; reason: string } | { type: "error"; error: RelayError };
/** A message to an agent, to everyone (`*`) or to a topic. `ack: false` sends it at most once; `id` is its SEND's. */
export interface Outgoing {
  to?: string; topic?: string; body?: string; data?: unknown; kind?: string; thread?: string;
  replyTo?: string; importance?: number; ttlMs?: number; ack?: boolean; id?: string;
}
/** The answer to a question. `body` is the text in `data`. */
export interface Answer { from: string; response: boolean | undefined; body: string | undefined; data: unknown }
/** A received message. `raw` is the DELIVER as it arrived, where integers beyond 2^53 are exact. */
export class Message {
  readonly id = text(this.envelope.id) ?? "";
  readonly from = text(this.envelope.from) ?? "";
  readonly topic = text(this.envelope.topic);
  readonly payload = members(this.envelope.payload);
  readonly body = text(this.payload.body) ?? "";
  readonly data = this.payload.data;
  readonly meta = members(this.envelope.payload_meta);
  /** What the daemon says: `seq`, `attempt`, `originalTo`, `sender` … */
  readonly delivery = members(this.envelope.delivery);
  /** Whether the message must be acknowledged, returned or answered. */
  readonly requiresAck = this.delivery.requires_ack === true;
  /** The parameters of a question; undefined if the sender waits for no answer. */
  readonly question = this.meta.sync === undefined ? undefined : members(this.meta.sync);
  constructor(private readonly client: Client, private readonly envelope: Members, readonly raw: string) {}
  /** Tells the daemon that the message is stored or processed. */
  ack(): void { if (this.client.inbox.acknowledge(this.id)) this.client.say("ACK", { ack_id: this.id }) }
  /** Returns the message: for good, or until it comes again after `retryAfterMs`. */
  return(message: string, retryAfterMs?: number): void {
    const nack = { ack_id: this.id, code: "REFUSED", message, retry_after_ms: retryAfterMs };
    this.client.checkSize(encode("NACK", randomUUID(), nack));
    if (this.client.inbox.forget(this.id)) this.client.say("NACK", nack);
  }
  /** Answers a question with a text or other data, and acknowledges the message. */
  answer(data: unknown, response = true): void { this.client.answer(this, data, response) }
}
type Call = { resolve(value: never): void; reject(error: Error): void; timer: NodeJS.Timeout | undefined };
const [UNREAD_MAX, UNREAD_BYTES_MAX, ANSWERS_MAX, UNWRITTEN_BYTES_MAX] = [1024, 2 ** 23, 256, 2 ** 25];
const [FRAME_BYTES_BOUND, DAY_MS] = [80 * 1024 * 1024, 86_400_000]; // The first is more than a daemon can allow.
const [ATTEMPTS_MAX, FIRST_WAIT_MS, STEADY_MS, ANSWER_MS, GRACE_MS] = [10, 100, 10_000, 10_000, 5_000];
const TEMPORARY = ["HANDSHAKE_TIMEOUT", "HEARTBEAT_TIMEOUT", "TOO_MANY_CLIENTS", "SHUTTING_DOWN", "INTERNAL"];
const errorOf = ({ code, message }: Members) => new RelayError(text(code) ?? "", text(message) ?? "");
const EARLY = ["WELCOME", "ERROR", "NACK", "BYE", "PING"];
/** Joins the daemon under a name. */
export const connect = (options: Options): Promise<Client> => new Client(options).joined;
/** A joined agent. Iterating over it yields the messages that it receives. */
export class Client {
  private state: State = "connecting"; private error: RelayError | undefined;
  private socket: Socket | undefined; private timer: NodeJS.Timeout | undefined;
  private session: { id: string; token: string } | undefined; private frameBytesMax = 1024 * 1024; private silenceMs = 0;
  private readonly attempt = { count: 0, waits: 0, readySince: 0, hasJoined: false, saidHello: false };
  private readonly unread: Message[] = []; private unreadBytes = 0; private readonly wakers: (() => void)[] = [];
  private readonly calls = new Map<string, Call>(); private readonly patterns = new Set<string>();
  /** The last answers, by the delivery's id. A question whose answer did not arrive is delivered again. */
  private readonly answers = new Map<string, object>();
  private readonly outbox = new Outbox((id, result) => this.settle(id, result));
  /** @internal */ readonly inbox = new Inbox();
  /** @internal */ readonly joined = this.call<Client>("join");
  /** @internal */ constructor(private readonly options: Options) { this.connect() }
  /** Sends a message, and waits until the daemon has accepted it, or until an at-most-once message is written. */
  send = (message: Outgoing): Promise<Receipt> => this.post(message);
  /** Asks an agent a question, at least once, and waits for the answer. */
  async ask(message: Outgoing, timeoutMs = 30_000): Promise<Answer> {
    if (!message.to || message.to === "*") throw new RelayError("INVALID", "a question is for one agent");
    const correlationId = randomUUID();
    const answer = this.call<Answer>(correlationId, timeoutMs + GRACE_MS, `${message.to}'s answer`);
    this.post(message, { correlationId, timeoutMs }).catch((error) => this.settle(correlationId, error));
    return answer;
  }
  private async post(message: Outgoing, sync?: { correlationId: string; timeoutMs: number }): Promise<Receipt> {
    const { id = randomUUID(), to, topic, kind = "message", body = "", data, thread, ack = true } = message;
    const { replyTo, importance, ttlMs: ttl_ms } = message;
    const payload_meta = { requires_ack: sync !== undefined || ack, ttl_ms, replyTo, importance, sync };
    const frame = encode("SEND", id, { kind, body, data, thread }, { to, topic, payload_meta });
    const [ms, target] = [sync && sync.timeoutMs + GRACE_MS, to === undefined || to === "*" ? "*" : to.toLowerCase()];
    return this.hold<Receipt>({ id, frame, target, atLeastOnce: payload_meta.requires_ack }, ms, "the receipt");
  }
  /** Subscribes to the topics that match a pattern, also on later connections. */
  subscribe = (pattern: string) => this.change("SUBSCRIBE", pattern).then(() => void this.patterns.add(pattern));
  /** Ends the subscription to a pattern. */
  unsubscribe = (pattern: string) => this.change("UNSUBSCRIBE", pattern).then(() => void this.patterns.delete(pattern));
  private change(type: string, topic: string, id = randomUUID()): Promise<void> {
    return this.hold({ id, frame: encode(type, id, {}, { topic }), target: "", atLeastOnce: true }, ANSWER_MS, type);
  }
  /** Holds an envelope until the daemon has answered it. */
  private async hold<T>(send: Send, ms?: number, what?: string): Promise<T> {
    if (this.error) throw this.error;
    if (!send.id || Buffer.byteLength(send.id) > 128) throw new RelayError("INVALID", "an id has 1 to 128 bytes");
    if (this.calls.has(send.id)) throw new RelayError("INVALID", `a message with the id ${send.id} is being sent`);
    this.checkSize(send.frame);
    const answer = this.call<T>(send.id, ms, what && `the answer to ${what}`);
    try { this.outbox.add(send) } catch (error) { this.settle(send.id, error) }
    return answer;
  }
  /** @internal */ checkSize({ length }: Buffer): void {
    if (length - 4 > this.frameBytesMax) throw new RelayError("TOO_LARGE", `${length} bytes are too many for a frame`);
  }
  /** Waits for the next message. Returns undefined once the client is closed. */
  async receive(): Promise<Message | undefined> {
    while (this.unread.length === 0) {
      if (this.error) return this.error.code === "CLOSED" ? undefined : Promise.reject(this.error);
      await new Promise<void>((wake) => this.wakers.push(wake));
    }
    const message = this.unread.shift()!;
    this.unreadBytes -= message.raw.length;
    this.adjustFlow();
    return message;
  }
  async *[Symbol.asyncIterator]() { for (let message; (message = await this.receive()); ) yield message }
  /** Says BYE, waits until the daemon has closed the connection, and ends the client. */
  async close(): Promise<void> {
    const socket = this.state === "ready" ? this.socket : undefined;
    if (socket) this.socket = void this.say("BYE", { reason: "done" });
    this.end(new RelayError("CLOSED", "the client is closed"));
    await new Promise<void>((done) => socket?.once("close", () => done()).setTimeout(1000, done).resume() ?? done());
    socket?.destroy();
  }
  /** @internal */ answer({ id, question }: Message, data: unknown, response: boolean): void {
    const responseData = typeof data === "string" ? { body: data } : data;
    const payload = { ack_id: id, correlationId: question?.correlationId, response, responseData };
    this.checkSize(encode("ACK", randomUUID(), payload));
    this.inbox.acknowledge(id);
    trim(this.answers.set(id, payload), ANSWERS_MAX);
    this.say("ACK", payload);
  }
  private connect(): void {
    this.attempt.count++;
    this.enter("connecting");
    this.timer = setTimeout(() => this.lose("the daemon sent no WELCOME"), ANSWER_MS);
    let [path, reason] = ["", "the daemon closed the connection"];
    try { path = findEndpoint(this.options.endpoint) } catch (error) { return this.lose((error as Error).message) }
    const [socket, reader] = [open(path), new FrameReader()];
    this.socket = socket.on("connect", () => this.hello()).on("drain", () => this.outbox.flush());
    socket.on("error", (error) => (reason = error.message));
    socket.on("close", () => this.socket === socket && this.lose(reason));
    socket.on("timeout", () => {
      const error = new RelayError("TIMED_OUT", "too much is unread"); // The program may wait for it before it reads.
      if (!socket.isPaused()) this.lose("the daemon is silent");
      else for (const [id, { timer }] of this.calls) if (!timer) this.settle(id, error);
    });
    socket.on("data", (chunk) => {
      try {
        const frames = reader.read(chunk);
        for (let next; this.socket === socket && !(next = frames.next()).done; ) this.handle(socket, reader, next.value);
      } catch (error) {
        this.lose(`the daemon broke the protocol: ${(error as Error).message}`);
      }
    });
  }
  /** Says RESUME, which replays at-most-once messages too; or HELLO at first, or if RESUME was refused. */
  private hello(refusal?: string): void {
    this.enter("handshaking");
    const { name: agent, key, maxInflight = 256 } = this.options;
    const { id: session_id, token: resume_token } = this.session ?? {};
    this.attempt.saidHello = !resume_token || key !== undefined || refusal !== undefined;
    if (refusal !== undefined) this.emit({ type: "missed", reason: refusal });
    const resume = { session_id, agent, resume_token, streams: this.inbox.streams(this.frameBytesMax - 1024) };
    const capabilities = { resume: true, max_inflight: Math.min(maxInflight, WINDOW) };
    const hello = { agent, capabilities, auth: key && { key }, session: resume_token && { resume_token } };
    const isHello = this.attempt.saidHello;
    this.write(encode(isHello ? "HELLO" : "RESUME", randomUUID(), isHello ? hello : resume));
  }
  private welcome(socket: Socket, reader: FrameReader, payload: Members): void {
    const [id, token, server] = [text(payload.session_id), text(payload.resume_token), members(payload.server)];
    const [bytes, beat] = [number(server.max_frame_bytes) ?? 0, number(server.heartbeat_ms) ?? 0];
    if (!id || !token || id.length + token.length > 1024 || bytes < 1 || beat < 0) throw new Error("invalid WELCOME");
    const isNew = this.session?.id !== id;
    [this.session, this.silenceMs] = [{ id, token }, Math.min(3 * beat, DAY_MS)];
    this.frameBytesMax = reader.bytesMax = Math.min(bytes, FRAME_BYTES_BOUND);
    [this.attempt.readySince, this.attempt.hasJoined] = [performance.now(), true];
    clearTimeout(this.timer);
    this.enter("ready");
    if (isNew) this.inbox.positions.clear();
    const report = (error: RelayError) => this.emit({ type: "error", error });
    for (const topic of isNew ? this.patterns : []) this.change("SUBSCRIBE", topic).catch(report);
    this.outbox.connected(socket);
    this.settle("join", this);
    this.adjustFlow();
  }
  private handle(socket: Socket, reader: FrameReader, json: string): void {
    const envelope = members(JSON.parse(json));
    const [type, id, payload] = [text(envelope.type) ?? "", text(envelope.id) ?? "", members(envelope.payload)];
    const about = text(payload.ack_id) ?? text(payload.ref) ?? "";
    const isReady = this.state === "ready";
    if (envelope.v !== 1 || id === "" || id.length > 128 || about.length > 128) throw new Error("no valid envelope");
    if (!isReady && !EARLY.includes(type)) throw new Error(`${type} came before WELCOME`);
    if (type === "WELCOME" && !isReady) this.welcome(socket, reader, payload);
    else if (type === "PING") this.write(encode("PONG", randomUUID(), { nonce: payload.nonce }));
    else if (type === "DELIVER") this.deliver(new Message(this, envelope, json));
    else if (type === "ACK" && (payload.correlationId === undefined || payload.state === "accepted")) {
      const { durability, recipients, away } = payload;
      if (this.outbox.answered(about)) this.settle(about, { id: about, durability, recipients, away });
    } else if (type === "ACK" && this.inbox.isNewOutcome(id, about)) {
      const { response, responseData: data, correlationId } = payload;
      this.settle(String(correlationId), { from: envelope.from, response, body: text(members(data).body), data });
    } else if (type === "NACK" && !isReady) this.hello(text(payload.message) ?? "");
    else if (type === "NACK" && this.inbox.isNewOutcome(id, about)) {
      if (!this.refused(about, payload)) this.emit({ type: "refused", id: about, nack: payload });
    } else if (type === "BUSY") {
      const waitMs = this.outbox.busy(about, Math.min(number(payload.retry_after_ms) ?? 50, WAIT_MS_MAX));
      const refused: Event = { type: "refused", id: about, nack: { ...payload, code: "BUSY" } };
      this.emit(waitMs === undefined ? refused : { type: "busy", id: about, waitMs });
    } else if (type === "ERROR") this.failed(about, payload, isReady);
    else if (type === "BYE") this.lose(`the daemon left: ${payload.reason}`, number(payload.retry_after_ms));
  }
  private deliver(message: Message): void {
    const { id, from, topic = "", delivery, requiresAck } = message;
    const [ack_id, seq, reason] = [id, number(delivery.seq) ?? 0, "too many messages are unacknowledged"];
    const isValid = seq >= 1 && from !== "" && from.length <= 128 && topic.length <= 256;
    if (!isValid) return this.say("NACK", { ack_id, code: "INVALID", message: "the DELIVER is not valid" });
    const verdict = this.inbox.judge(id, requiresAck);
    if (verdict === "full") return this.say("NACK", { ack_id, code: "LIMIT", message: reason, retry_after_ms: 1000 });
    this.inbox.note(from, topic, seq);
    if (verdict === "acknowledged") this.say("ACK", this.answers.get(id) ?? { ack_id });
    if (verdict !== "new") return;
    this.unread.push(message);
    this.unreadBytes += message.raw.length;
    this.adjustFlow();
  }
  /** Rejects the call that a NACK or an ERROR is about. Returns false if there is none. */
  private refused(about: string, nack: Members): boolean {
    if (nack.to !== undefined && this.outbox.isBroadcast(about)) return false;
    return this.settle(this.outbox.answered(about) ? about : (text(nack.correlationId) ?? ""), errorOf(nack));
  }
  private failed(about: string, payload: Members, isReady: boolean): void {
    const error = errorOf(payload);
    if (payload.fatal === true && TEMPORARY.includes(error.code)) return this.lose(error.message);
    if (payload.fatal === true || (!isReady && error.code !== "RESUME_REJECTED")) return this.end(error);
    if (isReady) return void (this.refused(about, payload) || this.emit({ type: "error", error }));
    this.session = undefined;
    if (!this.attempt.saidHello) this.hello(error.message); // After HELLO, a fresh session begins.
  }
  /** Handles a failed attempt or a lost connection: tries again later, or gives up. */
  private lose(reason: string, waitMsMin = 0): void {
    const { state, attempt } = this;
    if (state === "backoff" || state === "ended") return;
    if (state === "ready" && performance.now() - attempt.readySince >= STEADY_MS) attempt.count = attempt.waits = 0;
    this.drop();
    const isLast = attempt.count >= (attempt.hasJoined ? ATTEMPTS_MAX : (this.options.firstAttempts ?? 1));
    if (isLast) return this.end(new RelayError("NO_CONNECTION", reason));
    this.enter("backoff", reason);
    const waitMs = Math.max(backOffMs(FIRST_WAIT_MS, attempt.waits++), Math.min(waitMsMin, DAY_MS));
    this.timer = setTimeout(() => this.connect(), waitMs);
  }
  private drop(): void { clearTimeout(this.timer); this.outbox.disconnected(); this.socket = void this.socket?.destroy() }
  private end(error: RelayError): void {
    if (this.error) return;
    this.error = error;
    this.drop();
    this.enter("ended", error.message);
    for (const id of this.calls.keys()) this.settle(id, error);
    for (const wake of this.wakers) wake();
  }
  /** Wakes a reader, and pauses the connection while too much is unread: four times as much if a call waits. */
  private adjustFlow(): void {
    const [socket, times] = [this.socket, this.calls.size === 0 ? 1 : 4];
    const isFull = this.unread.length >= times * UNREAD_MAX || this.unreadBytes >= times * UNREAD_BYTES_MAX;
    if (this.state === "ready") socket?.[isFull ? "pause" : "resume"]().setTimeout(isFull ? ANSWER_MS : this.silenceMs);
    if (this.unread.length > 0) this.wakers.shift()?.();
  }
  private call<T>(id: string, ms?: number, what?: string): Promise<T> {
    return new Promise((resolve, reject) => {
      const expire = () => this.settle(id, new RelayError("TIMED_OUT", `${what} did not come within ${ms} ms`));
      this.calls.set(id, { resolve, reject, timer: ms === undefined ? undefined : setTimeout(expire, ms) });
      this.adjustFlow();
    });
  }
  /** Resolves or rejects a call. Returns false if there is none with this id. */
  private settle(id: string, result: unknown): boolean {
    const call = this.calls.get(id);
    if (call?.timer) clearTimeout(call.timer);
    if (result instanceof Error) call?.reject(result); else call?.resolve(result as never);
    return this.calls.delete(id);
  }
  /** @internal Writes an envelope, if the client is ready. */
  say(type: string, payload: object): void { if (this.state === "ready") this.write(encode(type, randomUUID(), payload)) }
  private write(frame: Buffer): void {
    this.socket?.write(frame);
    if ((this.socket?.writableLength ?? 0) > UNWRITTEN_BYTES_MAX) this.lose("the daemon does not read");
  }
  private enter(state: State, reason?: string): void { this.emit({ type: "state", state: (this.state = state), reason }) }
  /** Calls the program after the current step. */
  private emit(event: Event): void { queueMicrotask(() => this.options.onEvent?.(event)) }
}
