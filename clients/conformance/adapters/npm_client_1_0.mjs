#!/usr/bin/env node
// Lets the conformance kit drive the client of the npm package agent-relay 1.6.0, which speaks
// version 1.0: npm_client_1_0.mjs PACKAGE NAME. It passes on no ACK and no NACK, and has no topics
// to send on.
import { resolve } from "node:path";
import { createInterface } from "node:readline";

const [folder, agentName] = process.argv.slice(2);
console.log = console.error; // The client prints what it does.
const { RelayClient } = await import(resolve(folder, "dist/wrapper/client.js"));

const client = new RelayClient({ agentName, socketPath: process.env.AGENT_RELAY_ENDPOINT });
client.onMessage = (from, payload, id) => {
  process.stdout.write(JSON.stringify({ type: "DELIVER", id, from, payload }) + "\n");
};
await client.connect();
for await (const line of createInterface({ input: process.stdin })) {
  const [command, target, ...rest] = line.split(" ");
  if (command === "send") {
    const meta = { requires_ack: true };
    client.sendMessage(target, rest.join(" "), "message", undefined, undefined, meta);
  } else client[command](target);
}
client.destroy();
