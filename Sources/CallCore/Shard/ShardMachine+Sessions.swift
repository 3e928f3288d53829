/// Sessions: on which edge a device is. Soft state, announced anew to a shard's new owner.
extension ShardMachine {
  mutating func attach(
    _ command: Command, _ attach: Attach, _ context: CallContext, into outcome: inout Outcome
  ) {
    if !attach.announce {
      let limits = limits.with(devicesPerUser: command.devicesPerUser)
      guard hasRoom(for: command.device, of: command.user, countMax: limits.legsPerCall) else {
        return Self.reply(command, .error(limits.tooManyDevices), .urgent, into: &outcome)
      }
    }
    if attach.announce,
      !hasRoom(for: command.device, of: command.user, countMax: limits.announcedDevicesPerUser)
    {
      let notice = Notice(kind: .deviceRemoved, message: limits.tooManyDevices.message)
      outcome.effects.append(.close(command.session, notice))
      return outcome.raise(to: .urgent)
    }
    var replaced: SessionRef?
    var ignored = false
    users[command.user, default: User()].withDevice(command.device) { device in
      if attach.announce, let present = device.session, present != command.session,
        device.attachedAt > attach.attachedAt
      {
        // The device has attached elsewhere since. It uses this session until it learns that.
        device.replacedAt = context.now
        ignored = true
        return
      }
      if device.session == nil { tally.sessions += 1 }
      if device.session != command.session {
        replaced = device.session
        device.replacedAt = replaced == nil ? nil : context.now
      }
      device.session = command.session
      device.brokeAt = nil
      device.attachedAt = attach.attachedAt
      device.client = attach.client
      if !attach.deviceName.isEmpty { device.name = attach.deviceName }
    }
    if ignored {
      guard command.request != 0 else { return }
      Self.reply(command, .error(Self.replacedSession), .urgent, into: &outcome)
      return Self.closeReplaced(command.session, into: &outcome)
    }
    brokenSessions.forget(command.user)
    if let replaced { Self.closeReplaced(replaced, into: &outcome) }
    if command.request != 0 {
      let state = attach.forCall.map { self.state(of: $0, seenBy: command, attaching: true) }
      Self.reply(
        command, .attached(forCall: state, ticket: command.ticket), .urgent, into: &outcome)
    }
    if isServing {
      ringAttached(command, context, into: &outcome)
      if !attach.announce { noteSeen(command.user, command.device, context, into: &outcome) }
    }
  }

  private static let replacedSession = CallError(
    .notAttached, "This device has attached with another session.")

  private static func closeReplaced(_ session: SessionRef, into outcome: inout Outcome) {
    let notice = Notice(kind: .sessionReplaced, message: replacedSession.message)
    outcome.effects.append(.close(session, notice))
    outcome.raise(to: .urgent)
  }

  /// Whether a device may attach or register. Each that does is rung, so the limit is here and not at the call.
  /// What an edge announces was let in before, so there is more room for it.
  /// - Parameters:
  ///   - leaving: registered devices that give way, unless they have a session.
  ///   - countMax: how many devices of the user there may be.
  func hasRoom(
    for device: DeviceID, of key: UserKey, leaving: [DeviceID] = [], countMax: Int
  ) -> Bool {
    guard let user = users[key] else { return true }
    let others = user.devices.filter { other in
      other.session != nil || (other.registration != nil && !leaving.contains(other.id))
    }
    return others.count < countMax || others.contains { $0.id == device }
  }

  /// The device gets the present state of its user's calls.
  private mutating func ringAttached(
    _ command: Command, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard let user = users[command.user], !user.calls.isEmpty else { return }
    let name = user.device(command.device)?.name ?? ""
    let party = Party(user: command.user.user, device: command.device, deviceName: name)
    let before = outcome.effects.count
    for id in user.calls {
      mutate(id) { $0.attached(party, command.session, context, into: &outcome) }
    }
    if outcome.effects.count > before { outcome.raise(to: .urgent) }
  }

  mutating func sessionClosed(
    _ key: UserKey, _ session: SessionRef, graceful: Bool, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let device = users[key]?.device(of: session)
    let dropped =
      users[key]?.dropSessions(at: context.now, graceful: graceful) { $0 == session } ?? []
    if !dropped.isEmpty {
      tally.sessions -= 1
      if !graceful { noteBroken(device, of: key, context) }
      // A socket may last longer than a registration does.
      if isServing, let device { noteSeen(key, device.id, context, into: &outcome) }
      calleeSessionLost(key, session, graceful: graceful, context, into: &outcome)
    }
    tidy(key)
  }

  mutating func calleeSessionLost(
    _ key: UserKey, _ session: SessionRef, graceful: Bool, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    for id in users[key]?.calls ?? [] {
      mutate(id) {
        $0.calleeSessionLost(session, graceful: graceful, context, into: &outcome)
      }
    }
  }
}
