// Session descriptions as they travel: the bare SDP, as other clients send it, or a browser's JSON of one.

/** A description as the protocol carries it. */
export const written = (description) => description?.sdp ?? "";

/**
 * Reads a description of the other side.
 *
 * Bare SDP does not say whether it is an offer. Offers leave open who begins the DTLS handshake (`actpass`), answers
 * decide it (RFC 8829, 5.2 and 5.3).
 */
export function read(text, signalingState) {
  if (text.startsWith("{")) {
    try {
      const { type, sdp } = JSON.parse(text);
      if (typeof sdp === "string" && (type === "offer" || type === "answer")) return { type, sdp };
    } catch {
      // Not JSON after all.
    }
  }
  if (/^a=setup:actpass/m.test(text)) return { type: "offer", sdp: text };
  if (/^a=setup:(active|passive)/m.test(text)) return { type: "answer", sdp: text };
  return { type: signalingState === "have-local-offer" ? "answer" : "offer", sdp: text };
}

/** Names the peer connection that made a description. Another one has another session id, and other keys. */
const sessionOf = (sdp) => /^o=\S+ (\S+)/m.exec(sdp ?? "")?.[1];

/** Whether a description is of another peer connection than the present one's. */
export function isOfAnotherConnection(description, present) {
  return !!present && sessionOf(description.sdp) !== sessionOf(present.sdp);
}

/** A candidate as the protocol carries it; empty: there are no more. */
export const writtenCandidate = (candidate) => (candidate ? JSON.stringify(candidate) : "");

/** Reads a candidate: a browser's JSON, or the bare line. */
export function readCandidate(body) {
  if (!body) return null;
  if (body.startsWith("{")) {
    try {
      return JSON.parse(body);
    } catch {
      return undefined;
    }
  }
  // The line alone does not say to which part of the session it belongs; with one bundled transport it is the first.
  return { candidate: body.replace(/^a=/, ""), sdpMLineIndex: 0 };
}
