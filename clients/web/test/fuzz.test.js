// The machine alone, with whatever may come, in any order. It must never throw, never ring for a call that is over, and
// end each call once. A failure names its seed.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Machine } from "../machine.js";
import { newView, isOver } from "../call-view.js";
import { settle } from "../settings.js";
import { epochMs, seeded } from "../testing/world.js";

const users = ["ann", "bob", "carl"];
const reasons = ["answeredElsewhere", "declined", "cancelled", "unanswered", "busy", "hungUp", "failed", "glare", "moved", "transferred"];
const phases = ["unknown", "placed", "ringing", "answered", "ended", "dreaming"];
const codes = [100, 104, 107, 200, 201, 204, 400, 402, 404, 408, 416, 500, 501, 502, 503];

/** A device that is told nonsense, and a check of what it tells. */
class Trial {
  now = 0;
  version = 1000;
  log = [];
  states = new Map();
  links = { current: null, next: null };
  tags = new Set();

  constructor(seed) {
    this.seed = seed;
    this.random = seeded(seed);
    const edges = ["wss://one.example", "wss://two.example"];
    this.settings = settle({ edges, device: "bob-phone", getToken: () => "", nearer: true, ongoing: true, limits: { callsMax: 12, endedCallsMax: 4, pendingMax: 24 } });
    this.machine = new Machine(this.settings);
  }

  pick(list) {
    return list[Math.floor(this.random() * list.length)];
  }

  chance(share) {
    return this.random() < share;
  }

  get party() {
    return { user: this.pick(users), device: `${this.pick(users)}-phone` };
  }

  get address() {
    return { callee: this.pick(users), id: `00000000-0000-4000-8000-00000000000${Math.floor(this.random() * 6)}` };
  }

  handle(event) {
    this.log.push(event);
    for (const effect of this.machine.handle(event, this.now, this.random)) this.check(effect);
    this.limits();
  }

  check(effect) {
    switch (effect.do) {
      case "connect":
        this.links.current = "new";
        break;
      case "connectNext":
        this.links.next = "new";
        break;
      case "close":
        this.links.current = null;
        break;
      case "closeNext":
        this.links.next = null;
        break;
      case "switchOver":
        assert.notEqual(this.links.next, null, "no connection to switch to");
        this.links = { current: this.links.next, next: null };
        break;
      case "settle":
        assert.ok(this.tags.delete(effect.tag), "a command settles once");
        break;
      case "call":
        this.event(effect.view, effect.event);
        break;
    }
  }

  event(view, event) {
    const before = this.states.get(view);
    assert.notEqual(before, "over", `${event.type} after the end`);
    if (event.type === "incoming") assert.equal(before, undefined, "it rings once");
    if (event.type === "ended") {
      assert.ok(isOver(view));
      this.states.set(view, "over");
    } else {
      this.states.set(view, event.type);
    }
  }

  limits() {
    const { calls, pending, acks, endedCalls, woken, openAttaches } = this.machine;
    assert.ok(calls.size <= 24 && pending.length <= 48 && acks.length <= 64);
    assert.ok(endedCalls.length <= 16 && woken.length <= 17 && openAttaches.length <= 8);
  }

  get deliveredEvent() {
    const signal = { index: Math.floor(this.random() * 20), kind: this.pick(["candidate", "description", "information", "odd"]), body: "x" };
    const number = Math.floor(this.random() * 4);
    return this.pick([
      { invite: { caller: this.party, deadlineMs: epochMs + this.now + 30_000, signals: [signal, null], consulted: this.chance(0.2) ? this.address : undefined, transferredBy: this.chance(0.4) ? this.party : undefined } },
      { invite: { caller: this.party, deadlineMs: epochMs + this.now + 5000 } },
      { ringing: { by: this.party } },
      { ringsUntil: { deadlineMs: this.pick([epochMs + this.now + 40_000, undefined, "soon"]) } },
      { answered: { by: this.party, description: this.pick(["", "v=0"]), signals: [signal] } },
      { stop: { reason: this.pick(reasons), by: this.party, survivor: this.pick([undefined, this.address.id]) } },
      { signal },
      { moved: { to: this.party, number } },
      { transfer: { to: this.pick(users), number, reason: this.pick([undefined, "busy"]) } },
      { invite: {} },
      { stop: {} },
      { later: {} },
    ]);
  }

  get nextVersion() {
    return this.chance(0.7) ? (this.version += 1) : Math.max(1, this.version - Math.floor(this.random() * 12));
  }

  get state() {
    return { call: this.address, phase: this.pick(phases), version: this.version, reason: this.pick(reasons), by: this.party };
  }

  get reply() {
    const ids = this.machine.pending.map(({ id }) => id);
    const id = this.chance(0.9) && ids.length ? this.pick(ids) : Math.floor(this.random() * 50);
    const what = this.pick([
      { done: {} },
      { call: this.state },
      { answer: { won: this.chance(0.5), call: this.state } },
      { answer: {} },
      { error: { code: this.pick(codes), retryAfterMs: this.pick([0, 300]) } },
      {},
    ]);
    return { id, ...what };
  }

  get frame() {
    return this.pick([
      { reply: this.reply },
      { reply: this.reply },
      { delivery: { call: this.address, version: this.nextVersion, after: this.chance(0.2) ? this.version - 3 : undefined, ...this.deliveredEvent } },
      { delivery: { call: this.address, version: this.nextVersion, ...this.deliveredEvent } },
      { delivery: { call: this.address, version: this.nextVersion, ...this.deliveredEvent } },
      { notice: { kind: this.pick(["goAway", "nearer", "tokenExpires", "odd"]), nearer: "wss://near.example", retryAfterMs: this.pick([0, 500]) } },
      { ongoing: { version: Math.floor(this.random() * 9), calls: [] } },
      { history: { cursor: "1" } },
      {},
    ]);
  }

  attached(link) {
    const id = link === "next" ? this.machine.move?.id : this.machine.attachId;
    const info = { user: "bob", device: "bob-phone", serverTimeMs: epochMs + this.now, nearer: this.pick(["", "wss://near.example"]) };
    const answer = this.chance(0.85) ? { attached: info } : { error: { code: this.pick([501, 503, 502, 201, 306]) } };
    this.handle({ type: "frame", link, frame: { reply: { id, ...answer } } });
  }

  network() {
    for (const link of ["current", "next"]) {
      if (this.links[link] === "new" && this.chance(0.7)) {
        this.links[link] = "open";
        this.handle({ type: "opened", link });
        if (this.chance(0.9)) this.attached(link);
      } else if (this.links[link] && this.chance(0.04)) {
        this.links[link] = null;
        this.handle({ type: "closed", link, code: this.pick([1006, 1006, 4002, 4005, 4006, 4008, 4011]) });
      }
    }
  }

  command() {
    const views = [...this.machine.calls.values()];
    const name = this.pick(["alerting", "answer", "decline", "busy", "cancel", "hangUp", "connected", "candidate", "description", "pull", "transfer", "resume", "query", "place", "rules"]);
    const tag = this.log.length + 1;
    this.tags.add(tag);
    if (name === "rules") return this.handle({ type: "submit", name, body: {}, key: null, tag });
    const known = views.length && this.chance(0.8) ? this.pick(views) : null;
    const call = name === "place" || !known ? this.address : { callee: known.callee, id: known.id };
    const view = name === "place" && !this.machine.calls.has(`${call.id}/${call.callee}`) ? newView(call.id, call.callee, "caller", "placing") : null;
    const key = `${call.id}/${call.callee}`;
    if (name === "place" && !view) {
      this.tags.delete(tag);
      return;
    }
    this.handle({ type: "submit", name, body: { call }, key, tag, view });
  }

  step() {
    this.network();
    const roll = this.random();
    if (roll < 0.5 && this.links.current === "open") this.handle({ type: "frame", link: "current", frame: this.frame });
    else if (roll < 0.55 && this.links.next === "open") this.handle({ type: "frame", link: "next", frame: this.frame });
    else if (roll < 0.8) this.command();
    else if (roll < 0.84) this.handle({ type: "token", token: this.pick(["t", null]) });
    else if (roll < 0.87) this.handle({ type: "wake", ...this.address });
    else if (roll < 0.88) this.handle({ type: "probe" });
    else if (roll < 0.885) this.handle({ type: "visibility", isHidden: this.chance(0.5) });
    this.pass(this.pick([0, 1, 10, 200, 3000, 20_000]));
    if (this.machine.phase.name === "stopped") this.handle({ type: "start" });
  }

  /** Time passes, and the timer fires when it is due. It must not be due again at once without end. */
  pass(ms) {
    const end = this.now + ms;
    for (let fired = 0; this.machine.deadline <= end; fired += 1) {
      assert.ok(fired < 500, "the timer fires without end");
      this.now = Math.max(this.now, this.machine.deadline);
      this.handle({ type: "timer" });
    }
    this.now = end;
  }

  run(steps) {
    try {
      this.handle({ type: "start" });
      this.handle({ type: "token", token: "t" });
      for (let step = 0; step < steps; step += 1) this.step();
      this.handle({ type: "stop", detach: true });
      assert.equal(this.tags.size, 0, "a command is never answered");
      for (const view of this.machine.calls.values()) assert.ok(isOver(view), "a call goes on after stop");
    } catch (error) {
      error.message = `seed ${this.seed}, event ${this.log.length} ${JSON.stringify(this.log.at(-1))}: ${error.message}`;
      throw error;
    }
    return this;
  }
}

const count = Number(process.env.CALLMESH_FUZZ_SEEDS ?? 400);

test(`${count} devices that are told nonsense`, () => {
  let rang = 0;
  let ended = 0;
  let talked = 0;
  for (let seed = 1; seed <= count; seed += 1) {
    const { states, log } = new Trial(seed).run(250);
    rang += [...states.keys()].filter((view) => view.invite).length;
    talked += [...states.keys()].filter((view) => view.won).length;
    ended += [...states.values()].filter((state) => state === "over").length;
    assert.ok(log.length > 250);
  }
  // The trials reach the states that they are for.
  assert.ok(rang > count && ended > 2 * count && talked > count / 4, `${rang} rang, ${talked} talked, ${ended} ended`);
});

test("the same seed gives the same trial", () => {
  const [one, other] = [new Trial(42).run(200), new Trial(42).run(200)];
  assert.deepEqual(one.log, other.log);
});

test("deliveries that come late, twice and in another order come to the same end", () => {
  for (let seed = 1; seed <= 200; seed += 1) {
    const random = seeded(seed);
    const trial = new Trial(seed);
    trial.handle({ type: "start" });
    trial.handle({ type: "token", token: "t" });
    trial.handle({ type: "opened", link: "current" });
    trial.handle({ type: "frame", link: "current", frame: { reply: { id: 1, attached: { user: "bob", device: "bob-phone", serverTimeMs: epochMs } } } });
    const call = { callee: "bob", id: "00000000-0000-4000-8000-000000000000" };
    const signal = (index) => ({ signal: { index, kind: "candidate", body: `c${index}` } });
    const events = [{ invite: { caller: { user: "ann" }, deadlineMs: epochMs + 60_000 } }, signal(1), signal(2), signal(3), { stop: { reason: "cancelled", missed: true } }];
    const acked = new Set();
    const seen = [];
    const open = () => events.map((event, index) => ({ event, version: index + 1 })).filter(({ version }) => !acked.has(version));
    for (let round = 0; acked.size < events.length; round += 1) {
      assert.ok(round < 100, `seed ${seed}`);
      // As the cluster does: what is not acknowledged is repeated, each naming the one before it; the network loses and
      // turns around.
      const sent = open()
        .map(({ event, version }, index, all) => ({ call, version, after: all[index - 1]?.version, ...event }))
        .flatMap((delivery) => (random() < 0.3 ? [] : random() < 0.3 ? [delivery, delivery] : [delivery]))
        .sort(() => (random() < 0.3 ? random() - 0.5 : 0));
      for (const delivery of sent) {
        for (const effect of trial.machine.handle({ type: "frame", link: "current", frame: { delivery } }, (trial.now += 1), random)) {
          if (effect.do === "call") seen.push(effect.event);
          for (const { version } of effect.frame?.ack?.items ?? []) acked.add(version);
        }
      }
      trial.now += 200;
      for (const effect of trial.machine.handle({ type: "timer" }, trial.now, random)) {
        for (const { version } of effect.frame?.ack?.items ?? []) acked.add(version);
      }
    }
    assert.deepEqual(
      seen.map(({ type, body }) => body ?? type),
      ["incoming", "c1", "c2", "c3", "ended"],
      `seed ${seed}`,
    );
  }
});
