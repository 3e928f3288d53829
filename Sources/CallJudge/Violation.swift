package import CallCore

/// One broken rule. Each judge has its own list of rules, since each sees something else of a cluster.
package struct Violation<Rule: Equatable & Sendable>: Error, Equatable, Sendable {
  package var rule: Rule
  package var reason: String
  package var call: CallID?

  package init(_ rule: Rule, _ reason: String, call: CallID? = nil) {
    self.rule = rule
    self.reason = reason
    self.call = call
  }
}

extension Violation: CustomStringConvertible where Rule: RawRepresentable<String> {
  package var description: String { "\(rule.rawValue): \(reason)" }
}

extension CallError.Code {
  /// Whether a client repeats the command after this error, so that it is no final reply.
  package var asksForRetry: Bool {
    switch self {
    case .tryAgain, .overloaded, .draining, .rateLimited: true
    default: false
    }
  }
}
