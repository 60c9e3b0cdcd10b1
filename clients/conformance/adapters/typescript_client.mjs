#!/usr/bin/env node
// Lets the conformance kit drive the TypeScript client: typescript_client.mjs NAME.
import { createInterface } from "node:readline";
import { Client } from "../../typescript/dist/src/index.js";

function show(type, payload, members = {}) {
  console.log(JSON.stringify({ type, ...members, payload }));
}
const questions = new Map();

async function receive(client) {
  for await (const message of client) {
    if (message.question) questions.set(message.id, message);
    show("DELIVER", message.payload, { id: message.id, from: message.from });
    if (!message.question) message.ack();
  }
}

/** Starts a command. Messages are not awaited, so that several can be in flight. */
async function obey(client, command, target, rest) {
  if (command === "send") show("ACK", await client.send({ to: target, body: rest }));
  else if (command === "publish") show("ACK", await client.send({ topic: target, body: rest }));
  else if (command === "subscribe") await client.subscribe(target);
  else if (command === "unsubscribe") await client.unsubscribe(target);
  else if (command === "ask") {
    const { from, response, data } = await client.ask({ to: target, body: rest });
    show("ACK", { response, responseData: data }, { from });
  } else if (command === "answer") questions.get(target).answer(rest);
  else throw new Error(`there is no command ${command}`);
}

function fail(error) {
  if (error.code === undefined) throw error;
  show("NACK", { code: error.code, message: error.message });
}

async function takeCommands(client) {
  for await (const line of createInterface({ input: process.stdin })) {
    const [command, target, ...rest] = line.split(" ");
    obey(client, command, target, rest.join(" ")).catch(fail);
  }
  await client.close();
}

function end(error) {
  console.error(error.message);
  process.exit(1);
}

const client = new Client({ name: process.argv[2] });
// The failures that no call rejects.
client.on("refused", ({ id, nack }) => show("NACK", { ...nack, ack_id: id }));
client
  .join()
  .then(() => {
    takeCommands(client).catch(end);
    return receive(client);
  })
  .then(() => process.exit(0), end);
