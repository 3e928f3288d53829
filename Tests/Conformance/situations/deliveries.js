// 400 to 429: deliveries that come twice, late, or in another order.

import { ann, calls, candidate, ids, invite, placed, received, rings, signal, tablet, talks } from "./helpers.js";

export const deliveries = [
  {
    number: 400,
    title: "Every delivery is acknowledged within 200 ms",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      const version = await rings(t, link);
      await t.pass(250);
      if (!link.acks.some((item) => item.version === version)) t.fail("the invite is not acknowledged");
    },
  },
  {
    number: 401,
    title: "An acknowledgement has the address and the version of its delivery",
    section: "ack",
    async play(t) {
      const link = await t.attached();
      await calls(t, link);
      const version = t.deliver(link, placed, signal(1));
      await t.shows("signal", { call: placed.id });
      await t.pass(250);
      const item = link.acks.find((item) => item.version === version);
      if (item?.call?.callee !== "ann" || item.call.id !== placed.id) t.fail(JSON.stringify(item));
    },
  },
  {
    number: 402,
    title: "A delivery that is repeated is acknowledged again, and processed once",
    section: "What a client must do",
    race: "R9",
    async play(t) {
      const link = await t.attached();
      const version = await rings(t, link);
      await t.pass(250);
      const before = link.acks.length;
      t.deliver(link, received, invite(t), { version });
      await t.pass(250);
      if (link.acks.length === before) t.fail("the repetition is not acknowledged");
      await t.showsNo("rings");
    },
  },
  {
    number: 403,
    title: "A delivery was lost: neither the one after it is acknowledged nor shown, until both come",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      const [first, second] = [t.version(received.id), t.version(received.id)];
      t.deliver(link, received, signal(2), { version: second, after: first, mustNotAck: true });
      await t.pass(400);
      await t.showsNo("signal");
      t.rules.forget(second);
      t.deliver(link, received, signal(1), { version: first });
      t.deliver(link, received, signal(2), { version: second, after: first });
      await t.shows("signal", { call: received.id, body: "candidate:1" });
      await t.shows("signal", { call: received.id, body: "candidate:2" });
    },
  },
  {
    number: 404,
    title: "`after` names a delivery that was processed: the next one is taken",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      const first = t.deliver(link, received, signal(1));
      t.deliver(link, received, signal(2), { after: first });
      await t.shows("signal", { call: received.id, body: "candidate:1" });
      await t.shows("signal", { call: received.id, body: "candidate:2" });
    },
  },
  {
    number: 405,
    title: "The stop of a call comes behind a delivery that was lost: it waits for that",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      const [first, second] = [t.version(received.id), t.version(received.id)];
      const stop = { stop: { reason: "hungUp", by: ann } };
      t.deliver(link, received, stop, { version: second, after: first, mustNotAck: true });
      await t.pass(400);
      await t.showsNo("stopped");
      t.rules.forget(second);
      t.deliver(link, received, signal(1), { version: first });
      t.deliver(link, received, stop, { version: second, after: first });
      await t.shows("signal", { call: received.id });
      await t.shows("stopped", { call: received.id, reason: "hungUp" });
    },
  },
  {
    number: 406,
    title: "A delivery whose version is not greater is acknowledged and dropped",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      const late = t.version(received.id);
      t.deliver(link, received, signal(1));
      await t.shows("signal", { call: received.id, body: "candidate:1" });
      t.deliver(link, received, { stop: { reason: "hungUp", by: ann } }, { version: late });
      await t.pass(300);
      await t.showsNo("stopped");
    },
  },
  {
    number: 407,
    title: "A greater version in a reply makes no delivery late",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      const earlier = t.version(received.id);
      await t.does("alerting", { call: received });
      t.version(received.id);
      t.state(link, await t.next(link, "alerting"), "ringing", { deadlineMs: t.clusterMs + 30_000 });
      t.deliver(link, received, signal(1), { version: earlier });
      await t.shows("signal", { call: received.id, body: "candidate:1" });
    },
  },
  {
    number: 408,
    title: "A signal that comes again under a new version is shown once",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      for (let round = 0; round < 3; round += 1) t.deliver(link, received, signal(7));
      await t.shows("signal", { call: received.id, body: "candidate:7" });
      t.deliver(link, received, signal(6));
      t.deliver(link, received, signal(8));
      await t.shows("signal", { call: received.id, body: "candidate:8" });
    },
  },
  {
    number: 409,
    title: "A stop that is repeated is shown once",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      await rings(t, link);
      const version = t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: tablet } });
      await t.shows("stopped", { call: received.id });
      await t.pass(300);
      t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: tablet } }, { version });
      t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: tablet } });
    },
  },
  {
    number: 410,
    title: "The stop of a call that the device has never heard of is acknowledged, and rings nothing",
    section: "attach",
    race: "R11",
    async play(t) {
      const link = await t.attached();
      t.deliver(link, received, { stop: { reason: "cancelled", by: ann, missed: true } });
      await t.pass(300);
      await t.mayShow("stopped", { call: received.id });
      await t.showsNo("rings");
    },
  },
  {
    number: 411,
    title: "A hundred deliveries at once are all acknowledged",
    section: "ack",
    async play(t) {
      const link = await t.attached();
      await talks(t, link);
      for (let index = 1; index <= 100; index += 1) t.deliver(link, received, signal(index));
      for (let index = 1; index <= 100; index += 1) await t.shows("signal", { call: received.id, body: `candidate:${index}` });
    },
  },
  {
    number: 412,
    title: "Acknowledgements are lost with the connection: the deliveries come again, and are shown once",
    section: "What a client must do",
    async play(t) {
      const first = await t.attached();
      await talks(t, first);
      const version = t.deliver(first, received, signal(1));
      await t.shows("signal", { call: received.id });
      first.break();
      const link = await t.attaches({ within: 3000 });
      t.deliver(link, received, signal(1), { version });
      t.deliver(link, received, signal(2), { after: version });
      await t.shows("signal", { call: received.id, body: "candidate:2" });
    },
  },
  {
    number: 413,
    title: "Two calls have versions of their own",
    section: "What a client must do",
    async play(t) {
      const link = await t.attached();
      const second = { callee: "bob", id: ids.c };
      t.deliver(link, received, invite(t), { version: 2_000_000 });
      await t.shows("rings", { call: received.id });
      t.deliver(link, second, invite(t, { caller: { user: "carl", device: "carl-phone" } }), { version: 1_048_577 });
      await t.shows("rings", { call: second.id });
    },
  },
  {
    number: 414,
    title: "A delivery may come before the reply to the attach",
    section: "Frames",
    async play(t) {
      t.start();
      const link = await t.connects();
      const attach = await t.next(link, "attach");
      const version = t.deliver(link, received, invite(t));
      await t.pass(100);
      t.reply(link, attach, { attached: t.sessionInfo() });
      // It is taken, or repeated half a second later.
      t.deliver(link, received, invite(t), { version });
      await t.shows("rings", { call: received.id });
    },
  },
  {
    number: 415,
    title: "An invite that was answered elsewhere while the device was away never rings",
    section: "attach",
    race: "R5",
    async play(t) {
      const first = await t.attached();
      first.break();
      const link = await t.attaches({ within: 3000 });
      const version = t.version(received.id);
      t.deliver(link, received, { stop: { reason: "answeredElsewhere", by: tablet } });
      t.deliver(link, received, invite(t, { signals: [candidate(1)] }), { version });
      await t.pass(300);
      await t.mayShow("stopped", { call: received.id });
      await t.showsNo("rings");
    },
  },
];
