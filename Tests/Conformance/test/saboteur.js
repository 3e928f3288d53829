// The JavaScript client with one defect, which the judge must find: `node saboteur.js DEFECT`.

import { NodeSocket } from "../../../clients/web/testing/node-socket.js";

const [, , defect] = process.argv;
const { send, close } = NodeSocket.prototype;
const seen = new Set();

/** Changes a frame of the client. @returns null: it is not sent */
const outgoing = {
  acksNothing: (frame) => (frame.ack ? null : frame),
  acksOtherVersions: (frame) => {
    for (const item of frame.ack?.items ?? []) item.version += 1;
    return frame;
  },
  repeatsUnderNewIds: (frame) => {
    if (seen.has(frame.id)) frame.id += 1000;
    seen.add(frame.id);
    return frame;
  },
  usesIdsTwice: (frame) => (frame.id > 2 ? { ...frame, id: 2 } : frame),
  resumesNothing: (frame) => (frame.resume ? null : frame),
  hangsUpNothing: (frame) => (frame.hangUp ? null : frame),
  namesNoCallee: (frame) => {
    if (frame.alerting) frame.alerting.call.callee = "";
    return frame;
  },
  addsMembers: (frame) => ({ ...frame, weather: "fine" }),
};

/** Changes a frame of the edge. */
const incoming = {
  ignoresGaps: (frame) => {
    if (frame.delivery) delete frame.delivery.after;
    return frame;
  },
  takesCopiesForNews: (frame) => {
    if (frame.delivery?.signal) frame.delivery.signal.index += 1000 * seen.size;
    seen.add(seen.size);
    return frame;
  },
};

/** Changes something that the client shows. @returns a list of it */
const shown = {
  ringsTwice: (show) => (show.rings ? [show, show] : [show]),
  ringsOn: (show) => (show.stopped ? [] : [show]),
  trustsAnyConsultation: (show) => (show.rings ? [{ rings: { ...show.rings, consulted: { id: "6ba7b810-9dad-11d1-80b4-00c04fd430c8" } } }] : [show]),
};

NodeSocket.prototype.send = function (text) {
  const frame = outgoing[defect] ? outgoing[defect](JSON.parse(text)) : JSON.parse(text);
  if (frame) send.call(this, JSON.stringify(frame));
};

if (defect === "leavesForGood") NodeSocket.prototype.close = function () { close.call(this, 1000); };

// The client sets these two on each socket.
for (const [name, change] of [
  ["onmessage", (event) => (incoming[defect] ? { data: JSON.stringify(incoming[defect](JSON.parse(event.data))) } : event)],
  ["onclose", (event) => (defect === "ignoresCloseCodes" ? { code: 1006 } : event)],
]) {
  Object.defineProperty(NodeSocket.prototype, name, {
    set(listener) {
      Object.defineProperty(this, name, { value: (event) => listener(change(event)) });
    },
  });
}

const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (line) => {
  const show = JSON.parse(line);
  for (const one of shown[defect]?.(show) ?? [show]) write(`${JSON.stringify(one)}\n`);
};

await import("../../../clients/web/testing/conformance.js");
