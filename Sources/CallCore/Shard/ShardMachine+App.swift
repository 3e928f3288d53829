/// Requests of an app's server. It acts in the name of its app, so it needs no part in a call.
extension ShardMachine {
  mutating func app(_ command: Command, _ request: AppRequest, _ turn: inout Turn) {
    switch request {
    case .user: turn.reply(command, .app(.user(appUser(command.user, turn))))
    case .calls:
      let calls = AppCalls(callsForApp(of: command.user))
      turn.reply(command, .app(.calls(calls)), command.body.urgency)
    case .live(let query):
      let calls = AppCalls(liveCalls(of: command.user.app, query))
      turn.reply(command, .app(.calls(calls)), command.body.urgency)
    case .call(let id): turn.reply(command, callForApp(command, id))
    case .end(let id):
      if callOfApp(command, id) != nil { mutate(id) { $0.endByApp(&turn) } }
      turn.reply(command, callForApp(command, id))
    case .place(let placing): placeForApp(command, placing, &turn)
    case .remove(let device): removeForApp(command, device, &turn)
    case .group:
      let group = users[command.user]?.rules?.group
      turn.reply(command, group.map { .app(.group($0)) } ?? .error(CallError(.noSuchResource)))
    case .setGroup(let group): set(group, command, &turn)
    case .name: turn.reply(command, .app(.name(name(of: command.user))))
    case .setName(let name): set(name: name, command, &turn)
    }
  }

  /// The call, if it is one to the command's user.
  private func callOfApp(_ command: Command, _ id: CallID) -> Int? {
    guard let slot = calls.slot(of: id), calls[slot].facts.callee == command.user else {
      return nil
    }
    return slot
  }

  private func callForApp(_ command: Command, _ id: CallID) -> Reply {
    guard let slot = callOfApp(command, id) else { return .error(CallError(.unknownCall)) }
    return .app(.call(calls[slot].forApp))
  }

  private func appUser(_ key: UserKey, _ turn: borrowing Turn) -> AppUser {
    let now = turn.now
    var found = AppUser(user: key.user)
    found.name = name(of: key)
    found.devices = (users[key]?.devices ?? []).compactMap { $0.forApp(at: now) }
    found.calls = liveCalls(to: key).newest()
    return found
  }

  private func liveCalls(to key: UserKey) -> [AppCall] {
    (users[key]?.calls ?? []).compactMap { id in
      guard let slot = calls.slot(of: id), !calls[slot].isEnded else { return nil }
      return calls[slot].forApp
    }
  }

  /// The calls in this shard that the user placed and those to it. A call to the user's own devices counts once.
  private func callsForApp(of key: UserKey) -> [AppCall] {
    let placed = placedCalls.calls(by: key).compactMap { id -> AppCall? in
      guard let slot = calls.slot(of: id), calls[slot].facts.callee != key else { return nil }
      return calls[slot].forApp
    }
    return (placed + liveCalls(to: key)).newest()
  }

  private func liveCalls(of app: String, _ query: LiveCallsQuery) -> [AppCall] {
    let limit = min(Int(query.limit), AppReply.callsMax + 1)
    var places = Shortlist<AppCallPlace>(countMax: limit)
    for slot in calls.slots
    where !calls[slot].isEnded && calls[slot].facts.callee.app.hasBytes(of: app) {
      let place = calls[slot].placeForApp
      if query.before.map({ $0 < place }) ?? true { places.add(place) }
    }
    return places.items.compactMap { place in calls.slot(of: place.call).map { calls[$0].forApp } }
  }

  /// Removes the registration and, once the store has that, ends the session; then the reply follows. A device that is
  /// not there is as good as removed.
  private mutating func removeForApp(
    _ command: Command, _ device: DeviceID, _ turn: inout Turn
  ) {
    dropClaims(of: command.user, device, &turn)
    let isStored =
      users[command.user]?.device(device)?.registration != nil
      || isStoring(command.user, device)
    if isStored {
      return remove(command.user, device, .removed, reply: PendingReply(command), &turn)
    }
    endSession(of: device, command.user, &turn)
    turn.reply(command, .done)
  }

  /// Ends the session of a removed device, as if the device had ended it itself: nothing waits for its return.
  mutating func endSession(of device: DeviceID, _ key: UserKey, _ turn: inout Turn) {
    guard let session = users[key]?.device(device)?.session else { return }
    sessionClosed(key, session, graceful: true, &turn)
    let notice = Notice(
      kind: .deviceRemoved, message: "The app's server has removed this device.")
    turn.perform(.close(session, notice))
  }
}

extension Call {
  /// Ends the call for the app's server: as the caller would while it rings, and as either side would once it is
  /// answered. Does nothing to one that has ended.
  mutating func endByApp(_ turn: inout Turn) {
    guard !isEnded else { return }
    end(isRinging ? .cancelled : .hungUp, by: nil, byApp: true, &turn)
  }

  var forApp: AppCall {
    var state = state(for: .caller)
    var endedByApp = false
    if case .ended(let ending) = stage {
      state.missed = ending.facts.missed
      endedByApp = ending.facts.byApp
    }
    return AppCall(
      state: state, caller: facts.caller, placedAt: facts.placedAt, answeredBy: answer?.by,
      endedByApp: endedByApp)
  }
}

extension Call {
  fileprivate var placeForApp: AppCallPlace {
    AppCallPlace(placedAtMs: facts.placedAt.milliseconds, call: id, callee: facts.callee.user)
  }
}

extension User.Device {
  /// nil: the device is gone.
  fileprivate func forApp(at now: Timestamp) -> AppUser.Device? {
    guard session != nil || registration != nil else { return nil }
    let seen = max(registration?.seenAt ?? attachedAt, attachedAt, leftAt)
    return AppUser.Device(
      device: id, name: name, client: client, attachedAt: session == nil ? nil : attachedAt,
      registeredAt: registration?.registeredAt, seenAt: session == nil ? seen : now,
      voipPush: registration?.request.voipToken?.provider ?? .none,
      alertPush: registration?.request.alertToken?.provider ?? .none)
  }
}
