/** Received messages. */
import { type Members, members, text } from "./wire.js";

/** What becomes of a delivery. */
export interface Outcomes {
  acknowledge(id: string): void;
  giveBack(id: string, reason: string, retryAfterMs: number | undefined): void;
  answer(message: Message, data: unknown, response: boolean): void;
}

/** A received message. */
export class Message {
  readonly id: string;
  readonly from: string;
  readonly topic: string | undefined;
  /** The text, or "" if there is none. */
  readonly body: string;
  readonly data: unknown;
  /** All of the payload: `kind`, `thread` … */
  readonly payload: Members;
  /** The members of `payload_meta`. */
  readonly meta: Members;
  /** Facts from the daemon: `seq`, `attempt`, `originalTo`, `sender` … */
  readonly delivery: Members;
  /** Whether the message must be acknowledged, returned or answered. */
  readonly requiresAck: boolean;
  /** The parameters of a question; undefined if the sender waits for no answer. */
  readonly question: Members | undefined;
  readonly #outcomes: Outcomes;
  readonly #raw: string;

  /** @internal */
  constructor(outcomes: Outcomes, envelope: Members, raw: string) {
    this.id = text(envelope.id) ?? "";
    this.from = text(envelope.from) ?? "";
    this.topic = text(envelope.topic);
    this.payload = members(envelope.payload);
    this.body = text(this.payload.body) ?? "";
    this.data = this.payload.data;
    this.meta = members(envelope.payload_meta);
    this.delivery = members(envelope.delivery);
    this.requiresAck = this.delivery.requires_ack === true;
    this.question = this.meta.sync === undefined ? undefined : members(this.meta.sync);
    this.#outcomes = outcomes;
    this.#raw = raw;
  }

  /** The DELIVER as it arrived, with exact integers beyond 2^53. */
  get raw(): string {
    return this.#raw;
  }

  /** Tells the daemon that the message is stored or processed. */
  ack(): void {
    this.#outcomes.acknowledge(this.id);
  }

  /** Returns the message: for good, or until it comes again after `retryAfterMs`. */
  return(reason: string, retryAfterMs?: number): void {
    this.#outcomes.giveBack(this.id, reason, retryAfterMs);
  }

  /** Answers a question with a text or other data, and acknowledges the message. */
  answer(data: unknown, response = true): void {
    this.#outcomes.answer(this, data, response);
  }
}
