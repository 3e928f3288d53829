import CallCore

/// Where an app's users take no second call, their own shards must know of the answered calls that they placed, which
/// are in the shards of the callees. A session reports those of its device, as a whole, whenever they change.
extension DeviceSession {
  /// Numbers of reports lie above those of devices' requests, which are their own.
  private static let reportNumbers: UInt64 = 1 << 63

  /// Notes that a call that was placed here is answered.
  mutating func noteAnswer(of call: CallID) {
    update(call) {
      $0.isKnown = true
      $0.isAnswered = true
    }
    mayReportTalking = true
  }

  /// Reports the answered calls if they are others than were said.
  package mutating func reportTalking(_ turn: inout Turn) {
    mayReportTalking = false
    guard case .attached(let identity) = phase, rules.isBusyInCall(identity.user.app) else {
      return
    }
    let calls = placedCalls.filter(\.isAnswered).map(\.call)
    guard calls != talking?.calls ?? [] || didReportFail else { return }
    didReportFail = false
    let report = Talking(number: (talking?.number ?? 0) + 1, calls: calls)
    talking = report
    turn.actions.append(
      .reportTalking(request: Self.reportNumbers | report.number, report))
  }

  /// The report was answered, or could not be sent. One that failed is made again with the next event.
  mutating func talkingReported(_ report: Talking, _ reply: Reply) {
    // A shard's owner of an earlier version does not know the command.
    guard case .error(let error) = reply, error.code != .unknownCommand, talking == report else {
      return
    }
    (didReportFail, mayReportTalking) = (true, true)
  }
}
