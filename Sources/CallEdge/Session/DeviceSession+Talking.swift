import CallCore

/// The reports that an app's sessions send about the answered calls that were placed there.
enum TalkingReports {
  case none
  /// Second calls are refused, or marked as such.
  case ids
  /// Users see their calls on all devices.
  case withDetails
}

/// Where an app has chosen what becomes of second calls, or its users see their calls, their own shards must know of
/// the answered calls that they placed, which are in the shards of the callees. A session reports those of its device,
/// as a whole, whenever they change.
extension DeviceSession {
  /// Numbers of reports lie above those of devices' requests, which are their own.
  private static let reportNumbers: UInt64 = 1 << 63

  /// Notes that a call that was placed here is answered.
  /// - Parameter by: if it is this device, it has the callee's side, and only a pull made the call look placed here.
  mutating func noteAnswer(of call: CallID, by party: Party?, at time: Timestamp) {
    if isOwn(party) { return }
    update(call) {
      $0.isKnown = true
      if $0.answeredAt == nil { $0.answeredAt = time }
      if let party { $0.peer = party.user }
    }
    if reportsWanted != .none || talking != nil { mayReportTalking = true }
  }

  /// Another device has the other side now, perhaps another user's.
  mutating func noteMove(of call: CallID, to party: Party) {
    update(call) {
      $0.isKnown = true
      $0.peer = party.user
    }
    if talking != nil { mayReportTalking = true }
  }

  /// The reports that the app wants. They are looked up again only when an app's terms have changed: every call asks.
  private var reportsWanted: TalkingReports {
    mutating get {
      let version = rules.apps?.version ?? 0
      if let known = talkingReports, known.termsVersion == version { return known.wanted }
      guard let app = sentIdentity?.user.app else { return .none }
      let wanted = rules.talkingReports(of: app)
      talkingReports = (wanted, version)
      return wanted
    }
  }

  /// A call that was resumed here, or that the device hangs up, is over. If this session has made no report yet, the
  /// shard may still have that of the session before it.
  mutating func noteTalkIsOver(by reply: Reply, to body: Command.Body) {
    guard talking == nil, case .call(_, let verb) = body, verb == .resume || verb == .hangUp,
      case .call(let state) = reply, state.phase == .ended || state.phase == .unknown
    else { return }
    if reportsWanted != .none { (mustReportTalking, mayReportTalking) = (true, true) }
  }

  /// Reports the answered calls if they have changed since the last report.
  package mutating func reportTalking(_ turn: inout Turn) {
    mayReportTalking = false
    guard isAttached else { return }
    let wanted = reportsWanted
    // If the app has changed its choice, an earlier report is taken back.
    let answered = wanted == .none ? [] : placedCalls.filter(\.isAnswered)
    let calls = answered.map(\.call)
    let details = wanted == .withDetails ? answered.map(\.detail) : []
    guard
      calls != talking?.calls ?? [] || details != talking?.details ?? []
        || mustReportTalking && wanted != .none
    else { return }
    mustReportTalking = false
    let report = Talking(number: (talking?.number ?? 0) + 1, calls: calls, details: details)
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

extension DeviceSession.PlacedCall {
  fileprivate var detail: Talking.Detail {
    Talking.Detail(
      callee: callee.user, since: answeredAt ?? Timestamp(microseconds: 0),
      peer: peer.hasBytes(of: callee.user) ? "" : peer)
  }
}
