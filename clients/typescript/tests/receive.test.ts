/** Tests of receiving: waits that end, iterators, and the program's view of a message. */
import assert from "node:assert/strict";
import { getEventListeners } from "node:events";
import { test } from "node:test";
import { inspect } from "node:util";
import { ScriptedDaemon, codeOf, latestSocket, receive, within } from "./helpers.js";

test("receive that ends without a message leaves it to the next call", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const { client } = daemon;
  assert.equal(await within(client.receive({ timeoutMs: 1 }), "the timeout"), undefined);
  const reason = new Error("enough");
  const controller = new AbortController();
  const waiting = client.receive({ signal: controller.signal, timeoutMs: Infinity });
  controller.abort(reason);
  await assert.rejects(within(waiting, "the abort"), reason);
  await assert.rejects(client.receive({ signal: controller.signal }), reason);
  await assert.rejects(within(client.receive({ signal: AbortSignal.timeout(1) }), "the timeout"), { name: "TimeoutError" });
  peer.deliver("d-1", 1, "one");
  assert.equal((await receive(client)).body, "one");
});

test("receive leaves nothing at its signal", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const { signal } = new AbortController();
  const first = daemon.client.receive({ signal });
  peer.deliver("d-1", 1, "one");
  assert.equal((await within(first, "a message"))?.body, "one");
  await daemon.client.receive({ signal, timeoutMs: 1 });
  const last = daemon.client.receive({ signal });
  await daemon.client.close();
  assert.equal(await within(last, "the end"), undefined);
  assert.deepEqual(getEventListeners(signal, "abort"), []);
});

test("messages arrive once and in order while calls are aborted at any time", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const count = 300;
  const bodies: number[] = [];
  for (let n = 0; bodies.length < count; n++) {
    const controller = new AbortController();
    // Delivered and aborted in one turn of the event loop, in different orders.
    if (n < count) peer.deliver(`d-${n + 1}`, n + 1, `${n}`);
    if (n % 3 === 0) setImmediate(() => controller.abort());
    else if (n % 3 === 1) latestSocket().once("data", () => controller.abort());
    else setTimeout(() => controller.abort());
    try {
      bodies.push(Number((await daemon.client.receive({ signal: controller.signal }))?.body));
    } catch (error) {
      assert.equal(error, controller.signal.reason);
    }
  }
  assert.deepEqual(bodies, Array.from({ length: count }, (_, n) => n));
});

test("calls get messages in their order", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const calls = [1, 2, 3].map(() => receive(daemon.client));
  for (const n of [1, 2, 3]) peer.deliver(`d-${n}`, n, `${n}`);
  const messages = await Promise.all(calls);
  assert.deepEqual(messages.map((message) => message.body), ["1", "2", "3"]);
});

test("iterator that is left takes no message", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join();
  const iterator = daemon.client[Symbol.asyncIterator]();
  const pending = iterator.next();
  await iterator.return?.();
  assert.deepEqual(await within(pending, "the end"), { done: true, value: undefined });
  assert.deepEqual(await within(iterator.next(), "the end"), { done: true, value: undefined });
  peer.deliver("d-1", 1, "one");
  for await (const message of daemon.client) {
    assert.equal(message.body, "one");
    break;
  }
});

test("key and token are in nothing that a program prints", async (t) => {
  const daemon = new ScriptedDaemon(t);
  const peer = await daemon.join({ key: "the secret key" });
  const { client } = daemon;
  peer.deliver("d-1", 1, "one");
  const message = await receive(client);
  const sent = client.send({ to: "Bob", body: "x" }).catch((error: unknown) => error);
  await peer.expect("SEND");
  peer.say("ERROR", { code: "SESSION_REPLACED", fatal: true, message: "resumed elsewhere" });
  const error = await within(sent, "the error");
  assert.equal(await codeOf(client.receive()), "SESSION_REPLACED");
  const iterator = client[Symbol.asyncIterator]();
  for (const printed of [client, message, error, iterator, daemon.events]) {
    const texts = [
      inspect(printed),
      inspect(printed, { showHidden: true, depth: Infinity, customInspect: false, getters: true }),
      JSON.stringify(printed),
    ];
    assert.doesNotMatch(texts.join("\n"), /the secret key|token of s-1/);
  }
  assert.match(inspect(message), /body: 'one'/);
  assert.equal(JSON.parse(JSON.stringify(message)).body, "one");
  assert.equal(inspect(client), "Client { name: 'Ann', state: 'ended' }");
});
