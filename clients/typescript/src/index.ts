/** A client of Agent Relay: joins the daemon, sends, receives, asks and answers, and reconnects. */
import { EventEmitter } from "node:events";
import { inspect } from "node:util";
import { EndedError, RefusedError, RelayError, TimeoutError } from "./errors.js";
import type { Message } from "./message.js";
import type { Receipt } from "./outbox.js";
import { Session } from "./session.js";
import type { ReceiveOptions } from "./unread.js";
import { type Members, text } from "./wire.js";

export { EndedError, RefusedError, RelayError, TimeoutError };
export type { Members, Message, ReceiveOptions, Receipt };

/** The settings of a client. */
export interface Options {
  /** The agent's name. */
  name: string;
  /** The key of the name, if the owner has set one. */
  key?: string | undefined;
  /** The daemon's socket. Default: see README.md. */
  endpoint?: string | undefined;
  /** How many at-least-once messages may be unacknowledged, at most 4,096. Default: 256. */
  maxInflight?: number | undefined;
  /** The attempts before `join` fails; `Infinity` for no end. Default: 1. */
  firstAttempts?: number | undefined;
  /** The attempts to come back after a lost connection; `Infinity` for no end. Default: 10. */
  reconnectAttempts?: number | undefined;
}

export type State = "connecting" | "handshaking" | "ready" | "backoff" | "ended";

/** The events of a client, and what their listeners get. */
export interface Events {
  /** The connection's state has changed, possibly for a reason. */
  state: [{ state: State; reason: string | undefined }];
  /** A message did not arrive, or not at `nack.to`. No call was rejected for it. */
  refused: [{ id: string; nack: Members }];
  /** The recipient's queue is full: the message is sent again after `waitMs`. */
  busy: [{ id: string; waitMs: number }];
  /** At-most-once messages are possibly lost. */
  missed: [{ reason: string }];
  /** The daemon has refused something that no call waits for, such as an earlier subscription. */
  warning: [RelayError];
}

/** A message to an agent, to everyone (`to: "*"`) or to the subscribers of a topic. */
export interface Outgoing {
  to?: string | undefined;
  topic?: string | undefined;
  body?: string | undefined;
  /** Any JSON value. */
  data?: unknown;
  /** Default: `message`. */
  kind?: string | undefined;
  thread?: string | undefined;
  /** The id of the message that this one replies to. */
  replyTo?: string | undefined;
  /** From 0 to 100. */
  importance?: number | undefined;
  /** How long the message waits for its recipient, in milliseconds. */
  ttlMs?: number | undefined;
  /** False sends the message at most once. Default: true. */
  ack?: boolean | undefined;
  /** The id, of 1 to 128 bytes. Default: a random one. */
  id?: string | undefined;
}

/** The answer to a question. `body` is the text in `data`. */
export interface Answer {
  from: string;
  response: boolean | undefined;
  body: string | undefined;
  data: unknown;
}

/** An agent that the daemon knows. docs/RELAY-API.md lists all members. */
export interface Agent {
  name: string;
  /** Whether the agent is connected. */
  here: boolean;
  /** The time since which it is connected, or away, in milliseconds since 1970. */
  since: number;
  /** How many messages wait for it or are in flight. */
  queued: number;
  /** The machine of an agent of another machine. */
  host?: string;
  program?: string;
  directory?: string;
  activity?: string;
  [member: string]: unknown;
}

/** Joins the daemon under a name. Rejected with an `EndedError` if that fails. */
export async function connect(options: Options): Promise<Client> {
  const client = new Client(options);
  await client.join();
  return client;
}

/** An agent. Iterating over it yields the messages that it receives, until it is closed. */
export class Client extends EventEmitter<Events> {
  readonly name: string;
  readonly #session: Session;

  /** Creates a client that has not joined yet, so that listeners can be added before. */
  constructor(options: Options) {
    super();
    this.name = options.name;
    // Listeners are called after the current step, since they could not call the client within it.
    this.#session = new Session({ ...options }, (name, event) => {
      queueMicrotask(() => (this as EventEmitter).emit(name, event));
    });
  }

  get state(): State {
    return this.#session.state;
  }

  /** Joins the daemon. Rejected with an `EndedError` if the attempts are used up or it refuses. */
  join(): Promise<void> {
    return this.#session.join();
  }

  /** Sends a message, and waits until it is accepted, or, if at most once, until it is written. */
  send(message: Outgoing): Promise<Receipt> {
    return this.#session.send(message);
  }

  /** Asks an agent a question, at least once, and waits for the answer. */
  ask(message: Outgoing, timeoutMs = 30_000): Promise<Answer> {
    return this.#session.ask(message, timeoutMs);
  }

  /** Subscribes to the topics that match a pattern, also on later connections. */
  subscribe(pattern: string): Promise<void> {
    return this.#session.subscribe(pattern);
  }

  /** Ends the subscription to a pattern. */
  unsubscribe(pattern: string): Promise<void> {
    return this.#session.unsubscribe(pattern);
  }

  /** Lists the agents that the daemon knows, in the order of their names. */
  async agents(): Promise<Agent[]> {
    const all: Agent[] = [];
    for (let cursor: string | undefined; ; ) {
      const page = await this.#session.request("agents", { cursor, limit: 1000 });
      const agents = Array.isArray(page.agents) ? (page.agents as Agent[]) : [];
      all.push(...agents);
      cursor = text(page.next_cursor);
      if (cursor === undefined || agents.length === 0) return all;
    }
  }

  /**
   * Waits for the next message. Returns undefined once the client is closed, or after `timeoutMs`.
   * A call that ends without a message leaves it to the next call.
   */
  receive(options: ReceiveOptions = {}): Promise<Message | undefined> {
    return this.#session.unread.receive(options);
  }

  [Symbol.asyncIterator](): AsyncIterableIterator<Message> {
    const left = new AbortController();
    const end = { done: true as const, value: undefined };
    return {
      next: async () => {
        try {
          const message = await this.receive({ signal: left.signal });
          return message ? { done: false, value: message } : end;
        } catch (error) {
          if (error === left.signal.reason) return end;
          throw error;
        }
      },
      return: async () => {
        left.abort();
        return end;
      },
      [Symbol.asyncIterator]() {
        return this;
      },
    };
  }

  /** Says BYE, waits until the daemon has closed the connection, and ends the client. */
  close(): Promise<void> {
    return this.#session.close();
  }

  /** Closes the client at the end of its `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** Name and state, without the listeners. */
  toJSON(): { name: string; state: State } {
    return { name: this.name, state: this.state };
  }

  [inspect.custom](): string {
    return `Client ${inspect(this.toJSON())}`;
  }
}
