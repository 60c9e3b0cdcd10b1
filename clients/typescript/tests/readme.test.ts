/** Plays the examples of README.md as printed, against the daemon that AGENT_RELAY names. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { type TestContext, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Daemon, receive, within } from "./helpers.js";

const root = fileURLToPath(new URL("../..", import.meta.url));
const readme = readFileSync(`${root}/README.md`, "utf8");

/** Runs an example in a process of its own, and returns what it prints. */
function play(t: TestContext, daemon: Daemon, name: string): Promise<string> {
  const code = new RegExp(`\`\`\`js ${name}\n([^]*?)\`\`\``).exec(readme)?.[1];
  assert(code, name);
  assert(code.trim().split("\n").length <= 12, `${name} is no short example`);
  const modules = `${daemon.home}/node_modules/@agent-relay`;
  mkdirSync(modules, { recursive: true });
  try {
    symlinkSync(root, `${modules}/client`);
  } catch {} // Another example of this test has made the link.
  const file = `${daemon.home}/${name}.mjs`;
  writeFileSync(file, code);
  const env = { PATH: process.env.PATH, HOME: daemon.home, AGENT_RELAY_ENDPOINT: daemon.endpoint };
  const child: ChildProcess = spawn(process.execPath, [file], { env, stdio: ["ignore", "pipe", "inherit"] });
  t.after(() => child.kill("SIGKILL"));
  let output = "";
  child.stdout?.on("data", (chunk) => (output += chunk));
  return within(new Promise((resolve) => child.once("close", (code) => resolve(`${output}exit ${code}`))), name);
}

test("examples of sending and receiving work", async (t) => {
  const daemon = new Daemon(t).start();
  await (await daemon.join("Carol")).close();
  assert.match(await play(t, daemon, "send"), /^UNKNOWN_AGENT .*\nexit 0$/);
  await (await daemon.join("Bob")).close();
  assert.equal(await play(t, daemon, "send"), "Bob is away: it waits for him\nexit 0");
  assert.equal(await play(t, daemon, "receive"), "Ann: Your turn\nexit 0");
  await play(t, daemon, "send");
  assert.equal(await play(t, daemon, "wait"), "Your turn\nexit 0");
  assert.equal(await play(t, daemon, "agents"), [
    "Ann is here 0 messages wait", "Bob is away 0 messages wait", "Carol is away 0 messages wait", "exit 0",
  ].join("\n"));
});

test("examples of asking and answering work", async (t) => {
  const daemon = new Daemon(t).start();
  const bob = await daemon.join("Bob");
  const asked = play(t, daemon, "ask");
  (await receive(bob)).answer("8080");
  assert.equal(await asked, "Bob 8080\nexit 0");
  await bob.close();
  const ann = await daemon.join("Ann");
  const [answer] = await Promise.all([ann.ask({ to: "Bob", body: "?" }), play(t, daemon, "answer")]);
  assert.equal(answer.body, "8080");
});

test("example of topics works", async (t) => {
  const daemon = new Daemon(t).start();
  await (await daemon.join("Carol")).close();
  assert.equal(await play(t, daemon, "topics"), "build.linux All green\nexit 0");
});
