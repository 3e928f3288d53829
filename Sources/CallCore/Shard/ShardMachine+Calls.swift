/// Commands that concern one call.
extension ShardMachine {
  // MARK: Placing

  mutating func place(
    _ command: Command, _ request: PlaceRequest, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let fingerprint = Self.fingerprint(command, request)
    if let slot = calls.slot(of: request.call) {
      guard calls[slot].facts.fingerprint == fingerprint,
        calls[slot].facts.callee == command.callee
      else {
        return Self.reply(command, .error(CallError(.callIDTaken)), .urgent, into: &outcome)
      }
      mutate(request.call) { $0.callerAttached(command.session, context, into: &outcome) }
      let state = state(of: request.call, seenBy: command)
      return Self.reply(command, .call(state), .urgent, into: &outcome)
    }
    if let refusal = refusal(of: request) ?? admission(of: command, context) {
      return Self.reply(command, .error(refusal), .urgent, into: &outcome)
    }
    let facts = PlacedFacts(
      callee: command.callee,
      caller: Party(
        user: command.user.user, device: command.device, deviceName: request.deviceName),
      placedAt: context.now,
      deadline: context.now + ringTimeout(request),
      video: request.video, description: request.description, headers: request.headers,
      legs: [], fingerprint: fingerprint)
    ring(facts, request, command, context, into: &outcome)
  }

  /// Accepts the call: its legs are the callee's devices that have a session, those that are between
  /// two sessions, and those that a push can wake.
  private mutating func ring(
    _ facts: PlacedFacts, _ request: PlaceRequest, _ command: Command, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let id = request.call
    let reached = reached(facts, context)
    let live = liveCalls(to: facts.callee)
    let free = reached.filter { live[$0.id, default: 0] < limits.liveCallsPerDevice }
    let inCall = limits.busyWhileInCall && isInCall(facts.callee)
    var facts = facts
    if !inCall {
      facts.legs = free.map {
        Party(user: facts.callee.user, device: $0.id, deviceName: $0.name)
      }
    }
    outcome.entries.append(JournalEntry(call: id, change: .placed(facts)))
    tally.callsPlacedTotal += 1
    var call = Call(id: id, facts: facts, callerSession: command.session, epoch: epoch)
    call.receivedAt = request.receivedAt
    for leg in call.legs.indices {
      call.legs[leg].endpoint.session = free[leg].session
      call.legs[leg].awaitedUntil = free[leg].brokeAt.map { $0 + limits.reattachGrace }
      call.legs[leg].wakes = mayPush && free[leg].wakes
    }
    // Who is in a call, or has no free device, is busy; anybody else may yet have a device.
    let isBusy = !reached.isEmpty && facts.legs.isEmpty
    call.sessionsUnknownUntil = isBusy ? nil : sessionsUnknownUntil(of: facts.callee, context)
    insert(call)
    mutate(id) { call in
      if isBusy {
        call.end(.busy, by: nil, context, into: &outcome)
      } else if call.legs.isEmpty {
        call.endIfNobodyIsLeft(context, into: &outcome)
      }
      Self.reply(command, .call(call.state(for: .caller)), .urgent, into: &outcome)
      if call.isRinging {
        for leg in call.legs.indices {
          if call.legs[leg].endpoint.session == nil {
            call.planPush(leg, at: context.now, context)
          } else {
            call.invite(leg: leg, context, into: &outcome)
          }
        }
        call.watchLegs(context)
      }
    }
    outcome.raise(to: .urgent)
  }

  private func reached(_ facts: PlacedFacts, _ context: CallContext) -> [User.Device] {
    let all = (users[facts.callee]?.devices ?? []).filter {
      ($0.session != nil || (mayPush && $0.wakes) || isAwaited($0, context))
        && !(facts.caller.user.hasBytes(of: facts.callee.user) && $0.id == facts.caller.device)
    }
    guard all.count > limits.legsPerCall else { return all }
    let preferred = all.sorted {
      ($0.registration == nil ? 0 : 1, $0.attachedAt) > (
        $1.registration == nil ? 0 : 1, $1.attachedAt
      )
    }
    return Array(preferred.prefix(limits.legsPerCall))
  }

  /// Whether a device that is not attached lost its session so lately that it may be on its way
  /// back. Only registered ones count: the others are gone with their session.
  private func isAwaited(_ device: User.Device, _ context: CallContext) -> Bool {
    guard device.session == nil, device.registration != nil, let brokeAt = device.brokeAt else {
      return false
    }
    return context.now < brokeAt + limits.reattachGrace
  }

  private func refusal(of request: PlaceRequest) -> CallError? {
    let seconds = Span.seconds(Int64(request.ringTimeoutSeconds))
    if request.ringTimeoutSeconds != 0,
      seconds < limits.ringTimeoutMinimum || seconds > limits.ringTimeoutMaximum
    {
      return limits.invalidRingTimeout
    }
    let headerBytes = request.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    if request.headers.count > limits.headersCount || headerBytes > limits.headersBytes {
      return limits.headersTooLarge
    }
    if request.description.utf8.count > limits.descriptionBytes {
      return limits.descriptionTooLarge
    }
    return nil
  }

  private mutating func admission(of command: Command, _ context: CallContext) -> CallError? {
    if calls.count >= limits.callsPerShard || room != .enough {
      return CallError(.overloaded, retryAfterMilliseconds: 1000)
    }
    if let user = users[command.callee], user.calls.count >= limits.callsToUser {
      return limits.tooManyCallsToUser
    }
    let admits = users[command.callee, default: User()].admitsPlacing(
      by: command.user, now: context.now, perMinute: limits.callsPerPairPerMinute)
    return admits ? nil : limits.tooManyCalls
  }

  private func ringTimeout(_ request: PlaceRequest) -> Span {
    request.ringTimeoutSeconds == 0
      ? limits.ringTimeout : .seconds(Int64(request.ringTimeoutSeconds))
  }

  /// How many live calls each device of a user has.
  private func liveCalls(to user: UserKey) -> [DeviceID: Int] {
    var counts: [DeviceID: Int] = [:]
    for id in users[user]?.calls ?? [] {
      guard let slot = calls.slot(of: id), !calls[slot].isEnded else { continue }
      for leg in calls[slot].legs where leg.state.isLive || leg.state == .won {
        counts[leg.party.device, default: 0] += 1
      }
    }
    return counts
  }

  private func isInCall(_ user: UserKey) -> Bool {
    (users[user]?.calls ?? []).contains { id in
      calls.slot(of: id).map { calls[$0].phase } == .answered
    }
  }

  /// Tells a repeated `place` from another call with the same id.
  static func fingerprint(_ command: Command, _ request: PlaceRequest) -> UInt64 {
    var hash: UInt64 = 0xcbf2_9ce4_8422_2325
    func mix(_ text: String) {
      for byte in text.utf8 { hash = (hash ^ UInt64(byte)) &* 0x100_0000_01b3 }
      hash = (hash ^ 0xff) &* 0x100_0000_01b3
    }
    mix(command.user.app)
    mix(command.user.user)
    mix(command.device.text)
    mix(command.callee.user)
    mix(request.description)
    for header in request.headers {
      mix(header.name)
      mix(header.value)
    }
    hash = ShardHash.mix(hash ^ UInt64(request.ringTimeoutSeconds) << 1 ^ (request.video ? 1 : 0))
    return hash
  }

  // MARK: The rest

  mutating func handle(
    _ command: Command, _ id: CallID, _ verb: CallVerb, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    if case .query = verb {
      return Self.reply(command, .call(state(of: id, seenBy: command)), .urgent, into: &outcome)
    }
    if case .signal = verb, room == .scarce {
      let error = CallError(.overloaded, retryAfterMilliseconds: 1000)
      return Self.reply(command, .error(error), .urgent, into: &outcome)
    }
    guard let slot = calls.slot(of: id), calls[slot].facts.callee == command.callee else {
      return Self.reply(command, .error(CallError(.unknownCall)), .urgent, into: &outcome)
    }
    var role = calls[slot].role(of: command.user, command.device)
    if case .calleeDevice = role, verb.joins, calls[slot].isRinging {
      role = join(command, id, context, into: &outcome)
    }
    var answer: Reply? = .error(CallError(.notParty))
    // Before a new owner begins, nobody has been told anything: that is not the same as all knowing.
    let isServing = isServing
    mutate(id) { call in
      answer = Self.carryOut(verb, command, &call, role, context, into: &outcome)
      if isServing { call.settleIfAllHeard(context, into: &outcome) }
    }
    if let answer { Self.reply(command, answer, verb.urgency, into: &outcome) }
  }

  /// A device that a push woke may answer or decline before it has attached.
  private mutating func join(
    _ command: Command, _ id: CallID, _ context: CallContext, into outcome: inout Outcome
  ) -> Call.Role {
    var role = Call.Role.calleeDevice
    let device = users[command.user]?.device(command.device)
    let party = Party(
      user: command.user.user, device: command.device, deviceName: device?.name ?? "")
    mutate(id) { call in
      guard call.legs.count < context.limits.legsPerCallLifetime else { return }
      call.commit(.legJoined(party), .urgent, context, into: &outcome)
      if let leg = call.legIndex(command.device) {
        call.legs[leg].endpoint.session = device?.session
        role = .leg(leg)
      }
    }
    return role
  }

  /// - Returns: nil where nothing is to be answered.
  private static func carryOut(
    _ verb: CallVerb, _ command: Command, _ call: inout Call, _ role: Call.Role,
    _ context: CallContext, into outcome: inout Outcome
  ) -> Reply? {
    switch (verb, role) {
    // Strangers learn from no command more than from a query: not even that there is such a call.
    case (_, .stranger):
      return .error(CallError(command.user == call.callerKey ? .notParty : .unknownCall))
    case (.alerting, .leg(let leg)): return call.alerting(leg, context, into: &outcome)
    case (.answer(let description), .leg(let leg)):
      return call.answer(leg, description: description, context, into: &outcome)
    case (.decline(let scope), .leg(let leg)):
      return call.decline(leg, scope, on: command.session, context, into: &outcome)
    case (.busy, .leg(let leg)):
      return call.busy(leg, on: command.session, context, into: &outcome)
    // It could not join.
    case (.alerting, .calleeDevice) where call.isRinging,
      (.answer, .calleeDevice) where call.isRinging,
      (.decline, .calleeDevice) where call.isRinging, (.busy, .calleeDevice) where call.isRinging:
      return .error(context.limits.tooManyDevices)
    case (.answer, .calleeDevice):
      return .answer(won: false, call.state(for: role))
    case (.alerting, .calleeDevice), (.decline, .calleeDevice), (.busy, .calleeDevice):
      return .call(call.state(for: role))
    case (.alerting, .caller), (.answer, .caller), (.decline, .caller), (.busy, .caller):
      return .error(CallError(.notParty, "The caller's device cannot do this: cancel or hang up."))
    case (.cancel, .caller): return call.cancel(on: command.session, context, into: &outcome)
    case (.cancel, _): return .error(CallError(.notParty, "Only the caller's device can cancel."))
    case (.connected, _): return call.connected(role, context, into: &outcome)
    case (.hangUp, _): return call.hangUp(role, on: command.session, context, into: &outcome)
    case (.signal(let kind, let body), _):
      return call.signal(
        role, request: command.request, after: command.after, on: command.session, kind, body,
        context, into: &outcome)
    case (.resume, .caller):
      call.callerAttached(command.session, context, into: &outcome)
      return .call(call.state(for: .caller))
    case (.resume, _): return .call(call.state(for: role))
    case (.query, _): return .call(call.state(for: role))
    }
  }
}

extension CallVerb {
  /// Whether a device of the callee without a leg gets one by saying this.
  fileprivate var joins: Bool {
    switch self {
    case .alerting, .answer, .decline, .busy: true
    case .cancel, .connected, .hangUp, .signal, .resume, .query: false
    }
  }

  /// How long the reply may wait for company.
  fileprivate var urgency: Outcome.Urgency {
    switch self {
    case .connected: .slow
    case .alerting, .hangUp: .relaxed
    case .signal: .lazy
    case .answer, .decline, .busy, .cancel, .resume, .query: .urgent
    }
  }
}

extension Command.Body {
  /// Whether it may wait a few milliseconds on its way, to travel with others.
  public var mayWait: Bool { urgency <= .lazy }

  /// How long its reply may wait for company.
  var urgency: Outcome.Urgency {
    switch self {
    case .call(_, let verb): verb.urgency
    case .ack: .idle
    case .calls: .slow
    case .attach, .sessionClosed, .callerGone, .register, .unregister, .place, .tokenTaken: .urgent
    // Nobody waits for it but the gateway; what follows from a failure is urgent by itself.
    case .pushReport: .idle
    }
  }

  /// The call that a command is about; nil where it is about none, or several.
  public var call: CallID? {
    switch self {
    case .call(let call, _): call
    case .place(let request): request.call
    case .pushReport(let report): report.call
    case .attach, .sessionClosed, .callerGone, .register, .unregister, .ack, .calls, .tokenTaken:
      nil
    }
  }
}
