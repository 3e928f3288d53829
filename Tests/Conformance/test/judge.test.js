// The judge itself: it finds the defects of clients that have one, and what it asks for is in the protocol.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { encodings } from "../encodings.js";
import { play } from "../play.js";
import { check } from "../schema.js";
import { situations } from "../situations/index.js";

const file = (path) => fileURLToPath(new URL(path, import.meta.url));
const protocol = readFileSync(file("../../../docs/device-protocol.md"), "utf8");
const command = (defect) => [process.execPath, file("./saboteur.js"), defect];
const outcome = async (number, defect) => {
  const situation = situations.find((one) => one.number === number);
  return play({ situation, encoding: "json", command: command(defect) });
};

/** Each defect, the number of a situation in which it shows, and a word of what the judge says of it. */
const defects = [
  ["acksNothing", 402, /is not acknowledged/],
  ["acksOtherVersions", 402, /was not delivered is acknowledged/],
  ["repeatsUnderNewIds", 219, /another id/],
  ["usesIdsTwice", 301, /used for two commands/],
  ["resumesNothing", 304, /does not send resume/],
  ["hangsUpNothing", 223, /does not send hangUp/],
  ["namesNoCallee", 619, /callee is/],
  ["addsMembers", 100, /a member that the protocol does not know: weather/],
  ["ignoresGaps", 403, /one before it is missing/],
  ["takesCopiesForNews", 408, /the client shows/],
  ["ringsTwice", 200, /rings twice/],
  ["ringsOn", 207, /does not show stopped/],
  ["trustsAnyConsultation", 617, /make the device pick up/],
  ["leavesForGood", 138, /the device detaches/],
  ["ignoresCloseCodes", 132, /tries to connect/],
];

for (const [defect, number, words] of defects) {
  test(`a client that ${defect} fails situation ${number}, which it passes without`, async () => {
    const { outcome: failed, problems } = await outcome(number, defect);
    assert.equal(failed, "failed");
    assert.match(problems.join("\n"), words);
    const { outcome: passed, problems: none } = await outcome(number, "nothing");
    assert.equal(passed, "passed", none.join("\n"));
  });
}

test("a client that cannot be started fails", async () => {
  const { outcome } = await play({ situation: situations[0], encoding: "json", command: ["/nothing/there"] });
  assert.equal(outcome, "failed");
});

test("each situation has a number of its own, and names a section of the protocol", () => {
  const numbers = situations.map(({ number }) => number);
  assert.equal(new Set(numbers).size, numbers.length);
  for (const { number, section } of situations) {
    assert.match(protocol, new RegExp(`^#+ ${section}$`, "m"), `${number} names ${section}`);
  }
});

test("the pages say how many situations there are", () => {
  for (const path of ["README.md", "Makefile", "docs/conformance.md", "docs/device-protocol.md"]) {
    assert.ok(readFileSync(file(`../../../${path}`), "utf8").includes(`${situations.length} situations`), path);
  }
});

test("every example of a device's frames in the protocol is one by the schema", () => {
  const examples = [...protocol.matchAll(/^```json client\n([^]*?)^```/gm)].flatMap(([, lines]) => lines.trim().split("\n"));
  assert.ok(examples.length > 20);
  for (const line of examples) assert.deepEqual(check(JSON.parse(line), "ClientFrame"), [], line);
});

test("every example of an edge's frames is one by the schema", () => {
  const examples = [...protocol.matchAll(/^```json server\n([^]*?)^```/gm)].flatMap(([, lines]) => lines.trim().split("\n"));
  assert.ok(examples.length > 10);
  for (const line of examples) assert.deepEqual(check(JSON.parse(line), "ServerFrame"), [], line);
});

test("protobuf: a frame is read by the field numbers of the schema", () => {
  // Written by hand from the encoding's rules: `id: 7`, `alerting` with a call whose callee is `bob`.
  const id = "6ba7b8109dad11d180b400c04fd430c8";
  const call = `0a03626f621210${id}`;
  const bytes = Buffer.from(`080742190a17${call}`, "hex");
  const frame = { id: 7, alerting: { call: { callee: "bob", id: "6ba7b810-9dad-11d1-80b4-00c04fd430c8" } } };
  assert.deepEqual(encodings.protobuf.decode(bytes), frame);
  assert.throws(() => encodings.protobuf.decode(bytes.subarray(0, 9)));
});
