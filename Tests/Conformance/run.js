#!/usr/bin/env node
// Runs a client through the situations of docs/device-protocol.md. docs/conformance.md says how.

import { Adapter } from "./adapter.js";
import { situations } from "./situations/index.js";
import { play } from "./play.js";

const usage = `usage: node Tests/Conformance/run.js [options] -- COMMAND [ARGUMENT …]

COMMAND starts the adapter of the client under test.

  --only 101,2       only situations whose number begins so
  --encoding NAME    json or protobuf; absent: all that the client has
  --jobs N           so many at a time; absent: 4, or 24 if the client's time is real
  --list             lists the situations
  --quiet            names only those that do not pass
  --verbose          shows the frames of each situation, not only of those that fail
  --known 117,216    these may fail`;

function parse(args) {
  const options = { only: null, encoding: null, jobs: 0, known: [], verbose: false, quiet: false, list: false, command: [] };
  for (let index = 0; index < args.length; index += 1) {
    const name = args[index];
    if (name === "--") return { ...options, command: args.slice(index + 1) };
    if (["--verbose", "--quiet", "--list"].includes(name)) options[name.slice(2)] = true;
    else if (name === "--only" || name === "--known") options[name.slice(2)] = args[++index]?.split(",");
    else if (name === "--encoding") options.encoding = args[++index];
    else if (name === "--jobs") options.jobs = Number(args[++index]);
    else throw new Error(`There is no option ${name}.`);
  }
  return options;
}

const chosen = (only) => situations.filter(({ number }) => !only || only.some((prefix) => String(number).startsWith(prefix)));

/** Asks the adapter what it can, without starting its client. */
async function introduction(command) {
  const adapter = new Adapter(command);
  try {
    return await adapter.ready;
  } finally {
    adapter.kill();
  }
}

/** Plays them, some at a time, and tells of each in its order. */
async function playAll(list, jobs, each) {
  const results = [];
  let next = 0;
  let told = 0;
  const worker = async () => {
    while (next < list.length) {
      const index = next++;
      results[index] = await play(list[index]);
      while (results[told]) each(results[told++]);
    }
  };
  await Promise.all(Array.from({ length: jobs }, worker));
  return results;
}

function tell({ situation, encoding, outcome, problems, lines }, options) {
  const { number, title, section, race } = situation;
  if (options.quiet && outcome === "passed") return;
  const mark = { passed: "ok  ", failed: "FAIL", skipped: "skip", known: "fails, as known" }[outcome];
  console.log(`${mark} ${number} ${title} (${[encoding, section, race].filter(Boolean).join(", ")})`);
  for (const problem of problems) console.log(`       ${problem}`);
  if (options.verbose || outcome === "failed") for (const line of lines) console.log(`       ${line}`);
}

async function main() {
  const options = parse(process.argv.slice(2));
  if (options.list) {
    for (const { number, title, section, race = "" } of situations) console.log([number, title, section, race].join("\t"));
    return 0;
  }
  if (options.command.length === 0) throw new Error(usage);
  const { name, clock, encodings } = await introduction(options.command);
  const list = encodings
    .filter((encoding) => !options.encoding || encoding === options.encoding)
    .flatMap((encoding) => chosen(options.only).map((situation) => ({ ...options, situation, encoding })));
  const jobs = options.jobs || (clock === "virtual" ? 4 : 24);
  const results = await playAll(list, jobs, (result) => tell(result, options));
  const count = (outcome) => results.filter((result) => result.outcome === outcome).length;
  console.log(`${name}: ${count("passed")} passed, ${count("failed")} failed, ${count("known")} known, ${count("skipped")} skipped`);
  return count("failed") === 0 && results.length > 0 ? 0 : 1;
}

try {
  process.exitCode = await main();
} catch (error) {
  console.error(error.message);
  process.exitCode = 2;
}
