package import CallCore
import CallJudge

package enum CallOutcome: Sendable, Hashable {
  /// Answered, and hung up later.
  case answered
  case ended(EndReason)
  /// The cluster did not take the call.
  case refused(CallError.Code)
  /// The caller was never told how it ended.
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

extension CallRecord {
  var outcome: CallOutcome {
    if let refusal, !accepted { return .refused(refusal) }
    if answeredBy != nil { return caller.isOver ? .answered : .unfinished }
    if let end = caller.end { return .ended(end.reason) }
    // Its own cancel was taken with nothing but "done".
    if caller.left, caller.acts.contains(.cancel) { return .ended(.cancelled) }
    return .unfinished
  }

  func story(_ what: String, seed: UInt64) -> String {
    var lines = [
      "call \(facts.call), seed \(seed), \(facts.part.rawValue): \(what)",
      "  caller \(name(of: facts.caller))",
    ]
    for line in trace {
      let milliseconds = (line.at - facts.placedAt).microseconds / 100
      let name = name(of: Int(line.device))
      lines.append("  \(Double(milliseconds) / 10) ms  \(name)  \(line.text(roster))")
    }
    if trace.count == Self.traceMax { lines.append("  …") }
    return lines.joined(separator: "\n")
  }
}

extension CallRecord {
  /// The history of a call that ended as nobody planned, with what befell its shard meanwhile.
  func story(seed: UInt64, _ timeline: FaultTimeline) -> String {
    let last = trace.last?.at ?? facts.placedAt
    let faults = timeline.story(shard: shard, around: last).map { "\n  \($0)" }
    return story(outcome.name, seed: seed) + faults.joined()
  }
}

extension TraceLine {
  func text(_ roster: Roster) -> String {
    let by = self.by >= 0 ? " by \(roster.party(Int(self.by)).text)" : ""
    if what == .signal { return "→ signal \(detail)" }
    if what == .signalled { return "← signal \(detail) (version \(version))" }
    let reason = EndReason(rawValue: detail).map { " \($0.name)" } ?? ""
    switch what {
    case .place, .alerting, .answer, .declineEverywhere, .declineHere, .busy, .cancel, .connected,
      .hangUp, .signal, .resume, .query:
      return "→ \(what)"
    case .invite, .ringing, .answered, .stop, .signalled:
      return "← \(what)\(reason)\(by) (version \(version))"
    case .done: return "← done"
    case .state, .won, .lost:
      let phase = CallPhase(rawValue: UInt8(clamping: code))?.name ?? "?"
      return "← \(what): \(phase)\(reason)\(by) (version \(version))"
    case .error: return "← error \(code) \(CallError.Code(rawValue: code)?.name ?? "")"
    case .gaveUp: return "no reply; gives up"
    case .detached: return "connection gone"
    case .attached: return "attached again"
    }
  }
}
