internal import CallCore

/// The meaning of push services' answers (RFC 8030, 5 and 8.4; RFC 8292, 4.2).
package enum WebPushVerdict {
  /// The wait after too many requests if the answer names none.
  static let quotaPause = Span.seconds(10)

  package static func judge(_ reply: ProviderReply, _ context: AttemptContext) -> AttemptVerdict {
    context.judge(
      reply, quotaPause: quotaPause, reason: { "HTTP \($0.status)" },
      other: { judge($0, context) })
  }

  private static func judge(
    _ answer: ProviderAnswer, _ context: AttemptContext
  ) -> AttemptVerdict {
    let reason = "HTTP \(answer.status)"
    switch answer.status {
    // Usually 201; some answer 200 or, to a request for receipts, 202.
    case 200...299: return .done(.accepted)
    case 404, 410: return .done(.tokenGone(at: nil))
    case 401, 403:
      // An expired token, or a subscription that is bound to another key.
      return context.renewed ? .done(.rejected(reason: reason)) : .renew(reason: reason)
    // Windows' 429.
    case 406:
      return context.retry(after: context.retryAfter(answer) ?? quotaPause, reason: reason)
    // Includes redirects: a push service has no reason for one.
    default: return .done(.rejected(reason: reason))
    }
  }
}
