/// Placing a call: whether it is accepted, and which devices it rings.
extension ShardMachine {
  /// - Parameter placing: the app's server places it: the caller's side is vacant, and `command` names its user.
  mutating func place(
    _ command: Command, _ request: PlaceRequest, for placing: AppPlacing? = nil, _ turn: inout Turn
  ) {
    let isForApp = placing != nil
    let fingerprint = request.setup.fingerprint(command, to: placing?.device)
    if let slot = calls.slot(of: request.call) {
      guard calls[slot].facts.fingerprint == fingerprint,
        calls[slot].facts.callee == command.callee
      else {
        return turn.reply(command, .error(CallError(.callIDTaken)))
      }
      if isForApp { return turn.reply(command, .app(.call(calls[slot].forApp))) }
      mutate(request.call) { call in
        // Another device may have the caller's side by now.
        switch call.role(of: command.user, command.device) {
        case .caller: call.callerAttached(by: command, &turn)
        case .formerCaller(let index): call.formerCallerAttached(index, by: command, &turn)
        case .leg, .calleeDevice, .stranger: break
        }
      }
      let state = state(of: request.call, seenBy: command)
      return turn.reply(command, .call(state))
    }
    if let refusal = refusal(of: request.setup) ?? admission(of: command, turn)
      ?? refusal(of: command.callee, request, turn)
    {
      return turn.reply(command, .error(refusal))
    }
    var facts = PlacedFacts(
      callee: command.callee,
      caller: Party(
        user: command.user.user, device: command.device, deviceName: request.deviceName,
        name: request.callerName),
      placedAt: turn.now, deadline: turn.now + ringTimeout(request.setup),
      video: request.setup.video, description: request.setup.description,
      headers: request.setup.headers, legs: [], fingerprint: fingerprint)
    facts.pushData = request.setup.pushData
    facts.subscriptions = request.subscriptions
    if isForApp { facts.callerRings = ringTimeout(request.setup) }
    facts.onlyDevice = placing?.device
    facts.isRingFixed = request.setup.ringTimeoutSeconds != 0 && !request.ringsAnew
    ring(facts, request, command, &turn)
  }

  /// Accepts the call: its legs are the callee's devices that have a session, those that are between
  /// two sessions, and those that a push can wake.
  private mutating func ring(
    _ facts: PlacedFacts, _ request: PlaceRequest, _ command: Command, _ turn: inout Turn
  ) {
    let id = request.call
    let caller = command.user
    let reach = reach(
      facts.callee, caller: caller, placer: command.device,
      busyWhileInCall: request.busyWhileInCall, only: facts.onlyDevice, turn)
    let diverted = diversion(request, reach, of: facts)
    var facts = facts
    facts.isCalleeInCall = reach.isInCall
    let free = reach.isBusy || diverted != nil ? [] : reach.devices
    facts.legs = free.map { Party(user: facts.callee.user, device: $0.id, deviceName: $0.name) }
    turn.outcome.entries.append(JournalEntry(call: id, change: .placed(facts)))
    tally.callsPlacedTotal += 1
    if storedParts.contains(.events), facts.subscriptions.contains(.webhooks) {
      turn.outcome.effects.append(.events(id, AppEventKinds(.placed)))
    }
    let isForApp = facts.callerRings != nil
    var call = Call(
      id: id, facts: facts, caller: isForApp ? Endpoint() : Endpoint(place: command), epoch: epoch)
    call.receivedAt = request.receivedAt
    call.busyWhileInCall = request.busyWhileInCall
    for leg in call.legs.indices {
      call.legs[leg].endpoint.session = free[leg].session
      call.legs[leg].invitation = .notSent(
        awaitedUntil: free[leg].brokeAt.map { $0 + limits.reattachGrace })
      if mayPush, free[leg].wakes { call.legs[leg].ringPush.becamePossible() }
    }
    // A user who takes no call is busy. Any other one without a device may still have unknown ones.
    let isBusy = reach.isBusy
    let until = isBusy ? nil : sessionsUnknownUntil(of: facts.callee, turn)
    let devices = users[facts.callee]?.devices ?? []
    let hasDevices =
      facts.onlyDevice == nil ? !devices.isEmpty : devices.contains { facts.mayRing($0.id) }
    call.changeRinging {
      $0.sessionsUnknownUntil = until
      $0.calleeHasDevices = hasDevices
    }
    call.apply(reach.forwarding)
    let slot = insert(call)
    mutate(id, at: slot) { call in
      let goesOn =
        diverted.map { call.divert($0.reason, from: facts.callee.user, to: $0.to, &turn) } ?? false
      if isBusy, !goesOn {
        call.end(.busy, by: nil, &turn)
      } else if call.legs.isEmpty {
        call.endIfNobodyIsLeft(&turn)
      }
      turn.reply(command, isForApp ? .app(.call(call.forApp)) : .call(call.state(for: .caller)))
      if call.isRinging {
        for leg in call.legs.indices {
          if call.legs[leg].endpoint.session == nil {
            call.planPush(leg, at: turn.now, turn)
          } else {
            call.invite(leg: leg, &turn)
          }
        }
        call.watchLegs(turn)
      }
    }
    turn.outcome.raise(to: .urgent)
  }

  /// The users to whom a call goes on before it rings at all. The app's hook overrides the user's rules. If only the
  /// callee and the caller are left, the callee is called as usual.
  private func diversion(_ request: PlaceRequest, _ reach: Reach, of facts: PlacedFacts) -> (
    reason: DivertReason, to: DivertTargets
  )? {
    let chosen =
      request.forward.isEmpty ? reach.diverted : (.hook, DivertTargets(request.forward))
    guard mayDivert, let chosen else { return nil }
    let isOther = chosen.to.users.contains {
      !$0.hasBytes(of: facts.callee.user) && !$0.hasBytes(of: facts.caller.user)
    }
    return isOther ? chosen : nil
  }

  /// A user's devices that can be rung, without the one that placed the call. Policy above `legsPerCall`: registered
  /// devices first, then those that attached last.
  /// - Parameter only: nil: any of them.
  func reached(
    _ key: UserKey, caller: UserKey, placer: DeviceID?, only: DeviceID? = nil,
    _ turn: borrowing Turn
  ) -> [User.Device] {
    let all = (users[key]?.devices ?? []).filter {
      isReached($0, turn) && !($0.id == placer && key == caller) && (only ?? $0.id) == $0.id
    }
    guard all.count > limits.legsPerCall else { return all }
    let preferred = all.sorted {
      ($0.registration == nil ? 0 : 1, $0.attachedAt) > (
        $1.registration == nil ? 0 : 1, $1.attachedAt
      )
    }
    return Array(preferred.prefix(limits.legsPerCall))
  }

  private func isReached(_ device: User.Device, _ turn: borrowing Turn) -> Bool {
    if device.session != nil { return !device.onlyPlaces }
    return mayPush && device.wakes || awaitedUntil(device, turn) != nil
  }

  /// Until when a registered device may be on its way back that has lost its session lately; nil: it is not awaited.
  /// Devices that are not registered are gone with their session.
  func awaitedUntil(_ device: User.Device, _ turn: borrowing Turn) -> Timestamp? {
    guard device.registration != nil, !device.onlyPlaces, let brokeAt = device.brokeAt else {
      return nil
    }
    let until = brokeAt + limits.reattachGrace
    return turn.now < until ? until : nil
  }

  /// Why an outside address cannot be called; nil: it can, or could if a device were there. The hook's decision about
  /// the call and the stored rules of the user, or its group, come first.
  private func refusal(of callee: UserKey, _ request: PlaceRequest, _ turn: borrowing Turn)
    -> CallError?
  {
    guard OutsideAddress.isOne(callee.user), request.forward.isEmpty,
      users[callee]?.devices.isEmpty ?? true, users[callee]?.rules == nil,
      sessionsUnknownUntil(of: callee, turn) == nil
    else { return nil }
    return CallError(.noGateway)
  }

  /// Why a request is refused whatever the state of the shard; nil: it is not.
  private func refusal(of setup: CallSetup) -> CallError? {
    let seconds = Span.seconds(Int64(setup.ringTimeoutSeconds))
    if setup.ringTimeoutSeconds != 0,
      seconds < limits.ringTimeoutMinimum || seconds > limits.ringTimeoutMaximum
    {
      return limits.invalidRingTimeout
    }
    let headerBytes = setup.headers.reduce(0) { $0 + $1.name.utf8.count + $1.value.utf8.count }
    if setup.headers.count > limits.headersCount || headerBytes > limits.headersBytes {
      return limits.headersTooLarge
    }
    if setup.description.utf8.count > limits.descriptionBytes {
      return limits.descriptionTooLarge
    }
    if setup.pushData.utf8.count > limits.pushDataBytes { return limits.pushDataTooLarge }
    return nil
  }

  /// Whether the shard and the callee have room for one more call.
  private mutating func admission(of command: Command, _ turn: borrowing Turn) -> CallError? {
    if calls.count >= limits.callsPerShard || room != .enough {
      return CallError(.overloaded, retryAfterMilliseconds: 1000)
    }
    return users[command.callee, default: User()].refusesPlacing(
      by: command.user, now: turn.now, limits)
  }

  private func ringTimeout(_ setup: CallSetup) -> Span {
    setup.ringTimeoutSeconds == 0
      ? limits.ringTimeout : .seconds(Int64(setup.ringTimeoutSeconds))
  }

  /// How many live calls each device of a user has; empty where the user has so few that no device has too many.
  func liveCalls(to user: UserKey) -> [DeviceID: Int] {
    var counts: [DeviceID: Int] = [:]
    guard let ids = users[user]?.calls, ids.count >= limits.liveCallsPerDevice else {
      return counts
    }
    for id in ids {
      guard let slot = calls.slot(of: id), !calls[slot].isEnded else { continue }
      for leg in calls[slot].legs
      where (leg.state.isLive || leg.state == .won) && leg.party.user.hasBytes(of: user.user) {
        counts[leg.party.device, default: 0] += 1
      }
    }
    return counts
  }
}
