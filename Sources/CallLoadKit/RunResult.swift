/// The timed phases. Raw values are the names in the JSON report.
package enum LatencyPhase: String, CaseIterable, Decodable, CodingKeyRepresentable, Sendable {
  /// TCP connect → WebSocket open and attached.
  case connect
  /// register → its reply.
  case register
  /// Intended time of place → the last of the callee's devices has the invite.
  case ring
  /// Intended time of the answer → the caller is notified.
  case answer
  /// Intended time of the answer → the last other device is notified.
  case elsewhere
  /// Intended time of cancel → the last device is notified.
  case cancel
  /// The distance between the deadline and the end of an unanswered call, in either direction.
  case timeout
  /// Intended time of a ping → its reply: one round trip between a device and its edge.
  case hop
}

/// One call's ring latency, and the intended time of placing.
package struct RingSample: Sendable, Equatable {
  /// Seconds since the load began.
  package var dueSeconds: Double
  package var microseconds: UInt64
  package init(dueSeconds: Double, microseconds: UInt64) {
    self.dueSeconds = dueSeconds
    self.microseconds = microseconds
  }
}

/// The counts that must be 0. Raw values are the names in the JSON report.
package enum CorrectnessRule: String, CaseIterable, Decodable, CodingKeyRepresentable, Sendable {
  case twoWinners, noWinner, ringingAfterEnd, toldToRingAfterEnd, wrongReason, winnerToldItLost
  case duplicateEnd, commandLost, unexplainedError, acceptedThenForgotten, timeoutLate
  case registrationLost
  // Violations that no fault excuses.
  case unreachableThoughAttached, attachedNotRung, signalsOutOfOrder, signalsLost, signalsDoubled
  case twoCallsOfGlare, movedWrongly, forwardedWrongly, transferredWrongly, secondCallWrongly
  // Rules about what the app's server and users' histories have.
  case webhookLost, webhookInvented, webhookOutOfOrder
  case historyLost, historyDoubled, historyDisagrees
  case ongoingWrongly, hookDisagrees
  // Rules about pushes.
  case pushedAfterEnd, pushedTwice, cleanUpToWinner, cleanUpUnasked, wokenRangAfterEnd
  case pushContract

  package var isOfWebhooks: Bool {
    [.webhookLost, .webhookInvented, .webhookOutOfOrder].contains(self)
  }

  package var isOfHistories: Bool {
    [.historyLost, .historyDoubled, .historyDisagrees].contains(self)
  }

  /// Whether it is judged only where devices sleep.
  package var isOfPushes: Bool {
    [
      .pushedAfterEnd, .pushedTwice, .cleanUpToWinner, .cleanUpUnasked, .wokenRangAfterEnd,
      .pushContract,
    ].contains(self)
  }

  package var title: String {
    switch self {
    case .twoWinners: "two winners"
    case .noWinner: "no winner"
    case .ringingAfterEnd: "still ringing after the end"
    case .toldToRingAfterEnd: "told to ring after the end"
    case .wrongReason: "wrong reason"
    case .winnerToldItLost: "winner told it lost"
    case .duplicateEnd: "duplicate end"
    case .commandLost: "command lost"
    case .unexplainedError: "unexplained error"
    case .acceptedThenForgotten: "accepted, then forgotten"
    case .timeoutLate: "timeout late"
    case .registrationLost: "registration lost"
    case .unreachableThoughAttached: "unreachable although a device was attached"
    case .attachedNotRung: "an attached device was not rung"
    case .signalsOutOfOrder: "signals out of order"
    case .signalsLost: "signals lost"
    case .signalsDoubled: "signals doubled"
    case .twoCallsOfGlare: "two calls of one glare"
    case .movedWrongly: "taken over wrongly"
    case .forwardedWrongly: "sent on wrongly"
    case .transferredWrongly: "transferred wrongly"
    case .secondCallWrongly: "second call treated wrongly"
    case .webhookLost: "webhook lost"
    case .webhookInvented: "webhook invented"
    case .webhookOutOfOrder: "webhook out of order"
    case .historyLost: "history lost"
    case .historyDoubled: "history doubled"
    case .historyDisagrees: "history that disagrees between sides"
    case .ongoingWrongly: "ongoing calls shown wrongly"
    case .hookDisagrees: "told otherwise than the hook said"
    case .pushedAfterEnd: "pushed after the end"
    case .pushedTwice: "pushed twice"
    case .cleanUpToWinner: "clean-up to the winner"
    case .cleanUpUnasked: "clean-up to one that did not ask"
    case .wokenRangAfterEnd: "woken device rang for an ended call"
    case .pushContract: "contract violations seen by the provider"
    }
  }
}

/// The results of a load run, apart from the usage of processes.
package struct RunResult: Sendable {
  package var devicesExpected = 0
  package var devicesConnected = 0
  package var devicesRegistered = 0
  /// How often devices have moved to nearer edges.
  package var nearerMoves = 0
  /// Devices whose request to register has no reply: the cluster may have registered them.
  package var registrationsOfUnknownFate = 0
  package var callsExpected = 0
  package var callsPlaced = 0
  package var callsCompleted = 0
  package var callsByPart: [String: Int] = [:]
  /// Cause → count.
  package var failures: [String: Int] = [:]
  /// Cause → the history of a call with this unplanned end.
  package var failureExamples: [String: String] = [:]
  package var correctness: [CorrectnessRule: Int] = [:]
  /// For each broken rule the histories of a few calls.
  package var examples: [CorrectnessRule: [String]] = [:]
  /// Microseconds.
  package var latency: [LatencyPhase: LatencyHistogram] = [:]
  /// Only with ``LoadOptions/keepsSeries``.
  package var series: LatencySeries?
  /// Only with ``LoadOptions/keepsRings``.
  package var rings: [RingSample] = []
  /// The measured part, without ramp and settling.
  package var loadSeconds: Double = 0
  package var rampSeconds: Double = 0
  package var interrupted = false
  /// Only where faults were injected.
  package var chaos: ChaosResult?
  /// Only where devices sleep.
  package var pushes: PushResult?
  /// The webhook's events that are due, until ``WebhookServer`` has judged them. Only with `--webhooks`.
  package var webhooksDue: [WebhookDue] = []
  package var webhooks: WebhookResult?
  /// Only with `--history`.
  package var history: HistoryResult?
  /// Only where devices are shown their users' calls.
  package var ongoing: OngoingResult?
  /// Only where callload read the journal of its cluster.
  package var journal: JournalFindings?
  /// Only with `--hook`.
  package var hook: HookResult?
  package init() {}

  package var callsPerSecond: Double? { loadSeconds > 0 ? Double(callsPlaced) / loadSeconds : nil }

  /// Calls that ended as planned, or otherwise for a reason that a fault explains.
  package var callsAccountedFor: Int { callsCompleted + (chaos?.changedCount ?? 0) }

  package var registrationsDue: ClosedRange<Int> {
    devicesRegistered...(devicesRegistered + registrationsOfUnknownFate)
  }

  /// Compares the cluster's registrations with those that it acknowledged.
  /// - Parameter found: the devices that the cluster has registered; nil without an answer.
  package mutating func lost(registrations found: Int?) {
    let due = registrationsDue
    let wrong = max(due.lowerBound - (found ?? 0), (found ?? 0) - due.upperBound)
    guard wrong > 0 else { return }
    correctness[.registrationLost, default: 0] += wrong
    let known = found.map { "knows \($0)" } ?? "does not say how many it knows"
    let perhaps =
      registrationsOfUnknownFate > 0 ? ", perhaps \(registrationsOfUnknownFate) more" : ""
    examples[.registrationLost, default: []].append(
      "\(devicesRegistered) devices registered\(perhaps), and the cluster \(known)")
  }

  /// Whether the rule was judged in this run, or was broken.
  func hasJudged(_ rule: CorrectnessRule) -> Bool {
    (correctness[rule] ?? 0) > 0
      || (pushes != nil || !rule.isOfPushes)
        && (webhooks != nil || !rule.isOfWebhooks) && (history != nil || !rule.isOfHistories)
        && (ongoing != nil || rule != .ongoingWrongly) && (hook != nil || rule != .hookDisagrees)
  }

  var brokenRules: [String] {
    CorrectnessRule.allCases.compactMap { rule in
      guard let count = correctness[rule], count > 0 else { return nil }
      return "\(rule.title): \(Units.count(count))"
    }
  }

  package var isCorrect: Bool { correctness.values.allSatisfy { $0 == 0 } }
}
