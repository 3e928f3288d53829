import assert from "node:assert/strict";
import { test } from "node:test";
import { Sounds } from "../sounds.js";
import { Streams } from "../streams.js";

/** A browser whose context keeps its voices, and whose time passes by `tick`. */
function browser(t) {
  const voices = [];
  class AudioContext {
    state = "suspended";
    currentTime = 7;
    destination = "loudspeaker";
    async resume() {
      this.state = "running";
    }
    createOscillator() {
      const voice = { frequency: {}, from: null, until: null, connect: (gain) => ((voice.gain = gain), gain) };
      voice.start = (from) => (voice.from = from);
      voice.stop = (at = this.currentTime) => (voice.until = at);
      voices.push(voice);
      return voice;
    }
    createGain() {
      const gain = { loudest: 0, connect: (to) => (gain.to = to) };
      const ramp = (value) => (gain.loudest = Math.max(gain.loudest, value));
      gain.gain = { setValueAtTime: ramp, linearRampToValueAtTime: ramp };
      return gain;
    }
  }
  const timers = new Map();
  let now = 0;
  const setTimeout = (run, ms) => {
    const id = {};
    timers.set(id, { run, at: now + ms });
    return id;
  };
  const tick = (ms) => {
    now += ms;
    for (const [id, { run, at }] of [...timers]) if (at <= now && timers.delete(id)) run();
  };
  const ours = { AudioContext, setTimeout, clearTimeout: (id) => timers.delete(id) };
  const before = Object.fromEntries(Object.keys(ours).map((name) => [name, globalThis[name]]));
  Object.assign(globalThis, ours);
  t.after(() => Object.assign(globalThis, before));
  return { voices, tick };
}

test("ringing, ringback and a second call sound again and again, each in its own way, until there is silence", async (t) => {
  const { voices, tick } = browser(t);
  const sounds = new Sounds();
  await sounds.allow();
  assert.equal(sounds.isAllowed, true);
  const tunes = new Set();
  for (const [name, everyMs] of [["ring", 3000], ["ringback", 4000], ["waiting", 4000]]) {
    voices.splice(0);
    sounds.play(name);
    const first = voices.length;
    assert.ok(first > 0, name);
    for (const { from, until, gain } of voices) {
      assert.ok(from >= 7 && until > from, `${name} has begun, and ends`);
      assert.ok(gain.loudest > 0 && gain.to === "loudspeaker", `${name} is heard`);
    }
    tunes.add(voices.map(({ frequency, from, until }) => [frequency.value, from, until]).join());
    sounds.play(name);
    assert.equal(voices.length, first, "it plays already");
    tick(everyMs);
    assert.equal(voices.length, 2 * first, `${name} is repeated`);
    sounds.play(null);
    assert.ok(voices.every(({ until }) => until === 7), `${name} has stopped`);
    tick(2 * everyMs);
    assert.equal(voices.length, 2 * first, "silence");
  }
  assert.equal(tunes.size, 3);
});

test("another sound takes the place of the former one, and what the browser forbids begins when it is allowed", async (t) => {
  const { voices, tick } = browser(t);
  const sounds = new Sounds();
  sounds.play("ringback");
  assert.equal(voices.length, 0);
  await sounds.allow();
  tick(4000);
  const former = [...voices];
  assert.ok(former.length > 0);
  sounds.play("ring");
  assert.ok(former.every(({ until }) => until === 7));
  assert.ok(voices.length > former.length);
});

test("the other side is played at the chosen loudspeaker, where the browser lets the page choose", async () => {
  const kept = new Map();
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value) };
  const streams = new Streams({ storage, browser: null });
  const played = [];
  const elements = [
    { setSinkId: async (id) => void played.push(id) },
    // A loudspeaker that is gone, and a browser without a choice.
    { setSinkId: async () => Promise.reject(new Error("NotFoundError")) },
    {},
    { setSinkId: async (id) => void played.push(id) },
  ];
  streams.playAtChosen(elements);
  assert.deepEqual(played, [], "none is chosen");
  streams.choose("output", "kitchen");
  streams.playAtChosen(elements);
  assert.deepEqual(played, ["kitchen", "kitchen"]);
  new Streams({ storage, browser: null }).playAtChosen(elements.slice(0, 1));
  assert.equal(played.length, 3, "after a reload, too");
});
