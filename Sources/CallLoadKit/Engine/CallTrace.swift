import CallClient
package import CallCore
package import CallJudge
import CallWire

package enum CallOutcome: Sendable, Hashable {
  /// Answered, and hung up later.
  case answered
  case ended(EndReason)
  case refused(CallError.Code)
  /// The caller did not learn how the call ended.
  case unfinished

  package var isRefusal: Bool { if case .refused = self { true } else { false } }

  package var name: String {
    switch self {
    case .answered: "answered"
    case .ended(let reason): reason.name
    case .refused(let code): "refused (\(code.name))"
    case .unfinished: "unfinished"
    }
  }
}

extension CallChecker {
  package struct Verdict: Sendable, Equatable {
    package var outcome: CallOutcome
    package var violations: [Violation<CorrectnessRule>]
    /// The fault that explains an outcome which is not the planned one.
    package var explainedBy: ChaosKind?
    /// The call's history, where its outcome is neither planned nor explained.
    package var story: String?
    package var fate: CallFate
  }
}

extension CallRecord {
  var outcome: CallOutcome {
    if let refusal, !accepted { return .refused(refusal) }
    if answeredBy != nil { return caller.isOver ? .answered : .unfinished }
    if let end = caller.end { return .ended(end.reason) }
    // The cluster may reply to the caller's own cancel with nothing but "done".
    if caller.left, caller.acts.contains(.cancel) { return .ended(.cancelled) }
    return .unfinished
  }

  func story(_ what: String, seed: UInt64) -> String {
    var lines = [
      "call \(facts.call), seed \(seed), \(facts.part.rawValue): \(what)",
      "  caller \(name(of: facts.caller))",
    ]
    for line in trace {
      let milliseconds = Double((line.at - facts.placedAt).microseconds / 100) / 10
      lines.append("  \(milliseconds) ms  \(name(of: line.device))  \(line.event.text)")
    }
    if trace.count == Self.traceMax { lines.append("  …") }
    return lines.joined(separator: "\n")
  }

  /// The history of a call with an unplanned end, and the faults of its shard at that time.
  func story(seed: UInt64, _ timeline: FaultTimeline) -> String {
    let faults = timeline.story(shard: shard, around: trace.last?.at ?? facts.placedAt)
    return ([story(outcome.name, seed: seed)] + faults.map { "  \($0)" }).joined(separator: "\n")
  }
}

struct TraceLine: Sendable {
  enum Event: Sendable {
    case sent(ClientCommand)
    case delivered(Delivery)
    case replied(ServerReply)
    case gaveUp, detached, attached
  }
  var at: Timestamp
  var device: Int
  var event: Event
}

extension TraceLine.Event {
  var isSignal: Bool {
    switch self {
    case .sent(.call(_, .signal)): true
    case .delivered(let delivery): if case .signal = delivery.event { true } else { false }
    case .sent, .replied, .gaveUp, .detached, .attached: false
    }
  }

  var text: String {
    switch self {
    case .sent(.call(_, .signal(.information, let body))): "→ information \(Self.number(body))"
    case .sent(.call(_, .signal(_, let body))): "→ signal \(Self.number(body))"
    case .sent(let command): "→ \(command.name)"
    case .delivered(let delivery): "← \(Self.text(delivery.event)) (version \(delivery.version))"
    case .replied(.call(let state)): "← state: \(Self.text(state))"
    case .replied(.answer(let won, let state)): "← \(won ? "won" : "lost"): \(Self.text(state))"
    case .replied(.error(let error)): "← error \(error.code.rawValue) \(error.code.name)"
    case .replied(.done), .replied(.attached), .replied(.registered), .replied(.calls),
      .replied(.history), .replied(.rules):
      "← done"
    case .gaveUp: "no reply; gives up"
    case .detached: "connection gone"
    case .attached: "attached again"
    }
  }

  private static func text(_ event: Delivery.Event) -> String {
    switch event {
    case .invite: "invite"
    case .ringsUntil(let deadline): "rings until \(deadline.microseconds / 1000)"
    case .ringing(let party): "ringing\(text(by: party))"
    case .answered(let answered): "answered\(text(by: answered.by))"
    case .stop(let stop): "stop \(stop.reason.name)\(text(by: stop.by))"
    case .signal(let signal): "signal \(number(signal.body))"
    case .moved(let moved): "moved\(text(by: moved.to))"
    case .transfer(let news):
      "transfer \(news.number) \(news.reason?.name ?? "rings")\(text(by: news.by))"
    }
  }

  private static func text(_ state: CallState) -> String {
    let reason = state.reason.map { " \($0.name)" } ?? ""
    return "\(state.phase.name)\(reason)\(text(by: state.by)) (version \(state.version))"
  }

  private static func text(by party: Party?) -> String { party.map { " by \($0.text)" } ?? "" }

  private static func number(_ body: String) -> Int { NumberedCandidate(body: body)?.number ?? 0 }
}

extension ClientCommand {
  var name: String {
    switch self {
    case .place: "place"
    case .call(_, .decline(.everywhere)): "declineEverywhere"
    case .call(_, .decline(.here)): "declineHere"
    case .call(_, let verb): verb.name
    case .attach, .detach, .register, .unregister, .ack, .ping, .calls, .renew, .history, .rules:
      "of no call"
    }
  }
}

extension Party {
  var text: String { "\(user)/\(device)" }
}
