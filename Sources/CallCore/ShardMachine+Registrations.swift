/// Registrations: what the cluster keeps of a device, one key each in the store.
extension ShardMachine {
  mutating func register(
    _ command: Command, _ request: RegistrationRequest, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let registration = Registration(
      user: command.user, device: command.device, request: request, registeredAt: context.now,
      seenAt: context.now)
    let removed = makeRoom(for: command, into: &outcome)
    let token = nextToken()
    pendingStores[token] = PendingStore(
      what: .register(registration, removed: removed),
      reply: command.request == 0 ? nil : (command.session, command.request))
    outcome.effects.append(.store(registration, token: token))
    outcome.raise(to: .urgent)
  }

  /// At most ten devices a user: the longest unseen go, and are told.
  private mutating func makeRoom(for command: Command, into outcome: inout Outcome) -> [DeviceID] {
    let registered = (users[command.user]?.devices ?? []).filter { $0.registration != nil }
    guard !registered.contains(where: { $0.id == command.device }) else { return [] }
    let surplus = registered.count + 1 - limits.devicesPerUser
    guard surplus > 0 else { return [] }
    let oldest = registered.sorted { Self.seen($0) < Self.seen($1) }.prefix(surplus)
    for device in oldest {
      remove(command.user, device.id, reply: nil, into: &outcome)
      if let session = device.session {
        let notice = Notice(
          kind: .deviceRemoved,
          message: "The user has more than \(limits.devicesPerUser) devices; this one gave way.")
        outcome.effects.append(.notice(session, notice))
      }
    }
    return oldest.map(\.id)
  }

  private static func seen(_ device: User.Device) -> Timestamp {
    max(device.registration?.seenAt ?? device.attachedAt, device.attachedAt)
  }

  mutating func unregister(_ command: Command, _ device: DeviceID, into outcome: inout Outcome) {
    guard users[command.user]?.device(device)?.registration != nil else {
      return Self.reply(command, .done, .urgent, into: &outcome)
    }
    remove(
      command.user, device,
      reply: command.request == 0 ? nil : (command.session, command.request), into: &outcome)
  }

  private mutating func remove(
    _ user: UserKey, _ device: DeviceID, reply: (session: SessionRef, request: UInt64)?,
    into outcome: inout Outcome
  ) {
    let token = nextToken()
    pendingStores[token] = PendingStore(what: .remove(user, device), reply: reply)
    outcome.effects.append(.remove(user, device, token: token))
    outcome.raise(to: .urgent)
  }

  private mutating func nextToken() -> UInt64 {
    lastStoreToken += 1
    return lastStoreToken
  }

  /// A `store` or `remove` effect was carried out, or could not be.
  public mutating func registrationStored(
    token: UInt64, ok: Bool, now: Timestamp, into outcome: inout Outcome
  ) {
    guard let pending = pendingStores.removeValue(forKey: token) else { return }
    if ok { take(pending.what) }
    guard let (session, request) = pending.reply else { return }
    let reply: Reply =
      switch (ok, pending.what) {
      case (false, _): .error(CallError(.tryAgain, retryAfterMilliseconds: 1000))
      case (true, .register(let registration, let removed)):
        .registered(
          expiresAt: registration.seenAt + limits.registrationLifetime, removed: removed)
      case (true, .remove): .done
      }
    outcome.effects.append(.reply(session, request: request, reply))
    outcome.raise(to: .urgent)
  }

  private mutating func take(_ what: PendingStore.What) {
    switch what {
    case .register(let registration, _):
      users[registration.user, default: User()].withDevice(registration.device) { device in
        if device.registration == nil { tally.registrations += 1 }
        device.registration = registration
        if !registration.request.deviceName.isEmpty {
          device.name = registration.request.deviceName
        }
      }
    case .remove(let user, let id):
      guard users[user]?.device(id)?.registration != nil else { return }
      tally.registrations -= 1
      users[user]?.withDevice(id) { $0.registration = nil }
      tidy(user)
    }
  }

  /// Registrations unseen for too long go.
  mutating func expireRegistrations(now: Timestamp, into outcome: inout Outcome) {
    var expired: [(UserKey, DeviceID)] = []
    for (key, user) in users {
      for device in user.devices {
        guard let registration = device.registration, device.session == nil,
          registration.seenAt + limits.registrationLifetime < now
        else { continue }
        expired.append((key, device.id))
      }
    }
    for (user, device) in expired { remove(user, device, reply: nil, into: &outcome) }
  }
}
