/** Outgoing messages: held in order until the daemon has accepted them, and repeated after BUSY. */
import { RefusedError } from "./errors.js";
import { backOffMs } from "./timers.js";

/** The daemon's receipt. Only an accepted at-least-once message has more than an id. */
export interface Receipt {
  id: string;
  /** The end that the message survives: of the power (`disk`) or of the daemon (`process`). */
  durability?: string | undefined;
  /** How many agents get a broadcast or a message to a topic. */
  recipients?: number | undefined;
  /** Whether the recipient is away: the message waits. */
  away?: boolean | undefined;
}

/**
 * An envelope to send. `target` is a recipient's name in lower case, `*` for several recipients, or
 * empty for requests to the daemon. With `isRepeated` it is sent on each connection until it is
 * answered.
 */
export interface Send {
  readonly id: string;
  readonly frame: Buffer;
  readonly isRepeated: boolean;
  readonly target: string;
}

/** A connection, as the outbox needs it. */
export interface Sink {
  readonly unwrittenBytes: number;
  write(frame: Buffer): void;
}

/** A message in the outbox. `busy` counts the BUSYs. */
interface Held {
  readonly send: Send;
  readonly order: number;
  busy: number;
  retryAt: number;
}

/** The messages to one target. After a BUSY they are sent one at a time, until none was refused. */
class Lane {
  /** In their order. */
  readonly waiting: Held[] = [];
  /** How many were sent again after a BUSY, and are not answered. */
  retried = 0;
  timer: NodeJS.Timeout | undefined;

  constructor(readonly target: string) {}

  /** Whether a message of this lane is before `order`, and blocks what follows. */
  blocks(order: number): boolean {
    return this.retried > 0 || (this.waiting[0]?.order ?? Infinity) < order;
  }

  /** Adds a message at its place. */
  insert(held: Held): void {
    let [from, to] = [0, this.waiting.length];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (this.waiting[middle]!.order < held.order) from = middle + 1;
      else to = middle;
    }
    this.waiting.splice(from, 0, held);
  }
}

const HELD_MAX = 4096;
const HELD_BYTES_MAX = 16 * 1024 * 1024;
const UNWRITTEN_BYTES_MAX = 1024 * 1024;
const RECENT_MAX = 256;
const EVERYONE = "*";

export class Outbox {
  private sink: Sink | undefined;
  private order = 0;
  private heldBytes = 0;
  private waitingCount = 0;
  /** The lanes that have messages to send. A broadcast waits for all, and all later ones for it. */
  private readonly lanes = new Map<string, Lane>();
  /** Lanes whose next message can possibly be sent now. */
  private readonly ready = new Set<Lane>();
  private readonly sent = new Map<string, Held>();
  /** Ids of at-most-once messages that were sent: they are held for a while, as BUSY may follow. */
  private readonly recent = new Set<string>();

  /** `settle` is called for a message that was written at most once. */
  constructor(private readonly settle: (id: string, result: Receipt) => void) {}

  /** Queues a message, and sends it unless it would overtake another one. */
  add(send: Send): void {
    this.makeRoom(send);
    this.heldBytes += send.frame.length;
    this.queue({ send, order: this.order++, busy: 0, retryAt: 0 });
    this.run();
  }

  private makeRoom({ target, frame }: Send): void {
    const times = target === "" ? 2 : 1; // Messages leave room for the subscriptions of a new session.
    const isFull = () => this.heldBytes > 0 && this.heldBytes + frame.length > times * HELD_BYTES_MAX;
    for (const id of this.recent) {
      if (this.recent.size < RECENT_MAX && !isFull()) break;
      this.take(id);
    }
    const count = this.waitingCount + this.sent.size - this.recent.size;
    if (count >= times * HELD_MAX || isFull()) {
      const message = `${count} messages wait for the daemon: await some of them before you send more`;
      throw new RefusedError("FULL", message);
    }
  }

  connected(sink: Sink): void {
    this.sink = sink;
    for (const lane of this.lanes.values()) {
      for (const held of lane.waiting) held.retryAt = 0;
    }
    this.flush();
  }

  /** Sends what nothing blocks. Must be called when the connection can be written to again. */
  flush(): void {
    for (const lane of this.lanes.values()) this.ready.add(lane);
    this.run();
  }

  /** Queues unanswered messages again, but drops at-most-once messages that were written before. */
  disconnected(): void {
    this.sink = undefined;
    const waiting = [...this.lanes.values()].flatMap((lane) => lane.waiting);
    const unwritten = waiting.filter(({ send, busy }) => send.isRepeated || busy === 0);
    const unanswered = [...this.sent.values()].filter(({ send }) => !this.recent.has(send.id));
    for (const lane of this.lanes.values()) clearTimeout(lane.timer);
    for (const all of [this.lanes, this.sent, this.recent]) all.clear();
    this.waitingCount = this.heldBytes = 0;
    for (const held of [...unwritten, ...unanswered].sort((a, b) => a.order - b.order)) {
      this.heldBytes += held.send.frame.length;
      this.queue(held);
    }
    this.ready.clear();
  }

  /** Handles an ACK, or a NACK of all recipients. Returns false if it is not the first answer. */
  answered(id: string): boolean {
    const held = this.take(id);
    if (!held) return false;
    const lane = this.lane(held.send.target);
    if (lane.target === EVERYONE) this.flush();
    else this.wake(lane);
    return held.send.isRepeated;
  }

  /** Whether a message is without an answer and may have several recipients. */
  isBroadcast(id: string): boolean {
    return this.sent.get(id)?.send.target === EVERYONE;
  }

  /** Handles BUSY. Returns the wait until the message is sent again, if it is still known. */
  busy(id: string, retryAfterMs: number): number | undefined {
    const held = this.take(id);
    if (!held) return undefined;
    this.heldBytes += held.send.frame.length;
    const waitMs = backOffMs(Math.max(retryAfterMs, 1), held.busy++);
    held.retryAt = performance.now() + waitMs;
    this.queue(held);
    this.run();
    return waitMs;
  }

  private lane(target: string): Lane {
    const lane = this.lanes.get(target) ?? new Lane(target);
    this.lanes.set(target, lane);
    return lane;
  }

  private queue(held: Held): void {
    const lane = this.lane(held.send.target);
    lane.insert(held);
    this.waitingCount++;
    this.ready.add(lane);
  }

  private take(id: string): Held | undefined {
    const held = this.sent.get(id);
    if (!held) return undefined;
    this.sent.delete(id);
    this.recent.delete(id);
    this.heldBytes -= held.send.frame.length;
    if (held.send.isRepeated && held.busy > 0) this.lane(held.send.target).retried--;
    return held;
  }

  /** Sends what the ready lanes have. A set's loop also visits what is added meanwhile. */
  private run(): void {
    for (const lane of this.ready) {
      this.ready.delete(lane);
      const hasSent = this.sendFrom(lane);
      const freed = lane.target !== EVERYONE ? this.everyone : hasSent ? [...this.lanes.values()] : [];
      for (const other of freed) if (other !== lane) this.ready.add(other);
      if (lane.waiting.length === 0 && lane.retried === 0) this.lanes.delete(lane.target);
    }
  }

  /** The lane of the broadcasts, if there is one. */
  private get everyone(): Lane[] {
    const lane = this.lanes.get(EVERYONE);
    return lane ? [lane] : [];
  }

  /** Sends the messages of a lane that nothing blocks. Returns false if there is none. */
  private sendFrom(lane: Lane): boolean {
    let hasSent = false;
    clearTimeout(lane.timer);
    while (this.sink) {
      const [held] = lane.waiting;
      if (!held || lane.retried > 0 || this.isBlocked(lane, held.order)) break;
      const waitMs = held.retryAt - performance.now();
      if (waitMs > 0) {
        lane.timer = setTimeout(() => this.wake(lane), waitMs);
        break;
      }
      if (this.sink.unwrittenBytes > UNWRITTEN_BYTES_MAX) {
        if (hasSent) this.moveToEnd(lane);
        break;
      }
      lane.waiting.shift();
      this.waitingCount--;
      this.write(this.sink, lane, held);
      hasSent = true;
    }
    return hasSent;
  }

  /** Lets the other lanes have a turn first when the connection has written what was too much. */
  private moveToEnd(lane: Lane): void {
    this.lanes.delete(lane.target);
    this.lanes.set(lane.target, lane);
  }

  private isBlocked(lane: Lane, order: number): boolean {
    if (lane.target === "") return false;
    const others = lane.target === EVERYONE ? [...this.lanes.values()] : this.everyone;
    return others.some((other) => other !== lane && other.target !== "" && other.blocks(order));
  }

  private wake(lane: Lane): void {
    this.ready.add(lane);
    this.run();
  }

  private write(sink: Sink, lane: Lane, held: Held): void {
    const { id, frame, isRepeated } = held.send;
    this.sent.set(id, held);
    if (isRepeated && held.busy > 0) lane.retried++;
    sink.write(frame);
    if (isRepeated) return;
    this.recent.add(id);
    this.settle(id, { id });
  }
}
