import assert from "node:assert/strict";
import { test } from "node:test";
import { CallmeshError } from "../../errors.js";
import { Phone } from "../phone.js";

/** A phone that waits for its token, and what it says did not work. */
function waiting() {
  const notices = [];
  const store = { dispatch: (event) => event.type === "notice" && notices.push(event.text) };
  const settings = { edges: ["ws://127.0.0.1:1"], deviceId: "ann-1", getToken: () => new Promise(() => {}) };
  const phone = new Phone({ user: "ann", deviceName: "Ann's phone", store, streams: null, settings });
  phone.start();
  return { phone, notices };
}

const turn = () => new Promise((resolve) => setImmediate(resolve));

test("what is under way when the user signs out did not fail", async () => {
  const { phone, notices } = waiting();
  let wasUndone = false;
  phone.run(phone.device.history(), () => (wasUndone = true));
  await phone.stop();
  await turn();
  assert.equal(wasUndone, true, "it was under way");
  assert.deepEqual(notices, []);
});

test("what fails otherwise is said", async () => {
  const { phone, notices } = waiting();
  phone.run(Promise.reject(new CallmeshError(501, "No answer in time.")));
  await turn();
  assert.deepEqual(notices, ["The cluster gave no answer. Try again."]);
  await phone.stop();
});
