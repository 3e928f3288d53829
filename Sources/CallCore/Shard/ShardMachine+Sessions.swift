/// Sessions: on which edge a device is. Soft state, announced anew to a shard's new owner.
extension ShardMachine {
  mutating func attach(_ command: Command, _ attach: Attach, _ turn: inout Turn) {
    if !attach.announce {
      let limits = limits.with(devicesPerUser: command.devicesPerUser)
      guard hasRoom(for: command.device, of: command.user, countMax: limits.legsPerCall) else {
        return turn.reply(command, .error(limits.tooManyDevices))
      }
    }
    if attach.announce,
      !hasRoom(for: command.device, of: command.user, countMax: limits.announcedDevicesPerUser)
    {
      let notice = Notice(kind: .deviceRemoved, message: limits.tooManyDevices.message)
      return turn.perform(.close(command.session, notice))
    }
    var replaced: SessionRef?
    var ignored = false
    users[command.user, default: User()].withDevice(command.device) { device in
      if attach.announce, let present = device.session, present != command.session,
        device.attachedAt > attach.attachedAt
      {
        // The device has attached elsewhere since. It uses this session until it learns that.
        device.replacedAt = turn.now
        ignored = true
        return
      }
      if device.session == nil { tally.sessions += 1 }
      if device.session != command.session {
        replaced = device.session
        device.replacedAt = replaced == nil ? nil : turn.now
        device.sessionEnded(graceful: false, at: turn.now)
      }
      device.session = command.session
      device.brokeAt = nil
      device.attachedAt = attach.attachedAt
      device.client = attach.client
      device.onlyPlaces = attach.onlyPlaces
      if let talking = attach.talking { device.replaceTalking(with: talking) }
      if !attach.deviceName.isEmpty { device.name = attach.deviceName }
    }
    if ignored {
      guard command.request != 0 else { return }
      turn.reply(command, .error(Self.replacedSession))
      return Self.closeReplaced(command.session, &turn)
    }
    brokenSessions.forget(command.user)
    let ongoing = attach.ongoing.flatMap {
      watchOngoing(command, shown: $0, isInReply: !attach.announce, &turn)
    }
    if attach.ongoing == nil, !boards.isEmpty { noteOngoing(of: command.user) }
    if let replaced { Self.closeReplaced(replaced, &turn) }
    if command.request != 0 {
      let state = attach.forCall.map {
        visitState(of: $0, for: command.user, turn)
          ?? self.state(of: $0, seenBy: command, attaching: true)
      }
      turn.reply(command, .attached(forCall: state, ticket: command.ticket, ongoing: ongoing))
    }
    correctName(attach.userName, command, &turn)
    if let mark = attach.history { watchHistory(command, mark, &turn) }
    if isServing {
      ringAttached(command, &turn)
      if !attach.announce { noteSeen(command.user, command.device, &turn) }
    }
  }

  private static let replacedSession = CallError(
    .notAttached, "This device has attached with another session.")

  private static func closeReplaced(_ session: SessionRef, _ turn: inout Turn) {
    let notice = Notice(kind: .sessionReplaced, message: replacedSession.message)
    turn.perform(.close(session, notice))
  }

  /// Whether a device may attach or register. Each that does is rung, so the limit is here and not at the call.
  /// Devices that an edge announces were let in before, so there is more room for them.
  /// - Parameters:
  ///   - leaving: registered devices that give way, unless they have a session.
  ///   - countMax: how many devices of the user there may be.
  func hasRoom(for device: DeviceID, of key: UserKey, leaving: [DeviceID] = [], countMax: Int)
    -> Bool
  {
    guard let user = users[key] else { return true }
    let others = user.devices.filter { other in
      other.session != nil || (other.registration != nil && !leaving.contains(other.id))
    }
    return others.count < countMax || others.contains { $0.id == device }
  }

  /// The device gets the present state of its user's calls.
  private mutating func ringAttached(_ command: Command, _ turn: inout Turn) {
    guard let user = users[command.user], !user.calls.isEmpty else { return }
    let device = user.device(command.device)
    let party = Party(
      user: command.user.user, device: command.device, deviceName: device?.name ?? "")
    let joins = device?.onlyPlaces != true
    let before = turn.outcome.effects.count
    for id in user.calls {
      mutate(id) { $0.attached(party, command.session, joins: joins, &turn) }
    }
    if turn.outcome.effects.count > before { turn.outcome.raise(to: .urgent) }
  }

  mutating func sessionClosed(
    _ key: UserKey, _ session: SessionRef, graceful: Bool, _ turn: inout Turn
  ) {
    let device = users[key]?.device(of: session)
    let dropped =
      users[key]?.dropSessions(at: turn.now, graceful: graceful) { $0 == session } ?? []
    if !dropped.isEmpty {
      tally.sessions -= 1
      if !graceful { noteBroken(device, of: key, turn) }
      // A socket may last longer than a registration does.
      if isServing, let device { noteSeen(key, device.id, &turn) }
      calleeSessionLost(key, session, graceful: graceful, &turn)
    }
    tidy(key)
  }

  mutating func calleeSessionLost(
    _ key: UserKey, _ session: SessionRef, graceful: Bool, _ turn: inout Turn
  ) {
    for id in users[key]?.calls ?? [] {
      mutate(id) {
        $0.calleeSessionLost(session, graceful: graceful, &turn)
      }
    }
  }
}
