/** Tests against the daemon that AGENT_RELAY names. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { test } from "node:test";
import { type Client, EndedError, RelayError, connect } from "../src/index.js";
import { members } from "../src/wire.js";
import { Daemon, Events, codeOf, latestSocket, receive, within } from "./helpers.js";

test("messages arrive both ways, in order, with and without ACK", async (t) => {
  const daemon = new Daemon(t).start();
  const [ann, bob] = [await daemon.join("Ann"), await daemon.join("Bob")];
  for (const [from, to, name] of [[ann, bob, "Bob"], [bob, ann, "Ann"]] as const) {
    for (const ack of [true, false]) {
      const sent = Array.from({ length: 200 }, (_, n) => from.send({ to: name, body: `${n}`, data: { n }, ack }));
      for (let n = 0; n < 200; n++) {
        const message = await receive(to);
        assert.deepEqual([message.body, message.data, message.requiresAck], [`${n}`, { n }, ack]);
        message.ack();
      }
      const receipts = await within(Promise.all(sent), "receipts");
      assert.equal(receipts[0]?.durability, ack ? "disk" : undefined);
    }
  }
});

test("message has every fact of its DELIVER", async (t) => {
  const daemon = new Daemon(t).start();
  const ann = await daemon.join("Ann");
  await ann.send({ to: "ann", topic: "t", kind: "note", body: "ä\n\ud800", thread: "x", replyTo: "m-1", importance: 5 });
  const message = await receive(ann);
  assert.deepEqual([message.from, message.topic, message.payload.kind], ["Ann", "t", "note"]);
  assert.deepEqual([message.body, message.payload.thread, message.meta.replyTo], ["ä\n\ud800", "x", "m-1"]);
  assert.deepEqual([message.delivery.seq, members(message.delivery.sender).auth], [1, "claim"]);
});

test("join fails without a daemon, with a taken name, and with an invalid one", async (t) => {
  const daemon = new Daemon(t);
  assert.equal(await codeOf(daemon.join("Ann", { firstAttempts: 1 })), "NO_CONNECTION");
  daemon.start();
  await daemon.join("Ann");
  assert.equal(await codeOf(daemon.join("ANN")), "NAME_IN_USE");
  assert.equal(await codeOf(daemon.join("no spaces")), "INVALID_NAME");
});

test("name with a key needs the key, also on the way back", async (t) => {
  const daemon = new Daemon(t);
  const words = daemon.run("policy", "key", "Ann");
  const [key, policy] = [/\b[0-9a-f]{64}\b/.exec(words.replace(/sha256:[0-9a-f]+/g, ""))?.[0], /\[\[agent\]\][^]*?key = ".*"/.exec(words)?.[0]];
  assert(key && policy, words);
  writeFileSync(`${daemon.home}/policy.toml`, `${policy}\n`, { mode: 0o600 });
  daemon.start();
  const bob = await daemon.join("Bob");
  assert.equal(await codeOf(daemon.join("Ann")), "UNAUTHORIZED");
  const events = new Events();
  const ann = await daemon.join("Ann", { key }, events);
  await ann.send({ to: "Bob", body: "hello" });
  assert.equal(members((await receive(bob)).delivery.sender).auth, "key");
  await daemon.kill();
  daemon.start();
  await events.state("ready", 2);
  await bob.send({ to: "Ann", body: "back" });
  assert.equal((await receive(ann)).body, "back");
});

test("agents lists who is here and who is away", async (t) => {
  const daemon = new Daemon(t).start();
  const [ann, bob] = [await daemon.join("Ann"), await daemon.join("Bob")];
  await bob.close();
  await ann.send({ to: "Bob", body: "waits" });
  const agents = await within(ann.agents(), "the agents");
  const facts = agents.map(({ name, here, queued, since }) => [name, here, queued, since > 0]);
  assert.deepEqual(facts, [["Ann", true, 0, true], ["Bob", false, 1, true]]);
});

test("client is closed at the end of its block", async (t) => {
  const daemon = new Daemon(t).start();
  const ann = await daemon.join("Ann");
  {
    await using bob = await daemon.join("Bob");
    assert.equal(bob.state, "ready");
  }
  const agents = await within(ann.agents(), "the agents");
  assert.deepEqual(agents.map(({ name, here }) => [name, here]), [["Ann", true], ["Bob", false]]);
});

test("errors have names, and say what to do", async (t) => {
  const daemon = new Daemon(t);
  const absent = { name: "EndedError", code: "NO_CONNECTION", message: /no daemon listens at .*: start it with `agent-relay up`/ };
  await assert.rejects(connect({ name: "Ann", endpoint: daemon.endpoint }), (error: Error) => {
    assert.deepEqual([error instanceof EndedError, error instanceof RelayError], [true, true]);
    assert.equal(members(error.cause).code, "ENOENT");
    return matches(error, absent);
  });
  daemon.start();
  const ann = await daemon.join("Ann");
  await daemon.join("Bob");
  const named = (name: string, code: string, message: RegExp) => (error: Error) => matches(error, { name, code, message });
  await assert.rejects(daemon.join("Ann"), named("EndedError", "NAME_IN_USE", /choose another name, or end that one/));
  await assert.rejects(ann.send({ to: "Nobody", body: "?" }), named("RefusedError", "UNKNOWN_AGENT", /Bob/));
  await assert.rejects(ann.ask({ to: "Bob", body: "?" }, 1), named("TimeoutError", "SYNC_TIMEOUT", /Bob/));
  await ann.close();
  await assert.rejects(ann.send({ to: "Bob", body: "?" }), named("EndedError", "CLOSED", /make another one/));
});

/** Checks an error's name, code and message. */
function matches(error: Error, expected: { name: string; code: string; message: RegExp }): true {
  assert.deepEqual([error.name, members(error).code], [expected.name, expected.code]);
  assert.match(error.message, expected.message);
  assert.match(error.stack ?? "", new RegExp(`^${expected.name}: `));
  return true;
}

test("topics reach subscribers, and broadcasts everyone", async (t) => {
  const daemon = new Daemon(t).start();
  const [ann, bob] = [await daemon.join("Ann"), await daemon.join("Bob")];
  await bob.subscribe("build.>");
  assert.equal((await ann.send({ topic: "build.linux", body: "ok" })).recipients, 1);
  assert.equal((await ann.send({ topic: "test", body: "nobody" })).recipients, 0);
  const message = await receive(bob);
  assert.deepEqual([message.topic, message.body, message.delivery.originalTo], ["build.linux", "ok", "*"]);
  await bob.unsubscribe("build.>");
  assert.equal((await ann.send({ topic: "build.linux", body: "ok" })).recipients, 0);
  assert.equal((await ann.send({ to: "*", body: "all" })).recipients, 1);
  assert.equal((await receive(bob)).body, "all");
  assert.equal(await codeOf(bob.subscribe("a..b")), "INVALID");
});

test("questions are answered, refused, or time out", async (t) => {
  const daemon = new Daemon(t).start();
  const [ann, bob] = [await daemon.join("Ann"), await daemon.join("Bob")];
  const port = ann.ask({ to: "Bob", body: "Which port?" });
  (await receive(bob)).answer("8080");
  const { from, response, body } = await within(port, "the answer");
  assert.deepEqual([from, response, body], ["Bob", true, "8080"]);
  const data = ann.ask({ to: "Bob", body: "Data?" });
  (await receive(bob)).answer({ n: 1 }, false);
  assert.deepEqual(await within(data, "the answer"), { from: "Bob", response: false, body: undefined, data: { n: 1 } });
  const refused = ann.ask({ to: "Bob", body: "Again?" });
  (await receive(bob)).return("no");
  assert.equal(await codeOf(refused), "REFUSED");
  assert.equal(await codeOf(ann.ask({ to: "Bob", body: "Silence?" }, 300)), "SYNC_TIMEOUT");
  assert.equal(await codeOf(ann.ask({ to: "Nobody", body: "?" })), "UNKNOWN_AGENT");
  assert.equal(await codeOf(ann.ask({ to: "*", body: "?" })), "INVALID");
});

test("question survives the daemon", async (t) => {
  const daemon = new Daemon(t).start();
  const events = new Events();
  const [ann, bob] = [await daemon.join("Ann", {}, events), await daemon.join("Bob")];
  const answer = ann.ask({ to: "Bob", body: "Still there?" });
  const question = await receive(bob);
  await daemon.kill();
  question.answer("yes");
  daemon.start();
  assert.equal((await within(answer, "the answer")).body, "yes");
});

test("refusals have their codes", async (t) => {
  const daemon = new Daemon(t).start();
  const events = new Events();
  const [ann, bob] = [await daemon.join("Ann", {}, events), await daemon.join("Bob")];
  assert.equal(await codeOf(ann.send({ to: "Nobody", body: "?" })), "UNKNOWN_AGENT");
  assert.equal(await codeOf(ann.send({ body: "?" })), "INVALID");
  assert.equal(await codeOf(ann.send({ topic: "a.*", body: "?" })), "INVALID");
  assert.equal(await codeOf(ann.send({ to: "Bob", body: "x".repeat(2 ** 20) })), "TOO_LARGE");
  assert.match(await codeOf(ann.send({ to: "Bob", data: 1n })), /BigInt/);
  const returned = await ann.send({ to: "Bob", body: "return me" });
  (await receive(bob)).return("not mine");
  assert.equal((await events.refused(returned.id)).nack.code, "REFUSED");
  await ann.send({ to: "Bob", body: "later" });
  (await receive(bob)).return("busy", 50);
  const again = await receive(bob);
  assert.deepEqual([again.body, again.delivery.attempt], ["later", 2]);
  again.ack();
  await bob.close();
  const offline = await ann.send({ to: "Bob", body: "at most once", ack: false });
  assert.equal((await events.refused(offline.id)).nack.code, "AGENT_OFFLINE");
  const expired = await ann.send({ to: "Bob", body: "too late", ttlMs: 1 });
  assert.equal(expired.away, true);
  assert.equal((await events.refused(expired.id)).nack.code, "EXPIRED");
  await ann.close();
  assert.equal(await codeOf(ann.send({ to: "Bob", body: "closed" })), "CLOSED");
  assert.equal(await ann.receive(), undefined);
});

test("flood is slowed by BUSY and arrives once, in order", async (t) => {
  const daemon = new Daemon(t, "queue_max_messages = 20\n").start();
  const events = new Events();
  const ann = await daemon.join("Ann", {}, events);
  const bob = await daemon.join("Bob", { maxInflight: 4 });
  const ids = Array.from({ length: 100 }, (_, n) => `flood-${n}`);
  const sent = ids.map((id) => ann.send({ to: "Bob", body: id, id }));
  await events.find((event) => event.type === "busy" && event.id === "flood-99");
  for (const id of ids) {
    const message = await receive(bob);
    assert.equal(message.body, id);
    message.ack();
  }
  await within(Promise.all(sent), "receipts");
});

test("killed daemon loses, doubles and reorders nothing", async (t) => {
  const daemon = new Daemon(t).start();
  const [ann, bob] = [await daemon.join("Ann"), await daemon.join("Bob")];
  const count = 600;
  let [received, ended] = [0, false];
  let wake = () => {};
  const sendAll = async (from: Client, to: string) => {
    for (let n = 0; n < count; n += 10) {
      await Promise.all(Array.from({ length: 10 }, (_, i) => from.send({ to, body: `${n + i}` })));
    }
  };
  const receiveAll = async (client: Client) => {
    const bodies: number[] = [];
    for await (const message of client) {
      bodies.push(Number(message.body));
      message.ack();
      received++;
      wake();
      if (bodies.length === count) break;
    }
    return bodies;
  };
  const killer = async () => {
    for (const at of [100, 400, 700, 1000]) {
      while (received < at && !ended) await new Promise<void>((resolve) => (wake = resolve));
      await daemon.kill();
      daemon.start();
    }
  };
  const all = Promise.all([receiveAll(bob), receiveAll(ann), sendAll(ann, "Bob"), sendAll(bob, "Ann"), killer()]);
  const [atBob, atAnn] = await within(all, "the stream", 50_000).finally(() => (ended = true));
  const expected = Array.from({ length: count }, (_, n) => n);
  assert.deepEqual(atBob, expected);
  assert.deepEqual(atAnn, expected);
  await ann.send({ to: "Bob", body: "last" });
  assert.equal((await receive(bob)).body, "last");
});

test("lost connection ends no subscription, and loses no message that RESUME can replay", async (t) => {
  const daemon = new Daemon(t).start();
  const events = new Events();
  const [ann, bob] = [await daemon.join("Ann"), await daemon.join("Bob", {}, events)];
  await bob.subscribe("news");
  await ann.send({ to: "Bob", body: "first", ack: false }); // RESUME states how far this stream came.
  assert.equal((await receive(bob)).body, "first");
  const socket = latestSocket();
  socket.pause();
  await ann.send({ to: "Bob", body: "unread", ack: false });
  await ann.send({ to: "Ann", body: "The daemon has handled the message before." });
  socket.destroy();
  await events.state("ready", 2);
  assert.equal((await receive(bob)).body, "unread");
  assert.equal((await ann.send({ topic: "news", body: "n" })).recipients, 1);
  assert.equal((await receive(bob)).body, "n");
});
