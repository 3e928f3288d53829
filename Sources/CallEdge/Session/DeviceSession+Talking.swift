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

  /// A call that was resumed here, or that the device hangs up, is over. If this session has made no report yet, the
  /// shard may still have that of the session before it.
  mutating func noteTalkIsOver(by reply: Reply, to body: Command.Body) {
    guard talking == nil, case .call(_, let verb) = body, verb == .resume || verb == .hangUp,
      case .call(let state) = reply, state.phase == .ended || state.phase == .unknown
    else { return }
    (mustReportTalking, mayReportTalking) = (true, true)
  }

  /// Reports the answered calls if they have changed since the last report.
  package mutating func reportTalking(_ turn: inout Turn) {
    mayReportTalking = false
    guard case .attached(let identity) = phase else { return }
    let isBusy = rules.isBusyInCall(identity.user.app)
    // If the app has changed its choice, an earlier report is taken back.
    let calls = isBusy ? placedCalls.filter(\.isAnswered).map(\.call) : []
    guard calls != talking?.calls ?? [] || mustReportTalking && isBusy else { return }
    mustReportTalking = false
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
    (mustReportTalking, mayReportTalking) = (true, true)
  }
}
