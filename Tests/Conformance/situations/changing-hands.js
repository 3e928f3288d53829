// 600 to 607: calls that move to another device.

import { ann, annTablet, calls, carl, lost, placed, received, signal, tablet, talks, won } from "./helpers.js";

/** The app takes over what the tablet has. @returns the frame */
async function pulls(t, link, call = received) {
  await t.does("pull", { call, from: "bob-tablet", description: "v=0 pull" });
  const pull = await t.next(link, "pull");
  if (pull.pull.from !== "bob-tablet" || pull.pull.description !== "v=0 pull") t.fail(JSON.stringify(pull.pull));
  return pull;
}

export const changingHands = [
  {
    number: 600,
    title: "The device takes a call over from the user's tablet",
    section: "pull",
    async play(t) {
      const link = await t.attached();
      won(t, link, await pulls(t, link));
      await t.shows("won", { call: received.id });
      t.deliver(link, received, signal(5));
      await t.shows("signal", { call: received.id, body: "candidate:5" });
    },
  },
  {
    number: 601,
    title: "Another device takes the call over first",
    section: "pull",
    race: "R1",
    async play(t) {
      const link = await t.attached();
      lost(t, link, await pulls(t, link), { reason: "moved", by: { user: "bob", device: "bob-watch" } });
      await t.shows("result", { of: "pull" });
      await t.mayShow("stopped", { call: received.id });
      await t.showsNo("won");
    },
  },
  {
    number: 602,
    title: "A device that took the caller's side over resumes the call after a break",
    section: "pull",
    race: "R22",
    async play(t) {
      const first = await t.attached();
      won(t, first, await pulls(t, first, placed), placed, ann);
      await t.shows("won", { call: placed.id });
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.state(link, await t.next(link, "resume"), "answered", { by: ann });
    },
  },
  {
    number: 603,
    title: "The user's tablet takes the call over from the device",
    section: "pull",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      t.deliver(link, received, { stop: { reason: "moved", by: tablet } });
      const shown = await t.shows("stopped", { call: received.id, reason: "moved" });
      if (shown.by?.device !== "bob-tablet") t.fail(`by is shown as ${JSON.stringify(shown.by)}`);
    },
  },
  {
    number: 604,
    title: "A call that the device lost to the tablet is taken back",
    section: "pull",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      t.deliver(link, received, { stop: { reason: "moved", by: tablet } });
      await t.shows("stopped", { call: received.id, reason: "moved" });
      won(t, link, await pulls(t, link));
      await t.shows("won", { call: received.id });
      t.deliver(link, received, { stop: { reason: "hungUp", by: ann } });
      await t.shows("stopped", { call: received.id, reason: "hungUp" });
    },
  },
  {
    number: 605,
    title: "The other side moves to another device: its signals count on",
    section: "Deliveries",
    race: "R17",
    async play(t) {
      const link = await t.attached();
      await calls(t, link);
      t.deliver(link, placed, signal(4));
      await t.shows("signal", { call: placed.id, body: "candidate:4" });
      t.deliver(link, placed, { moved: { to: annTablet, description: "v=0 moved", number: 1 } });
      const shown = await t.shows("moved", { call: placed.id, description: "v=0 moved" });
      if (shown.to?.device !== "ann-tablet") t.fail(`to is shown as ${JSON.stringify(shown.to)}`);
      t.deliver(link, placed, signal(3));
      t.deliver(link, placed, signal(5));
      await t.shows("signal", { call: placed.id, body: "candidate:5" });
    },
  },
  {
    number: 606,
    title: "A move that comes again is acknowledged, and shown once",
    section: "Deliveries",
    race: "R10",
    async play(t) {
      const link = await t.attached();
      await calls(t, link);
      for (let round = 0; round < 2; round += 1) {
        t.deliver(link, placed, { moved: { to: annTablet, description: "v=0 moved", number: 1 } });
      }
      await t.shows("moved", { call: placed.id });
      t.deliver(link, placed, { moved: { to: ann, description: "v=0 back", number: 2 } });
      await t.shows("moved", { call: placed.id, description: "v=0 back" });
    },
  },
  {
    number: 607,
    title: "The other side is another user from now on",
    section: "Calls that are transferred",
    async play(t) {
      const link = await t.attached();
      await calls(t, link);
      t.deliver(link, placed, { moved: { to: carl, description: "v=0 carl", number: 1 } });
      const shown = await t.shows("moved", { call: placed.id });
      if (shown.to?.user !== "carl") t.fail(`to is shown as ${JSON.stringify(shown.to)}`);
      await t.does("hangUp", { call: placed });
      const hangUp = await t.next(link, "hangUp");
      if (hangUp.hangUp.call.callee !== "ann") t.fail("the address changed");
      t.state(link, hangUp, "ended", { reason: "hungUp" });
      await t.mayShow("stopped", { call: placed.id });
    },
  },
];
