// Acknowledgements of deliveries. They travel before the next command, or by themselves a little later.

/** Notes that a delivery is to be acknowledged. `key` names the call; null: the user's ongoing calls. */
export function noteAck(m, item, key, isInvite) {
  m.acks.push({ item, key, isInvite });
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
  forgetAcks(m);
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
  m.acks = [];
  m.acksDueAt = Infinity;
}
