internal import CallBus
internal import CallCore
internal import CallTelemetry

/// The core's values as operators see them.
extension ShardStatus {
  init(
    shard: Int, state: ShardState, epoch: UInt64 = 0, sequence: UInt64 = 0,
    counts: ShardCounts = ShardCounts(), deliveriesTotal: UInt64 = 0
  ) {
    self.init()
    self.shard = shard
    self.state = state.rawValue
    self.epoch = epoch
    self.sequence = sequence
    placed = counts.placed
    ringing = counts.ringing
    answered = counts.answered
    endedKept = counts.endedKept
    sessions = counts.sessions
    registrations = counts.registrations
    callsPlacedTotal = counts.callsPlacedTotal
    callsAnsweredTotal = counts.callsAnsweredTotal
    callsEndedTotal = counts.callsEndedTotal
    self.deliveriesTotal = deliveriesTotal
    deliveryRepeatsTotal = counts.deliveryRepeatsTotal
  }
}

extension ShardClaim.Unreadable {
  func remedy(_ shard: Int, _ subjects: Subjects) -> String {
    let bucket = subjects.checkpointStream
    switch what {
    case .journal:
      let end = sequence.map(String.init) ?? "SEQUENCE"
      return "Run a node of the version that wrote it, or restore NATS's store. To give up what is "
        + "missing or damaged up to there: nats kv put \(bucket) \(shard).accept \(end)"
    case .checkpoint:
      return "Run a node of the version that wrote it, or restore NATS's store. To go on from the "
        + "journal alone: nats kv del \(bucket) \(shard).head"
    case .lease:
      return "Run a node of the version that wrote it. To do without it: "
        + "nats kv del \(subjects.leaseBucket) \(shard)"
    }
  }
}

extension CallReport {
  init(node: String, shard: Int, _ inspection: CallInspection) {
    self.init(found: true, node: node)
    self.shard = shard
    app = inspection.app
    call = inspection.state.call.description
    callee = inspection.state.callee
    caller = Party(inspection.caller)
    phase = inspection.state.phase.name
    reason = inspection.state.reason?.name
    by = inspection.state.by.map(Party.init)
    deadlineMilliseconds = inspection.state.deadline?.milliseconds
    legs = inspection.legs.map {
      Leg(
        party: Party($0.party), state: $0.state, session: $0.session?.description,
        pushes: $0.pushes.map(\.name))
    }
    timeline = inspection.timeline.map {
      Event(
        atMicroseconds: $0.at.microseconds, device: $0.device?.text, user: $0.user, what: $0.what,
        purpose: $0.purpose?.name, reason: $0.reason)
    }
    timelineDropped = inspection.timelineDropped
  }
}

extension CallReport.Party {
  init(_ party: CallCore.Party) {
    self.init(user: party.user, device: party.device.text, deviceName: party.deviceName)
  }
}

extension ListedCall {
  init(_ call: CallSummary, shard: Int, owner: String) {
    self.init(
      call: call.state.call.description, phase: call.state.phase.name,
      reason: call.state.reason?.name, app: call.app, caller: CallReport.Party(call.caller),
      callee: call.state.callee, winner: call.winner.map(CallReport.Party.init),
      placedAtMilliseconds: call.placedAt.milliseconds, shard: shard, owner: owner)
    if call.state.phase == .ended { endedAtMilliseconds = call.state.at.milliseconds }
  }
}

extension ListedUser {
  init(_ user: UserSummary) {
    self.init(
      app: user.user.app, user: user.user.user, attached: user.attached,
      registered: user.registered, liveCallsTo: user.liveCallsTo)
  }
}

extension UserReport {
  init(node: String, shard: Int, _ inspection: UserInspection) {
    self.init(found: true, node: node)
    self.shard = shard
    app = inspection.user.app
    user = inspection.user.user
    devices = inspection.devices.map(Device.init)
    calls = inspection.calls.newest.map { Call($0, of: inspection.user) }
    callsLeftOut = inspection.calls.leftOut
  }
}

extension UserReport.Call {
  init(_ call: UserCalls.Item, of user: UserKey) {
    let (caller, callee) = (call.caller.user, call.state.callee)
    let isPlaced = caller.hasBytes(of: user.user)
    self.init()
    self.call = call.state.call.description
    phase = call.state.phase.name
    reason = call.state.reason?.name
    direction = caller.hasBytes(of: callee) ? "toSelf" : isPlaced ? "placed" : "called"
    with = isPlaced ? callee : caller
    placedAtMilliseconds = call.placedAt.milliseconds
  }
}

extension UserReport.Placed {
  init(_ calls: UserCalls, of user: UserKey, shards: [Int], shardCount: Int) {
    self.init(
      calls: calls.newest.map { UserReport.Call($0, of: user) }, leftOut: calls.leftOut,
      shards: shards, shardCount: shardCount)
  }
}

extension UserReport.Device {
  init(_ device: UserInspection.Device) {
    let tokens = [device.registration?.request.voipToken, device.registration?.request.alertToken]
    self.init()
    self.device = device.device.text
    name = device.name
    session = device.session?.description
    client = device.client
    attachedAtMilliseconds = device.attachedAt?.milliseconds
    pushProviders = tokens.compactMap { $0?.provider.name }.filter { $0 != "none" }
    guard let registration = device.registration else { return }
    registeredAtMilliseconds = registration.registeredAt.milliseconds
    seenAtMilliseconds = registration.seenAt.milliseconds
    self.tokens = [
      registration.request.voipToken.map {
        UserReport.Token("voip", $0, registration.trust(in: $0))
      },
      registration.request.alertToken.map {
        UserReport.Token("alert", $0, registration.trust(in: $0))
      },
    ].compactMap(\.self)
    dialect = registration.dialect.rawValue
    sdk = [registration.request.sdkName, registration.request.sdkVersion]
      .filter { !$0.isEmpty }.joined(separator: " ")
    capabilities = registration.capabilities.names
  }
}

extension UserReport.Token {
  /// Shows nothing of the token itself.
  init(_ kind: String, _ token: PushToken, _ trust: TokenTrust) {
    self.init()
    self.trust = "\(trust)"
    self.kind = kind
    provider = token.provider.name
    environment = token.environment
    topic = token.provider == .webPush ? "" : token.topic
    fingerprint = String(token.fingerprint.prefix(12))
  }
}
