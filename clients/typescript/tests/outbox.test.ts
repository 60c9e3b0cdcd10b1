/** Tests of the order of sent messages, without a connection. */
import assert from "node:assert/strict";
import { Session } from "node:inspector";
import { type TestContext, test } from "node:test";
import type { Outbox as Box, Send } from "../src/outbox.js";

// The engine counts in code that it compiles after this.
const engine = new Session();
engine.connect();
engine.post("Profiler.enable");
engine.post("Profiler.startPreciseCoverage", { callCount: true, detailed: true });
const { Outbox } = await import("../src/outbox.js");

/** Returns how many blocks of outbox.js were run since the last call. */
function workDone(): number {
  let count = 0;
  engine.post("Profiler.takePreciseCoverage", (error, coverage) => {
    assert.equal(error, null);
    const script = coverage.result.find(({ url }) => url.endsWith("/src/outbox.js"));
    for (const { ranges } of script?.functions ?? []) for (const range of ranges) count += range.count;
  });
  return count;
}

/** A clock that stands until the test lets time pass. */
class Clock {
  private now = 0;
  private readonly timers = new Set<() => void>();

  constructor(t: TestContext) {
    t.mock.method(performance, "now", () => this.now);
    t.mock.method(globalThis, "setTimeout", (callback: () => void) => (this.timers.add(callback), callback));
    t.mock.method(globalThis, "clearTimeout", (callback: () => void) => this.timers.delete(callback));
  }

  /** Lets a minute pass, which is longer than any wait. */
  pass(): void {
    this.now += 60_000;
    for (const callback of this.timers) {
      this.timers.delete(callback);
      callback();
    }
  }
}

/** A connection that notes what is written. */
class Written {
  readonly ids: string[] = [];
  unwrittenBytes = 0;
  /** Whether the connection is full after each frame. */
  isSlow = false;

  write(frame: Buffer): void {
    this.ids.push(frame.toString());
    if (this.isSlow) this.unwrittenBytes = 2 ** 30;
  }
}

function message(id: string, target: string, isRepeated = true): Send {
  return { id, frame: Buffer.from(id), target, isRepeated };
}

/** An outbox that is connected, at a standing clock. */
function connected(t: TestContext): { outbox: Box; written: Written; clock: Clock } {
  const clock = new Clock(t);
  const outbox = new Outbox(() => {});
  const written = new Written();
  outbox.connected(written);
  return { outbox, written, clock };
}

test("a busy recipient delays its own messages and broadcasts, and nobody else's", (t) => {
  const { outbox, written, clock } = connected(t);
  outbox.add(message("bob 1", "bob"));
  outbox.busy("bob 1", 1);
  outbox.add(message("bob 2", "bob"));
  outbox.add(message("carol 1", "carol"));
  outbox.add(message("all 1", "*"));
  outbox.add(message("carol 2", "carol"));
  outbox.add(message("subscription", ""));
  assert.deepEqual(written.ids, ["bob 1", "carol 1", "subscription"]);
  clock.pass();
  assert.equal(written.ids.at(-1), "bob 1");
  outbox.answered("bob 1");
  assert.deepEqual(written.ids.slice(-3), ["bob 2", "all 1", "carol 2"]);
});

test("a busy broadcast delays all later messages until it is accepted", (t) => {
  const { outbox, written, clock } = connected(t);
  outbox.add(message("all 1", "*"));
  outbox.busy("all 1", 1);
  outbox.add(message("bob 1", "bob"));
  outbox.add(message("carol 1", "carol"));
  clock.pass();
  assert.deepEqual(written.ids, ["all 1", "all 1"]);
  outbox.answered("all 1");
  assert.deepEqual(written.ids.slice(2), ["bob 1", "carol 1"]);
});

test("a request that the daemon puts off delays no message", (t) => {
  const { outbox, written } = connected(t);
  outbox.add(message("request", ""));
  outbox.busy("request", 1);
  outbox.add(message("all 1", "*"));
  outbox.add(message("bob 1", "bob"));
  assert.deepEqual(written.ids, ["request", "all 1", "bob 1"]);
});

test("recipients take turns while the connection is full", (t) => {
  const { outbox, written } = connected(t);
  written.unwrittenBytes = 2 ** 30;
  for (const id of ["bob 1", "bob 2", "bob 3", "carol 1"]) outbox.add(message(id, id.slice(0, -2)));
  assert.deepEqual(written.ids, []);
  written.isSlow = true;
  for (const _ of [1, 2, 3, 4]) {
    written.unwrittenBytes = 0;
    outbox.flush();
  }
  assert.deepEqual(written.ids, ["bob 1", "carol 1", "bob 2", "bob 3"]);
});

for (const [title, targetOf] of [
  ["one recipient", () => "bob"],
  ["many recipients", (n: number) => `agent-${n}`],
  ["few recipients and broadcasts", (n: number) => (n % 10 === 0 ? "*" : `agent-${n % 7}`)],
] as const) {
  test(`work for a message does not grow with the outbox: ${title}`, (t) => {
    const { outbox } = connected(t);
    const count = 4096;
    workDone();
    for (let n = 0; n < count; n++) outbox.add(message(`${n}`, targetOf(n)));
    for (let n = 0; n < count; n++) outbox.busy(`${n}`, 30_000);
    outbox.disconnected();
    outbox.connected(new Written());
    for (let n = 0; n < count; n++) outbox.answered(`${n}`);
    const blocks = workDone();
    assert(blocks > count && blocks < 500 * count, `${blocks} blocks for ${count} messages`);
  });
}

/** Plays random events, and checks that no message overtakes an earlier one that was refused. */
class Simulation {
  private readonly outbox = new Outbox((id) => this.accepted.add(id));
  private readonly added: { id: string; target: string; refusals: number }[] = [];
  private readonly accepted = new Set<string>();
  /** What is written on this connection and not answered. */
  private readonly unanswered = new Set<string>();

  constructor(private readonly random: (below: number) => number, private readonly clock: Clock) {}

  run(count: number): void {
    this.connect();
    while (this.added.length < count || this.accepted.size < count) {
      if (this.added.length < count && this.random(2) === 0) this.add();
      else if (this.unanswered.size > 0) this.answer();
      else this.clock.pass();
      if (this.random(50) === 0) this.reconnect();
    }
  }

  private connect(): void {
    this.outbox.connected({ unwrittenBytes: 0, write: (frame) => this.written(frame.toString()) });
  }

  private reconnect(): void {
    this.outbox.disconnected();
    this.unanswered.clear();
    this.connect();
  }

  private add(): void {
    const added = { id: `${this.added.length}`, target: ["bob", "carol", "dave", "*"][this.random(4)]!, refusals: 0 };
    this.added.push(added);
    this.outbox.add(message(added.id, added.target));
  }

  private answer(): void {
    const all = [...this.unanswered];
    const id = all[this.random(all.length)]!;
    this.unanswered.delete(id);
    const added = this.added[Number(id)]!;
    if (this.random(3) > 0 || added.refusals === 3) {
      this.accepted.add(id);
      this.outbox.answered(id);
    } else {
      added.refusals++;
      this.outbox.busy(id, 1);
    }
  }

  private written(id: string): void {
    assert(!this.accepted.has(id) && !this.unanswered.has(id), `${id} was sent twice`);
    const { target } = this.added[Number(id)]!;
    for (const earlier of this.added.slice(0, Number(id))) {
      const isBefore = target === "*" || earlier.target === "*" || earlier.target === target;
      if (!isBefore || this.accepted.has(earlier.id)) continue;
      assert(this.unanswered.has(earlier.id), `${id} overtook ${earlier.id}, which waits`);
      assert.equal(earlier.refusals, 0, `${id} overtook ${earlier.id}, which was refused`);
    }
    this.unanswered.add(id);
  }
}

test("no message overtakes one that was refused, in random orders of events", (t) => {
  const clock = new Clock(t);
  for (let seed = 1; seed <= 40; seed++) {
    let state = seed;
    const random = (below: number) => {
      state = (state * 48271) % 2147483647;
      return state % below;
    };
    new Simulation(random, clock).run(60);
  }
});
