// Acknowledgements of deliveries. They travel before the next command, or by themselves a little later.

/**
 * Notes that a delivery is to be acknowledged. `key` names the call; null: the user's ongoing calls. Deliveries of a call
 * that its app has not claimed wait: for the cluster an acknowledgement says that the device has the call.
 */
export function noteAck(m, item, key, isInvite, isUnclaimed = false) {
  if (!isUnclaimed) {
    releaseAcks(m, key);
    m.acks.push({ item, key, isInvite });
  } else if (m.heldAcks.length < m.settings.acksMax && !isHeld(m, item, key)) {
    m.heldAcks.push({ item, key, isInvite });
  }
}

const isHeld = (m, { version }, key) => m.heldAcks.some((ack) => ack.key === key && ack.item.version === version);

/** The app has sent a command about a call. */
export function claim(m, key) {
  const view = m.calls.get(key);
  if (!view?.isUnclaimed) return;
  view.isUnclaimed = false;
  releaseAcks(m, key);
}

function releaseAcks(m, key) {
  if (m.heldAcks.length === 0) return;
  m.acks.push(...m.heldAcks.filter((ack) => ack.key === key));
  m.heldAcks = m.heldAcks.filter((ack) => ack.key !== key);
}

/** Everything that had come was read: decides when the acknowledgements go. */
export function acknowledge(m) {
  if (m.acks.length === 0) return;
  // Timers of hidden pages fire once a second or more seldom, and the cluster repeats itself after half a second.
  const isUrgent = m.isHidden || m.settings.ackDelayMs === 0 || m.acks.length >= m.settings.acksMax;
  if (isUrgent) return sendDueAcks(m, true);
  m.acksDueAt = Math.min(m.acksDueAt, m.now + m.settings.ackDelayMs);
}

/** When acknowledgements are due; without a connection nobody takes them. */
export const ackDeadline = (m) => (m.acks.length > 0 ? m.acksDueAt : Infinity);

export function sendDueAcks(m, now = false) {
  if (m.acks.length === 0 || !(now || m.acksDueAt <= m.now)) return;
  const items = m.acks.map(({ item }) => item);
  clearAcks(m);
  if (!m.isAttached) return;
  // A frame holds 256 items at most.
  for (let first = 0; first < items.length; first += 256) {
    m.act({ do: "send", frame: { ack: { items: items.slice(first, first + 256) } } });
  }
}

/** Any of these commands acknowledges the invite of its call as well. */
export function dropInviteAck(m, name, key) {
  if (!["alerting", "answer", "decline", "busy"].includes(name)) return;
  m.acks = m.acks.filter((ack) => !(ack.isInvite && ack.key === key));
}

/** With the connection the deliveries are forgotten: the next session gets them again. */
export function forgetAcks(m) {
  m.heldAcks = [];
  clearAcks(m);
}

function clearAcks(m) {
  m.acks = [];
  m.acksDueAt = Infinity;
}
