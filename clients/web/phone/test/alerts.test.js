import assert from "node:assert/strict";
import { test } from "node:test";
import { Alerts } from "../alerts.js";
import { initial } from "../model.js";
import { newCall } from "../model-calls.js";

/** A page in the background, and a system that shows notifications. */
function system(t, { permission = "granted", hidden = true, fails = false } = {}) {
  const shown = [];
  class Notification {
    static permission = permission;
    static asked = 0;
    static async requestPermission() {
      Notification.asked += 1;
    }
    constructor(title, options) {
      if (fails) throw new TypeError("only a service worker may");
      Object.assign(this, { title, ...options, isOpen: true });
      shown.push(this);
    }
    close() {
      this.isOpen = false;
    }
  }
  const before = { document: globalThis.document, Notification: globalThis.Notification, window: globalThis.window };
  const focused = [];
  Object.assign(globalThis, { document: { hidden, title: "" }, Notification, window: { focus: () => focused.push(1) } });
  t.after(() => Object.assign(globalThis, before));
  return { shown, focused, Notification };
}

const ringing = (id) => ({ ...newCall({ id, callee: "bob", role: "callee" }), state: "ringing", peer: { user: "ann", name: "Ann" } });
const model = (...calls) => ({ ...initial({}), calls });

test("a call that rings in the background is shown once, and goes away with the ringing", (t) => {
  const { shown, focused } = system(t);
  const alerts = new Alerts();
  alerts.update(model(ringing("1")));
  alerts.update(model(ringing("1"), ringing("2")));
  assert.deepEqual(shown.map(({ title, tag }) => [title, tag]), [["Ann is calling", "1"], ["Ann is calling", "2"]]);
  assert.match(globalThis.document.title, /Ann is calling/);
  shown[1].onclick();
  assert.equal(focused.length, 1);
  alerts.update(model({ ...ringing("1"), state: "ended" }));
  assert.deepEqual(shown.map(({ isOpen }) => isOpen), [false, false]);
  assert.doesNotMatch(globalThis.document.title, /calling/);
});

test("no notification where the page is seen, the user has not allowed it, or only workers may show one", (t) => {
  const seen = system(t, { hidden: false });
  new Alerts().update(model(ringing("1")));
  assert.equal(seen.shown.length, 0);
  const refused = system(t, { permission: "denied" });
  new Alerts().update(model(ringing("1")));
  assert.equal(refused.shown.length, 0);
  system(t, { fails: true });
  new Alerts().update(model(ringing("1")));
});

test("the user is asked once", async (t) => {
  const { Notification } = system(t, { permission: "default" });
  const alerts = new Alerts();
  assert.equal(alerts.isUndecided, true);
  await alerts.allow();
  Notification.permission = "denied";
  await alerts.allow();
  assert.equal(Notification.asked, 1);
});
