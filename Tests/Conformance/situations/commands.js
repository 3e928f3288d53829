// 500 to 505: commands that are refused, repeated and given up.

import { calls, placed, received, rings, won } from "./helpers.js";

/** A refusal after which the same command is sent again. */
const retries = (number, code, name, more = {}) => ({
  number,
  title: `A command that is refused as ${name} (${code}) is sent again under its id${more.retryAfterMs ? ", after retryAfterMs" : ""}`,
  section: "What a client must do",
  race: "R9",
  async play(t) {
    const link = await t.attached();
    await rings(t, link);
    await t.does("answer", { call: received, description: "v=0 answer" });
    const answer = await t.next(link, "answer");
    t.refuse(link, answer, code, more);
    if (more.retryAfterMs) {
      await t.pass(more.retryAfterMs - 100);
      await t.quiet(link);
    }
    const again = await t.next(link, "answer", { within: 5000 });
    if (again.id !== answer.id) t.fail("the answer has another id");
    won(t, link, again);
    await t.shows("won", { call: received.id });
  },
});

export const commands = [
  retries(500, 501, "tryAgain"),
  retries(501, 503, "overloaded", { retryAfterMs: 3000 }),
  retries(502, 107, "rateLimited", { retryAfterMs: 2000 }),
  {
    number: 503,
    title: "A command that is refused again and again is given up, and its user is told",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await calls(t, link);
      await t.does("connected", { call: placed });
      let attempts = 0;
      for (let second = 0; second < 240 && !(await t.mayShow("failed", { call: placed.id })); second += 1) {
        for (const frame of link.frames.splice(0)) {
          attempts += 1;
          t.refuse(link, frame, 501);
        }
        await t.pass(1000, 250);
      }
      if (attempts < 2 || attempts > 40) t.fail(`${attempts} attempts`);
    },
  },
  {
    number: 504,
    title: "A place that is given up is cancelled, until that is answered",
    section: "What a client must do",
    race: "R9",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      let cancels = 0;
      for (let second = 0; second < 240 && cancels < 2; second += 1) {
        for (const frame of link.frames.splice(0)) {
          if (frame.cancel) cancels += 1;
          if (frame.cancel && cancels === 2) t.refuse(link, frame, 400);
          else t.refuse(link, frame, 501);
        }
        await t.pass(1000, 250);
      }
      if (cancels < 2) t.fail("the call is not cancelled");
      await t.shows("failed", { of: "place" });
      await t.mayShow("stopped", { call: placed.id });
    },
  },
  {
    number: 505,
    title: "A call that was given up and answered all the same is hung up",
    section: "What a client must do",
    race: "R2",
    async play(t) {
      const link = await t.attached();
      await t.does("place", { call: placed, description: "v=0 offer" });
      let hangUp = null;
      for (let second = 0; second < 240 && !hangUp; second += 1) {
        for (const frame of link.frames.splice(0)) {
          if (frame.cancel) t.state(link, frame, "answered", { by: { user: "ann", device: "ann-phone" } });
          else if (frame.hangUp) hangUp = frame;
          else t.refuse(link, frame, 501);
        }
        await t.pass(1000, 250);
      }
      if (!hangUp) t.fail("nobody hangs up");
      t.state(link, hangUp, "ended", { reason: "hungUp" });
      await t.mayShow("stopped", { call: placed.id });
    },
  },
];
