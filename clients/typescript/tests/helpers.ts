/** Helpers of the tests: a real daemon, a scripted one, and watchdogs. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { subscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type Server, type Socket, createServer } from "node:net";
import type { TestContext } from "node:test";
import { Client, type Events as ClientEvents, type Message, type Options } from "../src/index.js";
import { FrameReader, type Members, encode, members } from "../src/wire.js";

/** Waits for a promise, at most `ms`. */
export async function within<T>(promise: Promise<T>, what: string, ms = 20_000): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const watchdog = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing for ${ms} ms`)), ms);
  });
  return Promise.race([promise, watchdog]).finally(() => clearTimeout(timer));
}

/** The code that a promise is rejected with. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await within(promise, "a rejection");
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
  return "resolved";
}

/** A temporary home of a daemon, which the test removes at its end. */
export function temporaryHome(t: TestContext): string {
  const home = mkdtempSync("/tmp/ar-ts-");
  t.after(() => rmSync(home, { recursive: true, force: true }));
  return home;
}

let latest: Socket | undefined;
subscribe("net.client.socket", (message) => (latest = (message as { socket: Socket }).socket));

/** The socket of the client that has connected last. */
export function latestSocket(): Socket {
  if (!latest) throw new Error("no client has connected");
  return latest;
}

/** Waits until a client reads no further. */
export async function paused(socket: Socket): Promise<void> {
  while (!socket.isPaused()) await new Promise((resolve) => setImmediate(resolve));
}

/** An event with its name. */
export type Event = {
  [Name in keyof ClientEvents]: { type: Name } & (Name extends "warning" ? { error: Error } : ClientEvents[Name][0]);
}[keyof ClientEvents];

/** The events of a client, in order of arrival. */
export class Events {
  private readonly seen: Event[] = [];
  private wakers: (() => void)[] = [];

  /** Creates a client whose events these are. */
  client(options: Options): Client {
    const client = new Client(options);
    for (const type of ["state", "refused", "busy", "missed"] as const) {
      client.on(type, (event: object) => this.push({ type, ...event } as Event));
    }
    return client.on("warning", (error) => this.push({ type: "warning", error }));
  }

  private push(event: Event): void {
    this.seen.push(event);
    for (const wake of this.wakers.splice(0)) wake();
  }

  /** Waits for `count` events that match, and returns the last of them. */
  async find<T extends Event>(is: (event: Event) => event is T, count?: number): Promise<T>;
  async find(is: (event: Event) => boolean, count?: number): Promise<Event>;
  async find(is: (event: Event) => boolean, count = 1): Promise<Event> {
    for (;;) {
      const found = this.seen.filter(is)[count - 1];
      if (found) return found;
      await within(new Promise<void>((wake) => this.wakers.push(wake)), `events ${JSON.stringify(this.seen.slice(-5))}`);
    }
  }

  refused(id: string): Promise<Event & { type: "refused" }> {
    return this.find((event): event is Event & { type: "refused" } => event.type === "refused" && event.id === id);
  }

  state(state: string, count = 1): Promise<Event> {
    return this.find((event) => event.type === "state" && event.state === state, count);
  }
}

/** A real daemon with a temporary home. */
export class Daemon {
  readonly endpoint: string;
  private process: ChildProcess | undefined;
  private readonly clients: Client[] = [];

  constructor(t: TestContext, config = "", readonly home = mkdtempSync("/tmp/ar-ts-")) {
    this.endpoint = `${home}/relay.sock`;
    writeFileSync(`${home}/config.toml`, config, { mode: 0o600 });
    t.after(async () => {
      await this.stop();
      rmSync(home, { recursive: true, force: true });
    });
  }

  private get program(): string {
    const program = process.env.AGENT_RELAY;
    if (!program) throw new Error("AGENT_RELAY must be the path of the daemon's program");
    return program;
  }

  private get options() {
    const env = { PATH: process.env.PATH, HOME: this.home, XDG_STATE_HOME: this.home };
    return { env, stdio: ["ignore", "pipe", "ignore"] as ["ignore", "pipe", "ignore"] };
  }

  start(): this {
    const words = ["--home", this.home, "--endpoint", this.endpoint, "up", "--foreground"];
    this.process = spawn(this.program, words, { ...this.options, stdio: "ignore" });
    return this;
  }

  run(...words: string[]): string {
    return execFileSync(this.program, ["--home", this.home, ...words], this.options).toString();
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.process;
    this.process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const exit = once(child, "exit");
    child.kill(signal);
    await within(exit, "the daemon's end");
  }

  async stop(): Promise<void> {
    await Promise.all(this.clients.map((client) => client.close()));
    await this.kill();
  }

  /** Joins as an agent; the client is closed with the daemon. */
  async join(name: string, options: Partial<Options> = {}, events = new Events()): Promise<Client> {
    const client = events.client({ name, endpoint: this.endpoint, firstAttempts: 10, ...options });
    this.clients.push(client);
    await within(client.join(), `join ${name}`);
    return client;
  }
}

export async function receive(client: Client): Promise<Message> {
  const message = await within(client.receive(), "a message");
  if (!message) throw new Error("the client is closed");
  return message;
}

/** A connection of a scripted daemon. */
export class Peer {
  private readonly reader = new FrameReader();
  private readonly envelopes: Members[] = [];
  private wakers: (() => void)[] = [];
  readonly closed: Promise<unknown>;

  constructor(readonly socket: Socket) {
    this.closed = once(socket, "close");
    socket.on("error", () => {});
    socket.on("data", (chunk) => {
      for (const json of this.reader.read(chunk)) this.envelopes.push(JSON.parse(json) as Members);
      for (const wake of this.wakers.splice(0)) wake();
    });
  }

  /** Waits for the next envelope of a type, and skips others. */
  async expect(type: string): Promise<{ id: string; payload: Members } & Members> {
    for (;;) {
      const envelope = this.envelopes.shift();
      if (envelope?.type === type) return { ...envelope, id: String(envelope.id), payload: members(envelope.payload) };
      if (!envelope) await within(new Promise<void>((wake) => this.wakers.push(wake)), type);
    }
  }

  say(type: string, payload: object, others: object = {}, id = `${type}-${Math.random()}`): string {
    this.socket.write(encode(type, id, payload, others));
    return id;
  }

  welcome(session = "s-1", server: object = {}): void {
    const all = { max_frame_bytes: 1048576, heartbeat_ms: 5000, ...server };
    this.say("WELCOME", { session_id: session, resume_token: `token of ${session}`, server: all, capabilities: {} });
  }

  deliver(id: string, seq: number, body: string, requires_ack = true): void {
    const delivery = { seq, session_id: "s-1", requires_ack };
    this.say("DELIVER", { kind: "message", body }, { from: "Bob", to: "Ann", delivery }, id);
  }
}

/** A daemon that does what a test says. */
export class ScriptedDaemon {
  readonly endpoint: string;
  private readonly peers: Peer[] = [];
  private wakers: (() => void)[] = [];
  private server!: Server;
  private readonly sockets: Socket[] = [];
  client!: Client;
  readonly events = new Events();

  constructor(t: TestContext) {
    this.endpoint = `${temporaryHome(t)}/relay.sock`;
    this.open();
    t.after(() => {
      this.close();
      for (const socket of this.sockets) socket.destroy();
    });
    t.after(() => this.client?.close());
  }

  /** Listens. The socket exists when this returns. */
  open(): void {
    this.server = createServer((socket) => {
      this.sockets.push(socket);
      this.peers.push(new Peer(socket));
      for (const wake of this.wakers.splice(0)) wake();
    }).listen(this.endpoint);
  }

  /** Ends to listen, and removes the socket. */
  close(): void {
    this.server.close();
  }

  /** Waits for the next connection. */
  async peer(): Promise<Peer> {
    for (;;) {
      const peer = this.peers.shift();
      if (peer) return peer;
      await within(new Promise<void>((wake) => this.wakers.push(wake)), "a connection");
    }
  }

  /** Joins Ann, and returns her first connection. */
  async join(options: Partial<Options> = {}, server: object = {}): Promise<Peer> {
    this.client = this.events.client({ name: "Ann", endpoint: this.endpoint, ...options });
    const joining = this.client.join();
    const peer = await this.peer();
    await peer.expect("HELLO");
    peer.welcome("s-1", server);
    await within(joining, "WELCOME");
    return peer;
  }
}
