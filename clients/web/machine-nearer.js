// Moving to the edge that the cluster names as nearer to the user's calls. It is a preference: the list of edges stays
// as it is, and a device that cannot move stays where it is.

import { isOver } from "./call-view.js";
import { socketUrl } from "./settings.js";

/** The present edge has said which edge is nearer; empty: none. */
export function noteNearer(m, address) {
  if (!m.settings.nearer || !m.isAttached) return;
  // The edge to which the device moves already will say it, too.
  if (m.move && !(m.move.isNearer && m.move.name === "waiting")) return;
  const edge = nearerEdge(m, address);
  if (!edge) {
    m.move = null;
    return;
  }
  // Another address does not make the device move sooner.
  const until = m.move?.until ?? Math.max(m.now, m.nearerNotBefore) + spread(m);
  m.move = { name: "waiting", edge, until, id: 0, failures: 0, isNearer: true };
}

/** The address to move to; null: the device is there already, or may not go there. */
function nearerEdge(m, address) {
  if (address.length > 256 || !/^wss?:\/\/[A-Za-z0-9._:[\]-]+(\/|$)/.test(address)) return null;
  let edge;
  try {
    edge = socketUrl(address);
  } catch {
    return null;
  }
  if (edge === m.edge) return null;
  // A device that was given edges with TLS shows its token to no other.
  const needsTls = m.settings.edges.some((listed) => listed.startsWith("wss:"));
  return needsTls && !edge.startsWith("wss:") ? null : edge;
}

const spread = (m) => m.random() * m.settings.nearerSpreadMs;

/** It is time to move. Where the device is busy, the time comes again. */
export function mayMoveNearer(m) {
  if (isBusy(m)) {
    postpone(m);
    return false;
  }
  m.nearerNotBefore = m.now + m.settings.nearerPauseMs;
  if (m.settings.edges.includes(m.edge)) m.listedEdge = m.edge;
  return true;
}

/** A call begins. An attach that was sent cannot be taken back. */
export function stayForCall(m) {
  if (!m.move?.isNearer || m.move.name !== "connecting") return;
  m.act({ do: "closeNext" });
  postpone(m);
}

function postpone(m) {
  m.move.name = "waiting";
  m.move.until = m.now + 1000 + spread(m);
}

/** Whether a call rings or goes on here, or a command waits for its reply. */
const isBusy = (m) => m.pending.length > 0 || isInCall(m);

/** Whether a call rings or goes on here, or waits for what this device has to say or ask about it. */
export const isInCall = (m) =>
  m.woken.length > 0 ||
  [...m.calls.values()].some((view) => !isOver(view) && view.state !== "waking") ||
  m.pending.some(({ key }) => key);
