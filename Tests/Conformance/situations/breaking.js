// 121 to 129: connections that break, are given up, or bring what is hard to read.
import { received, rings } from "./helpers.js";

export const breaking = [
  {
    number: 121,
    title: "A session that ends with 4002 is begun again at another edge",
    section: "Close codes",
    async play(t) {
      (await t.attached()).close(4002);
      await t.attaches({ within: 5000, edge: t.edges[1] });
    },
  },
  {
    number: 122,
    title: "A session that ends with 4006 is begun again after a minute, not before",
    section: "Close codes",
    async play(t) {
      (await t.attached()).close(4006);
      await t.staysAway(58_000);
      await t.attaches({ within: 20_000 });
    },
  },
  {
    number: 123,
    title: "A connection on which nothing comes any more is given up",
    section: "What a client must do",
    async play(t) {
      const first = await t.attached();
      first.isDead = true;
      const link = await t.attaches({ within: 80_000 });
      if (first.closedWith === 1000) t.fail("the dead connection is closed with 1000, which means that the device detaches");
      await rings(t, link);
    },
  },
  {
    number: 124,
    title: "A connection on which only pings come is kept",
    section: "Connecting",
    async play(t) {
      const link = await t.attached();
      await t.pass(200_000);
      if (!link.isOpen || t.links.length > 1) t.fail("the client gives a live connection up");
      await rings(t, link);
    },
  },
  {
    number: 125,
    title: "The user signs out: the device detaches, and does not come back",
    section: "detach",
    async play(t) {
      const link = await t.attached();
      await t.does("signOut");
      await t.next(link, "detach");
      await t.soon(() => !link.isOpen, "the client does not close the connection");
      await t.staysAway(60_000);
    },
  },
  {
    number: 126,
    title: "A frame that comes in fragments, with a ping between them, is one frame",
    section: "Connecting",
    async play(t) {
      const link = await t.attached();
      const version = t.version(received.id);
      const delivery = { call: received, version, atMs: t.clusterMs, invite: { caller: { user: "ann", device: "ann-phone" }, deadlineMs: t.clusterMs + 30_000 } };
      const bytes = link.encoding.encode({ delivery });
      t.rules.delivered(link, delivery, t.now);
      link.write(link.encoding.opcode, bytes.subarray(0, 20), false);
      link.write(0, bytes.subarray(20, 40), false);
      link.write(9, Buffer.from("between"));
      link.write(0, bytes.subarray(40));
      await t.shows("rings", { call: received.id });
    },
  },
  {
    number: 127,
    title: "A frame of 3 MB is taken",
    section: "Connecting",
    async play(t) {
      const link = await t.attached();
      const signals = Array.from({ length: 200 }, (_, index) => ({ index: index + 1, kind: "candidate", body: "x".repeat(15_000) }));
      await rings(t, link, received, { signals });
      for (let index = 1; index <= 200; index += 1) await t.shows("signal", { call: received.id });
    },
  },
  {
    number: 128,
    title: "A frame that cannot be read does not end the device",
    section: "Frames",
    async play(t) {
      const first = await t.attached();
      first.write(first.encoding.opcode, Buffer.from("{\"delivery\":"));
      await t.pass(3000);
      // To read on is best. To come back is allowed.
      const link = first.isOpen ? first : await t.attaches({ within: 5000 });
      await rings(t, link);
    },
  },
];
