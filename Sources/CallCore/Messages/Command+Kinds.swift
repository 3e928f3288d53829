/// Properties of a command that a node needs without deciding it.
extension Command.Body {
  /// Whether it may wait a few milliseconds on its way, to travel with others.
  public var mayWait: Bool { urgency <= .lazy }

  /// Whether it only announces which session reaches a device, or a call's caller. (Edges announce the callers'
  /// sessions by `resume`.)
  public var isAboutSession: Bool {
    switch self {
    case .attach, .sessionClosed, .talking, .call(_, .resume), .callerGone: true
    case .register, .unregister, .place, .ack, .call, .calls, .pushReport, .tokenTaken, .crossed,
      .merge, .replaced, .history, .visit, .rules, .app:
      false
    }
  }

  /// The shard whose question it is: `callee` does not say it. nil: it goes to the callee's.
  public var namedShard: UInt32? {
    switch self {
    case .calls(let shard), .app(.calls(let shard)): shard
    case .app(.live(let query)): query.shard
    default: nil
    }
  }

  /// How long its reply may wait, to share an append.
  var urgency: Outcome.Urgency {
    switch self {
    case .call(_, let verb): verb.urgency
    case .ack: .idle
    // Only edges wait for these.
    case .calls, .talking, .history(.changed), .app(.calls), .app(.live): .slow
    case .attach, .sessionClosed, .callerGone, .register, .unregister, .place, .tokenTaken,
      .crossed, .merge, .replaced, .history, .visit, .rules, .app:
      .urgent
    // Only the gateway waits for it. The consequences of a failure are urgent by themselves.
    case .pushReport: .idle
    }
  }

  /// The call that a command is about; nil where it is about none, or several.
  public var call: CallID? {
    switch self {
    case .call(let call, _): call
    case .place(let request): request.call
    case .pushReport(let report): report.call
    case .crossed(let crossed): crossed.call
    case .merge(let request): request.call
    case .replaced(let request): request.call
    case .visit(let request): request.call
    case .app(.call(let call)), .app(.end(let call)): call
    case .app(.place(let placing)): placing.request.call
    case .attach, .sessionClosed, .callerGone, .register, .unregister, .ack, .calls, .tokenTaken,
      .talking, .history, .rules, .app:
      nil
    }
  }
}

/// An edge's own probe: a query for a call that does not exist, in the name of a user that does not exist. It needs
/// no ticket. Any reply shows that a shard can be reached.
extension Command {
  private static let nobodysApp = "callmesh"

  public static func reachabilityProbe(_ number: UInt64, session: SessionRef) -> Command {
    let nobody = UserKey(app: nobodysApp, user: "reach-\(number)")
    return Command(
      session: session, request: number, user: nobody, device: DeviceID("edge"), callee: nobody,
      body: .call(CallID(high: 0, low: number), .query))
  }

  public var isReachabilityProbe: Bool {
    guard case .call(let call, .query) = body, call.high == 0 else { return false }
    return user.app == Self.nobodysApp && callee == user && device.text == "edge"
  }
}
