internal import CallCore
internal import CallWire
internal import Crypto

/// The meaning of push services' answers (RFC 8030, 5 and 8.4; RFC 8292, 4.2).
package enum WebPushVerdict {
  /// The wait after too many requests if the answer names none.
  static let quotaPause = Span.seconds(10)

  package static func judge(_ reply: ProviderReply, _ context: AttemptContext) -> AttemptVerdict {
    context.judge(
      reply, quotaPause: quotaPause, reason: { "HTTP \($0.status)" },
      other: { judge($0, context) })
  }

  private static func judge(_ answer: ProviderAnswer, _ context: AttemptContext) -> AttemptVerdict {
    let reason = "HTTP \(answer.status)"
    switch answer.status {
    // Usually 201; some answer 200 or, to a request for receipts, 202.
    case 200...299: return .done(.accepted)
    case 404, 410: return .done(.tokenGone(at: nil))
    case 401, 403:
      // An expired token, or a subscription that is bound to another key.
      return context.renewed
        ? .tokenRefused(.init(reason, mayBeOurs: true)) : .renew(reason: reason)
    // Windows' 429.
    case 406:
      return context.retry(after: context.retryAfter(answer) ?? quotaPause, reason: reason)
    // The same push gets the same answer.
    case 413: return .done(.rejected(reason: reason))
    // Says nothing of the subscription: a redirect, a fault of ours, or a server in between.
    default: return context.refused(reason)
    }
  }
}

/// The headers of a push (RFC 8030, 5).
enum WebPushHeaders {
  static func make(
    _ message: PushMessage, authorization: String, now: Timestamp
  ) -> [(String, String)] {
    var headers = [
      ("authorization", authorization), ("ttl", "\(message.secondsToLive(at: now))"),
      ("urgency", urgency(message.purpose)), ("content-encoding", "aes128gcm"),
      ("content-type", "application/octet-stream"),
    ]
    if !message.collapseKey.isEmpty { headers.append(("topic", topic(message.collapseKey))) }
    return headers
  }

  /// "high: incoming phone call or time-sensitive alert", "normal: chat message" (RFC 8030, 5.3). A push that stops the
  /// ringing is as urgent as one that starts it.
  private static func urgency(_ purpose: PushPurpose) -> String {
    purpose == .missedNotice ? "normal" : "high"
  }

  /// At most 32 characters of base64url (RFC 8030, 5.4). Any other key is hashed: 24 bytes of a hash are 32 characters.
  static func topic(_ collapseKey: String) -> String {
    let fits =
      (1...32).contains(collapseKey.utf8.count) && collapseKey.isAlphanumericASCII(or: "-_")
    if fits { return collapseKey }
    return Base64URL.text(Array(SHA256.hash(data: Array(collapseKey.utf8)).prefix(24)))
  }
}
