package import CallCore

/// One broken rule. Each judge has its own rules, since each observes another part of a cluster.
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
  /// Whether a client retries the command after this error, so that it is no final reply.
  package var asksForRetry: Bool {
    switch self {
    case .tryAgain, .overloaded, .draining, .rateLimited: true
    default: false
    }
  }
}

/// One sender's numbered signals in one receiver's app: once each, in order; some may be missing.
package struct SignalStream: Sendable {
  package enum Flaw: Sendable { case doubled, outOfOrder }

  /// By number: the shard's epoch at the last arrival.
  private var epochs: [Int: UInt64] = [:]
  /// The highest number among those whose order counts.
  package private(set) var highest = 0
  private var flaws: Set<Flaw> = []

  package init() {}

  package func has(_ number: Int) -> Bool { epochs[number] != nil }

  /// The sender starts again. Its later signals are compared with none of the earlier ones.
  package mutating func restarted() { highest = 0 }

  /// Takes in a signal.
  ///
  /// - Parameters:
  ///   - epoch: the epoch of the shard that delivered it. A new owner may retransmit what was
  ///     acknowledged to the former one, so the same number in a later epoch is no flaw.
  ///   - isOrdered: whether its place among the others counts.
  /// - Returns: what is wrong with it, once per stream and flaw.
  package mutating func receive(_ number: Int, epoch: UInt64 = 0, isOrdered: Bool = true) -> Flaw? {
    if let before = epochs.updateValue(epoch, forKey: number) {
      return before < epoch ? nil : first(.doubled)
    }
    guard isOrdered else { return nil }
    guard number < highest else {
      highest = number
      return nil
    }
    return first(.outOfOrder)
  }

  private mutating func first(_ flaw: Flaw) -> Flaw? { flaws.insert(flaw).inserted ? flaw : nil }
}
