// Real media in a real browser against a real cluster, where both are named:
//
//   CALLMESH_EDGES=ws://127.0.0.1:8080 CALLMESH_KEYS=keys.json CALLMESH_CHROMIUM=chromium node --test test/browser.test.js

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { edges, skip, token, user } from "../testing/tokens.js";

const chromium = process.env.CALLMESH_CHROMIUM;
const folder = new URL("../", import.meta.url);

const readmePage = () => /```html\n([^]*?)```/.exec(readFileSync(new URL("README.md", folder), "utf8"))[1];

/** Serves this folder, and resolves `report` with what the page posts. */
function serve() {
  let report;
  const reported = new Promise((resolve) => (report = resolve));
  const server = createServer((request, response) => {
    if (request.method === "POST") {
      let text = "";
      request.on("data", (data) => (text += data));
      request.on("end", () => (response.end(), report(JSON.parse(text))));
      return;
    }
    try {
      const { pathname } = new URL(request.url, "http://localhost");
      response.setHeader("content-type", pathname.endsWith(".html") ? "text/html" : "text/javascript");
      response.end(pathname === "/phone.html" ? readmePage() : readFileSync(new URL(`.${pathname}`, folder)));
    } catch {
      response.writeHead(404).end();
    }
  });
  return new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve({ server, reported, port: server.address().port })));
}

/** Opens a page in the browser, and takes its report. */
async function open(name) {
  const names = { ann: user("ann"), bob: user("bob"), carl: user("carl") };
  const tokens = { names, ...Object.fromEntries(Object.entries(names).map(([short, name]) => [short, token(name)])) };
  const { server, reported, port } = await serve();
  const profile = mkdtempSync(join(tmpdir(), "callmesh-browser-"));
  const page = `http://localhost:${port}/testing/${name}#${encodeURIComponent(JSON.stringify({ edges, tokens }))}`;
  const browser = spawn(chromium, [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    `--user-data-dir=${profile}`,
    page,
  ], { detached: true });
  const gone = new Promise((resolve) => browser.on("exit", resolve));
  try {
    const report = await Promise.race([reported, gone.then(() => ({ isOk: false, error: "the browser has ended" }))]);
    for (const line of report.log ?? []) console.log(line);
    assert.equal(report.isOk, true, report.error);
  } finally {
    // With its children, which would go on writing.
    if (browser.exitCode === null) process.kill(-browser.pid, "SIGKILL");
    await gone;
    server.close();
    server.closeAllConnections();
    rmSync(profile, { recursive: true, force: true, maxRetries: 10 });
  }
}

const run = { skip: skip || (chromium ? false : "no browser is named (CALLMESH_CHROMIUM)"), timeout: 120_000 };

test("calls with real media", run, () => open("browser.html"));

test("the page of README.md", run, () => open("readme.html"));
