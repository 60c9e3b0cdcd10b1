/** Tests against a scripted daemon, which breaks the protocol or ends connections where the real one does not. */
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, renameSync } from "node:fs";
import { once } from "node:events";
import { createServer } from "node:net";
import { type TestContext, test } from "node:test";
import { type Client, connect } from "../src/index.js";
import { encode, members } from "../src/wire.js";
import { ScriptedDaemon, codeOf, latestSocket, paused, receive, temporaryHome, within } from "./helpers.js";

test("connection cut inside a frame is resumed without a doubled message", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const first = await daemon.join();
  first.deliver("d-1", 1, "one");
  first.deliver("d-2", 2, "two", false);
  (await receive(daemon.client)).ack();
  assert.equal((await first.expect("ACK")).payload.ack_id, "d-1");
  await receive(daemon.client);
  first.socket.end(encode("DELIVER", "d-3", { body: "three" }, { from: "Bob", to: "Ann" }).subarray(0, 20));
  const second = await daemon.peer();
  const resume = await second.expect("RESUME");
  assert.equal(resume.payload.resume_token, "token of s-1");
  assert.deepEqual(resume.payload.streams, [{ peer: "Bob", topic: "", last_seq: 2 }]);
  second.welcome();
  second.say("SYNC", { session_id: "s-1", streams: [] });
  second.deliver("d-1", 1, "one");
  second.deliver("d-2", 2, "two", false);
  second.deliver("d-3", 3, "three");
  assert.equal((await second.expect("ACK")).payload.ack_id, "d-1");
  assert.equal((await receive(daemon.client)).body, "three");
});

/** Joins, and subscribes to `news`. Returns the daemon's side of the connection. */
async function joinAndSubscribe(daemon: ScriptedDaemon) {
  const peer = await daemon.join();
  const subscribed = daemon.client.subscribe("news");
  peer.say("ACK", { ack_id: (await peer.expect("SUBSCRIBE")).id });
  await subscribed;
  return peer;
}

test("refused RESUME leads to HELLO, and a new session to new subscriptions", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const first = await joinAndSubscribe(daemon);
  first.socket.destroy();
  const second = await daemon.peer();
  const resume = await second.expect("RESUME");
  second.say("NACK", { ack_id: resume.id, code: "STALE", message: "too old" });
  const hello = await second.expect("HELLO");
  assert.deepEqual(hello.payload.session, { resume_token: "token of s-1" });
  second.welcome();
  await daemon.events.find((event) => event.type === "missed");
  await daemon.events.state("ready", 2);
  second.socket.destroy();
  const third = await daemon.peer();
  await third.expect("RESUME");
  third.say("ERROR", { code: "RESUME_REJECTED", fatal: false, message: "unknown" });
  assert.equal((await third.expect("HELLO")).payload.session, undefined);
  third.welcome("s-2");
  assert.equal((await third.expect("SUBSCRIBE")).topic, "news");
});

test("unaccepted SEND is sent again with the same id and bytes", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const first = await daemon.join();
  const sent = [1, 2].map((n) => daemon.client.send({ to: "Bob", body: `${n}` }));
  const before = [await first.expect("SEND"), await first.expect("SEND")];
  first.say("ACK", { ack_id: before[0]!.id, state: "accepted" });
  await sent[0];
  first.socket.destroy();
  const second = await daemon.peer();
  await second.expect("RESUME");
  second.welcome();
  const again = await second.expect("SEND");
  assert.deepEqual(again, before[1]);
  second.say("ACK", { ack_id: again.id, state: "accepted" });
  await within(Promise.all(sent), "receipts");
});

test("BUSY message is sent again and not overtaken, at most once too", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  await daemon.client.send({ to: "Bob", body: "1", ack: false });
  const busy = await peer.expect("SEND");
  peer.say("BUSY", { ack_id: busy.id, retry_after_ms: 50, queue_depth: 1 });
  await daemon.events.find((event) => event.type === "busy");
  const later = daemon.client.send({ to: "BOB", body: "2" });
  await daemon.client.send({ to: "Carol", body: "3", ack: false });
  const order = [await peer.expect("SEND"), await peer.expect("SEND"), await peer.expect("SEND")];
  assert.deepEqual(order.map((send) => send.payload.body), ["3", "1", "2"]);
  assert.equal(order[1]!.id, busy.id);
  peer.say("ACK", { ack_id: order[2]!.id, state: "accepted" });
  await later;
});

test("PING is answered with its nonce", async (t) => {
  const peer = await new ScriptedDaemon(t).join();
  peer.say("PING", { nonce: "n-1" });
  assert.equal((await peer.expect("PONG")).payload.nonce, "n-1");
});

test("frame that is too long, empty or broken ends the connection", async (t) => {
  const daemon = new ScriptedDaemon(t);
  let peer = await daemon.join({}, { max_frame_bytes: 4096 });
  const frames = ["00001001", "00000000", "00000002c328", "000000027b5d", "000000025b5d"];
  for (const frame of frames) {
    peer.socket.write(Buffer.from(frame, "hex"));
    await within(peer.closed, frame);
    peer = await daemon.peer();
    await peer.expect("RESUME");
    peer.welcome("s-1", { max_frame_bytes: 4096 });
  }
  await daemon.events.find((event) => event.type === "state" && /a frame has 4097 bytes/.test(event.reason ?? ""));
  assert.equal(await codeOf(daemon.client.send({ to: "Bob", body: "x".repeat(4096) })), "TOO_LARGE");
});

test("fatal ERROR that would repeat ends the client", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const sent = codeOf(daemon.client.send({ to: "Bob", body: "x" }));
  peer.deliver("d-1", 1, "unread");
  peer.say("ERROR", { code: "SESSION_REPLACED", fatal: true, message: "resumed elsewhere" });
  assert.equal(await sent, "SESSION_REPLACED");
  const read = async () => {
    for await (const message of daemon.client) assert.equal(message.body, "unread");
  };
  assert.equal(await codeOf(read()), "SESSION_REPLACED");
});

test("temporary ERROR and BYE lead to a new attempt", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const first = await daemon.join();
  first.say("ERROR", { code: "HEARTBEAT_TIMEOUT", fatal: true, message: "silent" });
  const second = await daemon.peer();
  await second.expect("RESUME");
  second.welcome();
  second.say("BYE", { reason: "upgrade" });
  await (await daemon.peer()).expect("RESUME");
});

test("reading pauses while too much is unread, and nothing is lost", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const count = 200;
  for (let n = 1; n <= count; n++) peer.deliver(`d-${n}`, n, `${n} ${"x".repeat(200_000)}`, false);
  // The kernel and the client take far less than the 40 MB that were written.
  const socket = latestSocket();
  await paused(socket);
  assert(peer.socket.writableLength > 0 && socket.bytesRead < 10_000_000, `${socket.bytesRead}`);
  for (let n = 1; n <= count; n++) assert.equal(Number.parseInt((await receive(daemon.client)).body), n);
});

test("call is answered although the program reads nothing", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  for (let n = 1; n <= 1500; n++) peer.deliver(`d-${n}`, n, "x".repeat(20_000), false);
  const sent = daemon.client.send({ to: "Bob", body: "x" });
  peer.say("ACK", { ack_id: (await peer.expect("SEND")).id, state: "accepted" });
  await within(sent, "the receipt");
});

test("integers beyond 2^53 are exact only in the raw text", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const json = '{"v":1,"type":"DELIVER","id":"d-1","ts":1,"from":"Bob","to":"Ann","payload":{"data":9007199254740993},'
    + '"delivery":{"seq":18446744073709551615,"requires_ack":true}}';
  peer.socket.write(Buffer.concat([Buffer.from([0, 0, 0, json.length]), Buffer.from(json)]));
  const message = await receive(daemon.client);
  assert.equal(message.data, 9007199254740992);
  assert.equal(/"data":(\d+)/.exec(message.raw)?.[1], "9007199254740993");
  message.ack();
  assert.deepEqual((await peer.expect("ACK")).payload, { ack_id: "d-1" });
  peer.socket.destroy();
  assert.deepEqual((await (await daemon.peer()).expect("RESUME")).payload.streams, []);
});

test("too many unacknowledged deliveries are returned for later", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const read = async () => {
    for (let n = 1; n <= 4096; n++) await receive(daemon.client);
  };
  const reading = read();
  for (let n = 1; n <= 4097; n++) peer.deliver(`d-${n}`, n, "x");
  await reading;
  const { payload } = await peer.expect("NACK");
  assert.deepEqual([payload.ack_id, payload.code, payload.retry_after_ms], ["d-4097", "LIMIT", 1000]);
});

test("too many messages before WELCOME are refused", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  peer.socket.destroy();
  await daemon.events.state("backoff");
  const sent = Array.from({ length: 4097 }, (_, n) => codeOf(daemon.client.send({ to: "Bob", body: `${n}` })));
  assert.equal(await sent[4096], "FULL");
  await daemon.client.close();
  assert.equal(await sent[0], "CLOSED");
});

test("peers that never answer are given up", { timeout: 30_000 }, async (t) => {
  const silent = new ScriptedDaemon(t);
  const joining = codeOf(connect({ name: "Ann", endpoint: silent.endpoint }));
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const question = codeOf(daemon.client.ask({ to: "Bob", body: "?" }, 1));
  const subscription = codeOf(daemon.client.subscribe("news"));
  assert.equal(await question, "TIMED_OUT");
  assert.equal(await subscription, "TIMED_OUT");
  assert.equal(await joining, "NO_CONNECTION");
  await peer.expect("SUBSCRIBE");
});

test("nothing is returned or dropped while a call waits and nothing is read", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const answer = daemon.client.ask({ to: "Bob", body: "?" });
  const { payload_meta } = await peer.expect("SEND");
  const sent = codeOf(daemon.client.send({ to: "Bob", body: "x" }));
  const count = 6000;
  for (let n = 1; n <= count; n++) peer.deliver(`d-${n}`, n, `${n} ${"x".repeat(1000)}`, n % 100 === 0);
  const socket = latestSocket();
  await paused(socket);
  const read = socket.bytesRead / 1000; // At most; a few more come with the last read.
  assert(read > 4096 && read < 5500, `${read}`);
  socket.emit("timeout"); // As after ten seconds: `send` has no timer, `ask` has one.
  assert.equal(await sent, "TIMED_OUT");
  for (let n = 1; n <= count; n++) assert.equal(Number.parseInt((await receive(daemon.client)).body), n);
  const { correlationId } = members(members(payload_meta).sync);
  peer.say("ACK", { ack_id: "d-0", correlationId, response: true, responseData: { body: "!" } }, { from: "Bob" });
  assert.equal((await within(answer, "the answer")).body, "!");
});

test("reader that is behind does not keep a new connection from WELCOME", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  for (let n = 1; n <= 1100; n++) peer.deliver(`d-${n}`, n, "x", false);
  await paused(latestSocket());
  latestSocket().destroy();
  const second = await daemon.peer();
  await second.expect("RESUME");
  await receive(daemon.client);
  assert.equal(latestSocket().isPaused(), false);
  second.welcome();
  await daemon.events.state("ready", 2);
  assert.equal(latestSocket().isPaused(), true);
});

test("subscriptions are renewed although the outbox is full", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const first = await joinAndSubscribe(daemon);
  first.socket.destroy();
  await daemon.events.state("backoff");
  for (let n = 0; n < 4096; n++) daemon.client.send({ to: "Bob", body: `${n}` }).catch(() => {});
  assert.equal(await codeOf(daemon.client.send({ to: "Bob", body: "x" })), "FULL");
  const second = await daemon.peer();
  await second.expect("RESUME");
  second.welcome("s-2");
  assert.equal((await second.expect("SUBSCRIBE")).topic, "news");
});

test("reason that is too long for a frame is refused, and the message stays", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  peer.deliver("d-1", 1, "one");
  const message = await receive(daemon.client);
  assert.throws(() => message.return("x".repeat(2_000_000)), { code: "TOO_LARGE" });
  message.ack();
  assert.equal((await peer.expect("ACK")).payload.ack_id, "d-1");
});

test("agents asks for all pages, and again on a new connection", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const first = await daemon.join();
  const asked = daemon.client.agents();
  const lost = await first.expect("SEND");
  assert.deepEqual([lost.to, lost.payload.kind, lost.payload.body], ["@relay", "request", "agents"]);
  first.socket.destroy();
  const second = await daemon.peer();
  await second.expect("RESUME");
  second.welcome();
  const respond = (replyTo: string, data: object) => {
    const others = { from: "@relay", to: "Ann", payload_meta: { replyTo }, delivery: { seq: 1, session_id: "s-1" } };
    second.say("DELIVER", { kind: "response", body: "agents", data }, others);
  };
  const again = await second.expect("SEND");
  assert.deepEqual(again, lost);
  respond(again.id, { agents: [{ name: "Ann" }], next_cursor: "Ann" });
  respond(again.id, { agents: [{ name: "Ann" }], next_cursor: "Ann" }); // To the first connection's request.
  const next = await second.expect("SEND");
  assert.equal(members(next.payload.data).cursor, "Ann");
  respond(next.id, { agents: [{ name: "Bob" }] });
  const agents = await within(asked, "the agents");
  assert.deepEqual(agents.map(({ name }) => name), ["Ann", "Bob"]);
  second.deliver("d-1", 1, "no response is a message");
  assert.equal((await receive(daemon.client)).body, "no response is a message");
  const refused = codeOf(daemon.client.agents());
  second.say("NACK", { ack_id: (await second.expect("SEND")).id, code: "LIMIT", message: "32 wait" });
  assert.equal(await refused, "LIMIT");
});

/** Counts a client's attempts, with short waits, until it ends or `max` are made; then calls `last`. */
async function countAttempts(t: TestContext, client: Client, max: number, last: () => void): Promise<number> {
  const real = setTimeout;
  const { mock } = t.mock.method(globalThis, "setTimeout", (callback: () => void) => real(callback, 1));
  let attempts = 0;
  await new Promise<void>((resolve) => {
    client.on("state", ({ state }) => {
      if (state === "connecting") attempts++;
      if (state === "ended" || (state === "backoff" && attempts === max)) resolve();
    });
  });
  mock.restore();
  last();
  return attempts;
}

test("lost client gives up after ten attempts, or never", async (t) => {
  for (const [reconnectAttempts, expected] of [[undefined, 10], [3, 3], [Infinity, 50]] as const) {
    const daemon = new ScriptedDaemon(t);
    const peer = await daemon.join({ reconnectAttempts });
    const sent = daemon.client.send({ to: "Bob", body: "waits" });
    const outcome = sent.then(() => "sent", (error: { code: string }) => error.code);
    daemon.close();
    peer.socket.destroy();
    const attempts = await countAttempts(t, daemon.client, 50, () => daemon.open());
    // The first connection counts, too, since it did not last for ten seconds.
    assert.equal(attempts, expected === 50 ? 50 : expected - 1);
    if (expected === 50) {
      const second = await daemon.peer();
      await second.expect("RESUME");
      second.welcome();
      second.say("ACK", { ack_id: (await second.expect("SEND")).id, state: "accepted" });
    }
    assert.equal(await within(outcome, "the outcome"), expected === 50 ? "sent" : "NO_CONNECTION");
  }
});

test("client waits for a daemon that has not started yet, if it may", async (t) => {
  const daemon = new ScriptedDaemon(t);
  daemon.close();
  daemon.client = daemon.events.client({ name: "Ann", endpoint: daemon.endpoint, firstAttempts: Infinity });
  const joining = daemon.client.join();
  await countAttempts(t, daemon.client, 50, () => daemon.open());
  const peer = await daemon.peer();
  await peer.expect("HELLO");
  peer.welcome();
  await within(joining, "WELCOME");
});

test("socket that nobody listens at is no daemon", async (t) => {
  const daemon = new ScriptedDaemon(t);
  renameSync(daemon.endpoint, `${daemon.endpoint}.old`); // So that it is not removed.
  daemon.close();
  await assert.rejects(connect({ name: "Ann", endpoint: `${daemon.endpoint}.old` }), (error: Error) => {
    assert.match(error.message, /no daemon listens at .*\.old: start it with `agent-relay up` \(NO_CONNECTION\)/);
    assert.equal(members(error.cause).code, "ECONNREFUSED");
    return true;
  });
});

test("client refuses to run on Windows", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const { platform } = process;
  t.after(() => Object.defineProperty(process, "platform", { value: platform }));
  Object.defineProperty(process, "platform", { value: "win32" });
  const client = daemon.events.client({ name: "Ann", endpoint: daemon.endpoint, firstAttempts: 10 });
  await assert.rejects(client.join(), { name: "EndedError", code: "UNSUPPORTED", message: /agent-relay send/ });
  assert.equal(await codeOf(client.send({ to: "Bob" })), "UNSUPPORTED");
  await daemon.events.state("ended");
});

test("calls before join wait for it, and after close fail", async (t) => {
  const daemon = new ScriptedDaemon(t);
  daemon.client = daemon.events.client({ name: "Ann", endpoint: daemon.endpoint });
  const sent = daemon.client.send({ to: "Bob", body: "early" });
  const joining = daemon.client.join();
  assert.equal(daemon.client.join(), joining);
  const peer = await daemon.peer();
  await peer.expect("HELLO");
  peer.welcome();
  await within(joining, "WELCOME");
  peer.say("ACK", { ack_id: (await peer.expect("SEND")).id, state: "accepted" });
  await within(sent, "the receipt");
  const never = daemon.events.client({ name: "Bob", endpoint: daemon.endpoint });
  await never.close();
  assert.equal(await codeOf(never.join()), "CLOSED");
});

test("client stays away as long as BYE says, at most a day", async (t) => {
  for (const [said, waited] of [[60_000, 60_000], [1e12, 86_400_000]] as const) {
    const daemon = new ScriptedDaemon(t);
    const peer = await daemon.join();
    const { mock } = t.mock.method(globalThis, "setTimeout");
    peer.say("BYE", { reason: "stop", retry_after_ms: said });
    await daemon.events.state("backoff");
    assert.equal(Math.max(...mock.calls.map((call) => Number(call.arguments[1]))), waited);
    mock.restore();
  }
});

test("id that is empty or too long is refused", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  for (const id of ["", "x".repeat(129), "ä".repeat(65)]) {
    assert.equal(await codeOf(daemon.client.send({ to: "Bob", id })), "INVALID");
  }
  daemon.client.send({ to: "Bob", id: "ä".repeat(64) }).catch(() => {});
  assert.equal((await peer.expect("SEND")).id, "ä".repeat(64));
});

test("daemon that hangs is left after three heartbeats", async (t) => {
  const daemon = new ScriptedDaemon(t);
  await daemon.join({}, { heartbeat_ms: 20 });
  await (await daemon.peer()).expect("RESUME");
  await daemon.events.find((event) => event.type === "state" && /silent/.test(event.reason ?? ""));
});

test("endpoint that others may replace is refused", async (t) => {
  const home = temporaryHome(t);
  mkdirSync(`${home}/open`);
  const server = createServer().listen(`${home}/open/relay.sock`);
  t.after(() => server.close());
  await once(server, "listening");
  chmodSync(`${home}/open`, 0o777);
  await assert.rejects(connect({ name: "Ann", endpoint: `${home}/open/relay.sock` }), /other users may write/);
  chmodSync(`${home}/open`, 0o755);
  chmodSync(`${home}/open/relay.sock`, 0o666);
  await assert.rejects(connect({ name: "Ann", endpoint: `${home}/open/relay.sock` }), /other users may write/);
});
