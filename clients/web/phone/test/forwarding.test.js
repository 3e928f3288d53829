import assert from "node:assert/strict";
import { test } from "node:test";
import { forwardsFrom, forwardText, isForwarding, noForwards } from "../forwarding.js";
import { initial, reduce } from "../model.js";
import { UserLists } from "../user-lists.js";
import { page } from "../view.js";

const contacts = ["ann", "bob", "carl"].map((user) => ({ user, name: user[0].toUpperCase() + user.slice(1) }));
const ann = [
  { type: "signingIn", user: "ann", name: "Ann", deviceName: "Ann's phone" },
  { type: "attached", user: "ann", device: "ann-1" },
].reduce(reduce, initial({ contacts, nowMs: 1000 }));
const withRules = (rules, model = ann) => reduce(model, { type: "rules", rules });
const to = (...users) => ({ users });

test("where calls go, in words", () => {
  const text = (rules) => forwardText(withRules(rules));
  assert.equal(forwardText(ann), "Calls go to nobody else");
  assert.equal(text({ doNotDisturb: {} }), "Calls go to nobody else");
  assert.equal(text({ onNoAnswer: to("bob") }), "Calls go to Bob when nobody answers");
  assert.equal(text({ always: to("bob", "carl", "dora"), onBusy: to("bob") }), "All calls go to Bob, Carl and dora");
  const several = { onNoAnswer: to("bob"), onBusy: to("bob"), onUnreachable: to("carl") };
  assert.equal(
    text(several),
    "Calls go to Bob when nobody answers or you are busy, and to Carl when no device can be reached",
  );
  assert.deepEqual([withRules({}), withRules(several)].map(isForwarding), [false, true]);
});

test("what changes is said aloud, but not what was there at the start", () => {
  const loaded = withRules({ always: to("bob") });
  assert.equal(loaded.announcement, "");
  assert.equal(withRules({ always: to("bob"), doNotDisturb: {} }, loaded).announcement, "");
  assert.equal(withRules({}, loaded).announcement, "Calls go to nobody else");
});

test("fields of the form: ids and names, each once", () => {
  const { rules } = forwardsFrom(ann, { always: "", onNoAnswer: " Bob, bob ,dora,", noAnswerSeconds: "10" });
  assert.deepEqual(rules, { ...noForwards, onNoAnswer: to("bob", "dora"), noAnswerSeconds: 10 });
  assert.deepEqual(forwardsFrom(ann, {}).rules, { ...noForwards, noAnswerSeconds: undefined });
});

test("fields that do not hold", () => {
  const problem = (onBusy) => forwardsFrom(ann, { onBusy }).problem;
  const yourself = { rule: "onBusy", text: "You cannot forward calls to yourself." };
  assert.deepEqual(problem("bob, ann"), yourself);
  assert.deepEqual(problem("Ann"), yourself);
  assert.equal(problem("é".repeat(65)).text, `“${"é".repeat(20)}…” is too long for a user.`);
  assert.equal(problem("é".repeat(64)), undefined);
  assert.match(problem("a\u200bb").text, /cannot be seen/);
  assert.match(problem("a  b").text, /spaces/);
  assert.equal(problem("a b"), undefined);
  assert.equal(problem("a,b,c,d,e,f,g,h,i,j,k").text, "Calls can go to 10 users at most.");
});

test("the dialog says which field does not hold, and keeps what it does not show", () => {
  const act = new Proxy({}, { get: () => () => {} });
  const nodes = (node) => (typeof node === "string" ? [] : [node, ...node.children.flatMap(nodes)]);
  const dialog = { kind: "forward", problem: { rule: "always", text: "No." } };
  const model = { ...withRules({ onBusy: to("bob", "carl"), noAnswerSeconds: 25 }), dialog };
  const drawn = page(model, act, () => ({})).flatMap(nodes);
  const field = (id) => drawn.find(({ props }) => props.id === id).props;
  assert.equal(field("forward-onBusy").value, "bob, carl");
  assert.equal(field("forward-always")["aria-describedby"], "forward-problem");
  assert.equal(drawn.find(({ props }) => props.value === 25).props.selected, true);
});

/** Lists of a device whose rules are `rules`, and those that the cluster is given. */
function lists(rules) {
  const given = [];
  const device = {
    user: "ann",
    clusterTime: 1000,
    on() {},
    rules: async () => rules,
    setRules: async (next) => (given.push(JSON.parse(JSON.stringify(next))), next),
  };
  return { lists: new UserLists(device, { dispatch() {} }), given };
}

test("forwarding keeps the other rules, but no time that is over", async () => {
  const others = { firstDevices: ["ann-1"], firstSeconds: 10 };
  for (const [untilMs, kept] of [[1000, {}], [1001, { doNotDisturb: { untilMs: 1001 } }]]) {
    const { lists: one, given } = lists({ ...others, doNotDisturb: { untilMs }, always: to("bob"), changedAtMs: 1 });
    await one.forward({ ...noForwards, onBusy: to("carl") });
    assert.deepEqual(given, [{ ...others, ...kept, onBusy: to("carl") }]);
    one.close();
  }
});

test("windows of one browser tell each other of the user's rules", async () => {
  const loaded = [];
  let heard;
  const isHeard = new Promise((resolve) => (heard = resolve));
  const [bobs, first, second] = ["bob", "ann", "ann"].map((user, index) => {
    const rules = async () => (loaded.push(index), index === 2 && heard(), {});
    return new UserLists({ user, on() {}, rules, setRules: async (next) => next }, { dispatch() {} });
  });
  await first.forward(noForwards);
  await isHeard;
  assert.deepEqual(loaded, [1, 2]);
  for (const one of [bobs, first, second]) one.close();
});
