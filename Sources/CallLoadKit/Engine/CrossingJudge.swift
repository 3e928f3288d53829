import CallCore
import CallJudge

/// Judges two calls that were placed to cross, once both are judged: one goes on, and the other one gives way to it.
struct CrossingJudge: Sendable {
  /// The outcome of the call of each pair that was judged first.
  private var outcomes: [CallID: CallOutcome] = [:]

  /// - Returns: what is wrong with the pair; nil where nothing is, or the other call is not judged yet.
  mutating func judged(
    _ call: CallID, crosses other: CallID, _ outcome: CallOutcome
  ) -> String? {
    guard let first = outcomes.removeValue(forKey: other) else {
      outcomes[call] = outcome
      return nil
    }
    switch (first, outcome) {
    case (.answered, .answered): return "both calls of users who called each other went on"
    case (.ended(.glare), .ended(.glare)):
      return "both calls of users who called each other gave way"
    default: return nil
    }
  }
}

extension CallRecord {
  /// A device was notified that the call gave way to another one.
  mutating func gaveWay(_ device: Int, _ reason: EndReason?, to call: CallID?) {
    if reason == .transferred, let first = facts.during?.first, call != first {
      violate(
        .transferredWrongly,
        "\(name(of: device)) was not told which call the one goes on with in which it was asked")
    }
    guard reason == .glare else { return }
    survivor = survivor ?? call
    if call == nil || call != facts.crosses {
      violate(
        .wrongReason, "\(name(of: device)) was told that it gave way, but not to the crossing call")
    }
  }
}
