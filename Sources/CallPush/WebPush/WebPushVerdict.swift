internal import CallCore

/// What push services' answers mean (RFC 8030, 5 and 8.4; RFC 8292, 4.2), as a function.
package enum WebPushVerdict {
  /// After which a push service that has had enough is asked again where it names no time.
  static let quotaPause = Span.seconds(10)

  package static func judge(_ reply: ProviderReply, _ context: AttemptContext) -> AttemptVerdict {
    switch reply {
    case .notSent(let why): return context.retry(reason: why)
    case .unknown(let why): return context.inDoubt(why)
    case .answer(let answer): return judge(answer, context)
    }
  }

  private static func judge(
    _ answer: ProviderAnswer, _ context: AttemptContext
  ) -> AttemptVerdict {
    let reason = "HTTP \(answer.status)"
    switch answer.status {
    // 201 is the rule; some answer 200 or, to a request for receipts, 202.
    case 200...299: return .done(.accepted)
    case 404, 410: return .done(.tokenGone(at: nil))
    case 401, 403:
      // A token too old, or a subscription that is bound to another key.
      return context.renewed ? .done(.rejected(reason: reason)) : .renew(reason: reason)
    // 406 is how Windows says 429.
    case 406, 429:
      return context.retry(after: context.retryAfter(answer) ?? quotaPause, reason: reason)
    case 408: return context.retry(reason: reason)
    case 500...599: return context.retry(after: context.retryAfter(answer), reason: reason)
    // Redirects, too: a push service has no reason to send us elsewhere.
    default: return .done(.rejected(reason: reason))
    }
  }
}
