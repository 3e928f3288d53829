// 300 to 313: calls that the client places.

import { ann, calls, candidate, placed, places } from "./helpers.js";

/** A call that is placed ends before an answer. */
const ends = (number, reason, more = {}) => ({
  number,
  title: `A call that is placed ends as ${reason}`,
  section: "End reasons",
  async play(t) {
    const link = await t.attached();
    await places(t, link);
    t.deliver(link, placed, { stop: { reason, ...more } });
    const shown = await t.shows("stopped", { call: placed.id, reason });
    if (more.unreachable && shown.unreachable !== more.unreachable) t.fail(`unreachable is shown as ${shown.unreachable}`);
  },
});

export const calling = [
  {
    number: 300,
    title: "A place has the callee, an id, the description and what else the app gives",
    section: "place",
    async play(t) {
      const link = await t.attached();
      const more = { video: true, headers: [{ name: "X-Team", value: "support" }], pushData: '{"room":7}', ringTimeoutSeconds: 45 };
      const { place } = await places(t, link, placed, more);
      for (const [name, value] of Object.entries({ ...more, call: placed, description: "v=0 offer" })) {
        if (JSON.stringify(place[name]) !== JSON.stringify(value)) t.fail(`${name} is ${JSON.stringify(place[name])}`);
      }
    },
  },
  {
    number: 301,
    title: "The callee rings and answers",
    section: "Deliveries",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      t.deliver(link, placed, { ringing: { by: ann } });
      await t.shows("ringing", { call: placed.id });
      t.deliver(link, placed, { answered: { by: ann, description: "v=0 answer", signals: [candidate(1)] } });
      const shown = await t.shows("answered", { call: placed.id, description: "v=0 answer" });
      if (shown.by?.device !== "ann-phone") t.fail(`by is shown as ${JSON.stringify(shown.by)}`);
      await t.shows("signal", { call: placed.id, body: "candidate:1" });
      await t.does("connected", { call: placed });
      t.reply(link, await t.next(link, "connected"), { done: {} });
    },
  },
  {
    number: 348,
    title: "There is no connection for a minute: a place fails, and is not sent later",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      for (const edge of t.edges) edge.isDown = true;
      link.break();
      await t.pass(1000);
      await t.does("place", { call: placed, description: "v=0 offer" });
      await t.pass(25_000);
      await t.showsNo("failed");
      await t.shows("failed", { of: "place" }, { within: 10_000 });
      await t.mayShow("stopped", { call: placed.id });
      for (const edge of t.edges) edge.isDown = false;
      await t.quiet(await t.attaches({ within: 120_000 }));
    },
  },
  {
    number: 302,
    title: "A place without a reply is sent again after 7 s, under its id",
    section: "What a client must do",
    race: "R9",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      const place = await t.next(link, "place");
      await t.pass(6500);
      await t.quiet(link);
      const again = await t.next(link, "place", { within: 2000 });
      if (again.id !== place.id) t.fail("the place has another id");
      t.state(link, again, "placed", { deadlineMs: t.clusterMs + 23_000 });
      t.state(link, place, "placed", { deadlineMs: t.clusterMs + 23_000 });
    },
  },
  {
    number: 303,
    title: "The connection breaks before the reply to a place: the place comes again, and no resume",
    section: "resume",
    race: "R9",
    async play(t) {
      const first = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      const place = await t.next(first, "place");
      first.break();
      const link = await t.attaches({ within: 3000 });
      const again = await t.next(link, "place");
      if (again.id !== place.id) t.fail("the place has another id");
      await t.quiet(link);
      t.state(link, again, "ringing", { deadlineMs: t.clusterMs + 28_000 });
    },
  },
  {
    number: 304,
    title: "The caller's connection breaks in mid-ring: the call is resumed, and the answer comes",
    section: "resume",
    race: "R22",
    async play(t) {
      const first = await t.attached();
      await places(t, first);
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.state(link, await t.next(link, "resume"), "ringing", { deadlineMs: t.clusterMs + 28_000 });
      t.deliver(link, placed, { answered: { by: ann, description: "v=0 answer" } });
      await t.shows("answered", { call: placed.id, description: "v=0 answer" });
    },
  },
  {
    number: 305,
    title: "The caller's connection breaks in the call: it is resumed, before the commands that wait",
    section: "What a client must do",
    race: "R22",
    async play(t) {
      const first = await t.attached();
      await calls(t, first);
      await t.does("connected", { call: placed });
      const connected = await t.next(first, "connected");
      first.break();
      const link = await t.attaches({ within: 3000 });
      const frames = await t.commands(link);
      const names = frames.map((frame) => Object.keys(frame).at(-1));
      if (!names.includes("resume") || !names.includes("connected")) t.fail(`it sends ${names.join(", ")}`);
      const again = frames.find((frame) => frame.connected);
      if (again.id !== connected.id) t.fail("connected has another id");
      for (const frame of frames) {
        if (frame.resume) t.state(link, frame, "answered", { by: ann });
        else t.reply(link, frame, { done: {} });
      }
      await t.settle();
      await t.showsNo("answered");
    },
  },
  {
    number: 306,
    title: "A reply to resume that says ended ends the call",
    section: "resume",
    race: "R22",
    async play(t) {
      const first = await t.attached();
      await places(t, first);
      first.break();
      const link = await t.attaches({ within: 20_000 });
      t.state(link, await t.next(link, "resume"), "ended", { reason: "cancelled", by: ann });
      await t.shows("stopped", { call: placed.id, reason: "cancelled" });
    },
  },
  {
    number: 307,
    title: "A resume of a call that the cluster does not know ends it",
    section: "resume",
    async play(t) {
      const first = await t.attached();
      await places(t, first);
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.refuse(link, await t.next(link, "resume"), 400);
      await t.shows("stopped", { call: placed.id });
    },
  },
  ends(308, "declined", { by: ann }),
  ends(309, "unanswered"),
  ends(310, "busy"),
  ends(311, "unreachable", { unreachable: "noDevice" }),
  {
    number: 312,
    title: "The stop of a place comes before its reply",
    section: "place",
    race: "R19",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      const place = await t.next(link, "place");
      t.deliver(link, placed, { stop: { reason: "unreachable", unreachable: "notWakeable" } });
      await t.settle();
      t.state(link, place, "ended", { reason: "unreachable", unreachable: "notWakeable" });
      await t.shows("stopped", { call: placed.id, reason: "unreachable" });
    },
  },
  {
    number: 313,
    title: "The reply to a place says ended, and then the stop comes",
    section: "place",
    race: "R19",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      t.state(link, await t.next(link, "place"), "ended", { reason: "busy" });
      await t.shows("stopped", { call: placed.id, reason: "busy" });
      t.deliver(link, placed, { stop: { reason: "busy" } });
    },
  },
];
