/** Outgoing messages: kept in order until the daemon has accepted them, and sent again after BUSY. */
import type { Socket } from "node:net";
import { RelayError } from "./wire.js";

/** The daemon's receipt. Only an accepted at-least-once message has more than an id. */
export interface Receipt { id: string; durability?: string; recipients?: number; away?: boolean }
/** A SEND to `target`: a name in lower case, or `*` for several. A change of subscriptions has none. */
export interface Send { id: string; frame: Buffer; atLeastOnce: boolean; target: string }
type Queued = Send & { order: number; busy: number; retryAt: number };
const [HELD_MAX, HELD_BYTES_MAX, UNWRITTEN_BYTES_MAX] = [4096, 16 * 1024 * 1024, 1024 * 1024];
const RECENT_MAX = 256; // At-most-once messages that are held after they were sent, since BUSY may follow.
export const WAIT_MS_MAX = 30_000;
/** Returns the wait that begins at `first` and has doubled `times` times, give or take 15 %. */
export const backOffMs = (first: number, times: number) =>
  Math.min(first * 2 ** Math.min(times, 20), WAIT_MS_MAX) * (0.85 + 0.3 * Math.random());
export class Outbox {
  private socket: Socket | undefined;
  private order = 0; private heldBytes = 0;
  private queued: Queued[] = []; private recent: string[] = [];
  private readonly sent = new Map<string, Queued>();
  private timer: NodeJS.Timeout | undefined;
  /** `settle` is called for a message that was written at most once. */
  constructor(private readonly settle: (id: string, result: unknown) => void) {}
  /** Queues a message, and sends it unless it would overtake another one. */
  add(send: Send): void {
    const times = send.target === "" ? 2 : 1; // SENDs leave room for the subscriptions of a new session.
    const isFull = () => this.heldBytes > 0 && this.heldBytes + send.frame.length > times * HELD_BYTES_MAX;
    while (this.recent.length > 0 && (this.recent.length >= RECENT_MAX || isFull())) this.take(this.recent.shift()!);
    const count = this.queued.length + this.sent.size - this.recent.length;
    if (count >= times * HELD_MAX || isFull()) throw new RelayError("FULL", `${count} messages wait: send again later`);
    this.heldBytes += send.frame.length;
    this.queued.push({ ...send, order: this.order++, busy: 0, retryAt: 0 });
    this.flush();
  }
  connected(socket: Socket) { this.socket = socket; for (const send of this.queued) send.retryAt = 0; this.flush() }
  /** Queues unanswered messages again, but drops at-most-once messages that were written before. */
  disconnected(): void {
    clearTimeout(this.timer);
    const all = [...this.queued.filter((send) => send.atLeastOnce || send.busy === 0), ...this.sent.values()];
    const isNotRecent = ({ id }: Queued) => !this.recent.includes(id);
    this.queued = all.filter(isNotRecent).sort((a, b) => a.order - b.order);
    this.sent.clear();
    [this.socket, this.recent] = [undefined, []];
    this.heldBytes = this.queued.reduce((bytes, send) => bytes + send.frame.length, 0);
  }
  /** Sends the messages that nothing blocks. A message that waits blocks later ones to its recipients. */
  flush(): void {
    clearTimeout(this.timer);
    const { socket, queued } = this;
    if (!socket || queued.length === 0) return;
    const [now, blocked] = [performance.now(), new Set<string>()];
    for (const send of this.sent.values()) if (send.busy > 0 && send.atLeastOnce) blocked.add(send.target);
    let next = Infinity;
    this.queued = queued.filter((send) => {
      const { target, retryAt } = send;
      if (retryAt > now) next = Math.min(next, retryAt);
      const isBlocked = target === "*" ? blocked.size > 0 : target !== "" && (blocked.has(target) || blocked.has("*"));
      const waits = isBlocked || retryAt > now || socket.writableLength > UNWRITTEN_BYTES_MAX;
      if (waits || (send.busy > 0 && send.atLeastOnce)) blocked.add(target);
      if (!waits && this.sent.set(send.id, send)) socket.write(send.frame);
      if (!waits && !send.atLeastOnce && this.recent.push(send.id)) this.settle(send.id, { id: send.id });
      return waits;
    });
    if (next < Infinity) this.timer = setTimeout(() => this.flush(), next - now);
  }
  private take(id: string): Queued | undefined {
    const send = this.sent.get(id);
    if (send && this.sent.delete(id)) this.heldBytes -= send.frame.length;
    return send;
  }
  /** Handles an ACK, or a NACK of all recipients. Returns false if the message was answered before. */
  answered(id: string): boolean { const send = this.take(id); this.flush(); return send?.atLeastOnce ?? false }
  /** Whether a message is without an answer and may have several recipients. */
  isBroadcast = (id: string) => this.sent.get(id)?.target === "*";
  /** Handles BUSY. Returns the wait until the message is sent again, if it is still known. */
  busy(id: string, retryAfterMs: number): number | undefined {
    const send = this.take(id);
    if (!send) return undefined;
    this.recent = this.recent.filter((other) => other !== id);
    this.heldBytes += send.frame.length;
    const waitMs = backOffMs(Math.max(retryAfterMs, 1), send.busy++);
    send.retryAt = performance.now() + waitMs;
    this.queued = [...this.queued, send].sort((a, b) => a.order - b.order);
    this.flush();
    return waitMs;
  }
}
