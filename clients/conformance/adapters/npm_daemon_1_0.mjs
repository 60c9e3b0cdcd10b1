#!/usr/bin/env node
// Starts the daemon of the npm package agent-relay 1.6.0, which speaks version 1.0, where the
// conformance kit wants it: npm_daemon_1_0.mjs PACKAGE ENDPOINT HOME.
import { resolve } from "node:path";

const [folder, socketPath, home] = process.argv.slice(2);
const { Daemon } = await import(resolve(folder, "dist/daemon/server.js"));

// The daemon stores messages by SQLite, which Node 20 does not have, or else in memory.
const hasSqlite = await import("node:sqlite").then(() => true, () => false);
const storageConfig = { type: hasSqlite ? "sqlite" : "memory" };
const storagePath = resolve(home, "messages.sqlite");
await new Daemon({ socketPath, teamDir: home, storagePath, storageConfig }).start();
