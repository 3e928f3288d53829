// 340 to 359: two users who call each other.

import { ann, annTablet, here, ids, invite, placed, places, received, rings } from "./helpers.js";

/** The invite of Ann's call comes while the client calls her. It may ring or not. */
async function crosses(t, link, call = received) {
  t.deliver(link, call, invite(t));
  await t.pass(300);
}

export const crossing = [
  {
    number: 340,
    title: "Calls cross, and the client's own goes on: Ann has answered it",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      const own = { callee: "ann", id: ids.c };
      await places(t, link, own);
      await crosses(t, link);
      t.deliver(link, own, { answered: { by: ann } });
      await t.shows("answered", { call: own.id });
      t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: here } });
      // A call that rang stops. A call that did not ring need not be shown to stop.
      await t.mayShow("rings", { call: received.id });
      await t.mayShow("stopped", { call: received.id });
    },
  },
  {
    number: 341,
    title: "Calls cross, and Ann's goes on: the client has it, as if it had answered",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      await crosses(t, link);
      t.deliver(link, placed, { stop: { reason: "glare", survivor: received.id } });
      const shown = await t.shows("stopped", { call: placed.id, reason: "glare" });
      if (shown.survivor !== received.id) t.fail(`the survivor is shown as ${shown.survivor}`);
      t.deliver(link, received, { answered: { by: here } });
      await t.mayShow("rings", { call: received.id });
      await t.shows("won", { call: received.id });
      await t.does("description", { call: received, body: "v=0 answer" });
      const frame = await t.next(link, "description");
      if (![undefined, "", "bob"].includes(frame.description.call.callee)) t.fail(`the callee is ${frame.description.call.callee}`);
      t.reply(link, frame, { done: {} });
    },
  },
  {
    number: 342,
    title: "Calls cross, and the survivor's answer comes before the end of the client's own",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      await crosses(t, link);
      t.deliver(link, received, { answered: { by: here } });
      t.deliver(link, placed, { stop: { reason: "glare", survivor: received.id } });
      await t.shows("won", { call: received.id });
      await t.mayShow("rings", { call: received.id });
      await t.shows("stopped", { call: placed.id, reason: "glare" });
    },
  },
  {
    number: 343,
    title: "Ann declines the client's call while hers is valid: hers rings",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      await crosses(t, link);
      t.deliver(link, placed, { stop: { reason: "declined", by: annTablet } });
      await t.shows("stopped", { call: placed.id, reason: "declined" });
      await t.shows("rings", { call: received.id });
    },
  },
  {
    number: 344,
    title: "The client's call gave way to one whose invite does not come: it asks",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      t.deliver(link, placed, { stop: { reason: "glare", survivor: received.id } });
      await t.shows("stopped", { call: placed.id, reason: "glare" });
      const query = await t.next(link, "query", { within: 30_000 });
      if (query.query.call.id !== received.id) t.fail("it asks for another call");
      t.state(link, query, "ended", { reason: "cancelled" });
      await t.mayShow("stopped", { call: received.id });
    },
  },
  {
    number: 345,
    title: "The survivor ends before the client has it",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      await crosses(t, link);
      t.deliver(link, placed, { stop: { reason: "glare", survivor: received.id } });
      await t.shows("stopped", { call: placed.id, reason: "glare" });
      t.deliver(link, received, { stop: { reason: "cancelled", by: ann, missed: true } });
      await t.mayShow("rings", { call: received.id });
      await t.shows("stopped", { call: received.id, reason: "cancelled" });
    },
  },
  {
    number: 346,
    title: "A call that was sent on to the client rings beside its own call to the same user",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      await places(t, link);
      const diverted = { callee: "desk", id: ids.a };
      t.deliver(link, diverted, invite(t, { divertedBy: "desk" }));
      await t.shows("rings", { call: diverted.id });
    },
  },
  {
    number: 347,
    title: "The client calls its own user: its other devices ring, not this one",
    section: "place",
    race: "R21",
    async play(t) {
      const link = await t.attached();
      const own = { callee: "bob", id: ids.c };
      await places(t, link, own);
      t.deliver(link, own, { ringing: { by: { user: "bob", device: "bob-tablet" } } });
      await t.shows("ringing", { call: own.id });
      t.deliver(link, own, { answered: { by: { user: "bob", device: "bob-tablet" }, description: "v=0 answer" } });
      await t.shows("answered", { call: own.id });
      await t.showsNo("rings");
    },
  },
  {
    number: 349,
    title: "Ann's call rang here and went on to others, and the client calls back: it has Ann's call",
    section: "Crossing calls",
    race: "R8",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      t.deliver(link, received, { stop: { reason: "unanswered", missed: true } });
      await t.shows("stopped", { call: received.id, reason: "unanswered" });
      await places(t, link);
      t.deliver(link, received, invite(t, { merged: placed.id }));
      t.deliver(link, received, { answered: { by: here } });
      t.deliver(link, placed, { stop: { reason: "glare", survivor: received.id } });
      await t.mayShow("rings", { call: received.id });
      await t.shows("won", { call: received.id });
      await t.shows("stopped", { call: placed.id, reason: "glare" });
    },
  },
];
