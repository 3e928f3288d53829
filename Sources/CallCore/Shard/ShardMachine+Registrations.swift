/// Registrations: what the cluster keeps of a device, one key each in the store.
///
/// A registration with push tokens goes a longer way (`ShardMachine+Tokens`): each of them has one
/// owner in the whole cluster.
extension ShardMachine {
  mutating func register(_ command: Command, _ request: RegistrationRequest, _ turn: inout Turn) {
    var registration = Registration(
      user: command.user, device: command.device, request: request, registeredAt: turn.now,
      seenAt: turn.now)
    registration.hasWebhooks = command.hasWebhooks
    if let former = users[command.user]?.device(command.device)?.registration {
      registration.keepFindings(of: former)
    }
    let reply = PendingReply(command)
    let fingerprints = mayPush ? registration.fingerprints : []
    // Retransmitted while the first is on its way: one reply follows.
    if let reply, isPending(reply) { return }
    let waiting = pendingClaims.count + pendingStores.count + pendingGone.count
    if waiting >= limits.registrationsWaiting {
      let error = CallError(.tryAgain, retryAfterMilliseconds: 1000)
      return turn.reply(command, .error(error))
    }
    let limits = limits.with(devicesPerUser: command.devicesPerUser)
    let leaving = surplus(with: registration, limits)
    guard registration.ringToken != nil || !leaving.contains(where: \.wakes) else {
      return turn.reply(command, .error(limits.tooManyWakeableDevices))
    }
    guard
      hasRoom(
        for: command.device, of: command.user, leaving: leaving.map(\.id),
        countMax: limits.legsPerCall)
    else {
      return turn.reply(command, .error(limits.tooManyDevices))
    }
    dropClaims(of: command.user, command.device, &turn)
    if fingerprints.isEmpty { return store(registration, reply, limits, &turn) }
    claim(fingerprints, for: registration, reply, limits, &turn)
  }

  func isPending(_ reply: PendingReply) -> Bool {
    pendingClaims.values.contains { $0.reply == reply }
      || pendingStores.values.contains { $0.reply == reply }
  }

  /// Stores a registration that owns its tokens.
  mutating func store(
    _ registration: Registration, _ reply: PendingReply?, _ limits: CallLimits, _ turn: inout Turn
  ) {
    let removed = makeRoom(for: registration, limits, &turn)
    store(registration, .register(registration, removed: removed), reply, &turn)
  }

  mutating func store(
    _ registration: Registration, _ what: PendingStore.What, _ reply: PendingReply?,
    _ turn: inout Turn
  ) {
    let token = nextToken()
    pendingStores[token] = PendingStore(what: what, reply: reply)
    turn.perform(.store(registration, token: token))
  }

  /// Removes the devices above `devicesPerUser` that were unseen for longest, and notifies them.
  private mutating func makeRoom(
    for registration: Registration, _ limits: CallLimits, _ turn: inout Turn
  ) -> [DeviceID] {
    let oldest = surplus(with: registration, limits)
    for device in oldest {
      remove(registration.user, device.id, .displaced, reply: nil, &turn)
      if let session = device.session {
        let notice = Notice(
          kind: .deviceRemoved,
          message: "The user has more than \(limits.devicesPerUser) devices; this one gave way.")
        turn.outcome.effects.append(.notice(session, notice))
      }
    }
    return oldest.map(\.id)
  }

  /// The devices that give way to a registration: first those that are away and cannot be woken, then those that are
  /// attached and cannot be woken, which ring by their sockets all the same. So ten tabs never cost a sleeping phone its
  /// token, be they open or closed: of one subscription that all of them register, the newest alone has it. A device
  /// that cannot be woken is refused where one that can would give way to it.
  private func surplus(with registration: Registration, _ limits: CallLimits) -> [User.Device] {
    let registered = (users[registration.user]?.devices ?? []).filter { $0.registration != nil }
    guard !registered.contains(where: { $0.id == registration.device }) else { return [] }
    let surplus = max(0, registered.count + 1 - limits.devicesPerUser)
    // All that are attached are seen now: of these the one that attached first is the oldest.
    let order = registered.sorted {
      ($0.needOfRegistration, Self.seen($0), $0.attachedAt)
        < ($1.needOfRegistration, Self.seen($1), $1.attachedAt)
    }
    return Array(order.prefix(surplus))
  }

  /// When a device was seen last; one that is attached is seen now.
  private static func seen(_ device: User.Device) -> Timestamp {
    guard device.session == nil else { return .distantFuture }
    return max(device.registration?.seenAt ?? device.attachedAt, device.attachedAt, device.leftAt)
  }

  mutating func unregister(_ command: Command, _ device: DeviceID, _ turn: inout Turn) {
    dropClaims(of: command.user, device, &turn)
    let isKnown =
      users[command.user]?.device(device)?.registration != nil
      || isStoring(command.user, device)
    guard isKnown else { return turn.reply(command, .done) }
    remove(command.user, device, .unregistered, reply: PendingReply(command), &turn)
  }

  /// Removes a registration. If the app has webhooks, it learns of that first.
  mutating func remove(
    _ user: UserKey, _ device: DeviceID, _ cause: GoneCause, reply: PendingReply?,
    _ turn: inout Turn
  ) {
    if storeEventFirst(ofEnd: cause, user, device, reply: reply, &turn) { return }
    removeFromStore(user, device, endsSession: cause == .removed, reply: reply, &turn)
  }

  mutating func removeFromStore(
    _ user: UserKey, _ device: DeviceID, endsSession: Bool, reply: PendingReply?,
    _ turn: inout Turn
  ) {
    let token = nextToken()
    pendingStores[token] = PendingStore(
      what: .remove(user, device, endsSession: endsSession), reply: reply)
    turn.perform(.remove(user, device, token: token))
  }

  mutating func nextToken() -> UInt64 {
    lastEffectToken += 1
    return lastEffectToken
  }

  /// Whether a registration of the device, or its removal, is on its way to the store. A write after a removal
  /// would bring back what is gone; and a repeated report of a token must not be answered before the store has
  /// the change.
  func isStoring(_ user: UserKey, _ device: DeviceID) -> Bool {
    pendingStores.values.contains {
      switch $0.what {
      case .register(let registration, _), .noted(let registration):
        registration.user == user && registration.device == device
      case .remove(let other, let id, _), .tokenRemoved(let other, let id, _, _):
        other == user && id == device
      case .seen, .rules: false
      }
    }
  }

  /// A `store`, `remove` or `storeRules` effect was carried out, or could not be.
  public mutating func registrationStored(
    token: UInt64, ok: Bool, now: Timestamp, into outcome: inout Outcome
  ) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    guard let pending = pendingStores.removeValue(forKey: token) else {
      return turn.outcome.faults.append(MachineFault(.unexpectedStoreResult))
    }
    storeFinished(pending.what, ok: ok, &turn)
    carryOutPushes(&turn)
    if !changedBoards.isEmpty { showOngoing(&turn) }
    guard let reply = pending.reply else { return }
    let answer: Reply =
      switch (ok, pending.what) {
      case (false, _): .error(CallError(.tryAgain, retryAfterMilliseconds: 1000))
      case (true, .register(let registration, let removed)):
        .registered(
          expiresAt: registration.seenAt + limits.registrationLifetime, removed: removed,
          capabilities: registration.capabilities)
      case (true, .remove), (true, .tokenRemoved), (true, .seen), (true, .noted): .done
      case (true, .rules(_, _, let reply)): reply
      }
    reply.send(answer, &turn)
  }

  private mutating func storeFinished(_ what: PendingStore.What, ok: Bool, _ turn: inout Turn) {
    switch what {
    case .register(let registration, _):
      if ok { applyStored(registration, &turn) }
    case .remove(let user, let id, let endsSession):
      guard ok else { return }
      forget(user, id, &turn)
      if endsSession { endSession(of: id, user, &turn) }
    case .tokenRemoved(let user, let id, let claim, let gone):
      if users[user]?.device(id) != nil {
        users[user]?.withDevice(id) { $0.isUnwritten = !ok }
      }
      if ok, let gone { release(gone, user, id, &turn) }
      if let claim {
        tokenStepDone(token: claim, ok ? .notified : .failed, &turn)
      }
    case .rules(let user, let rules, _):
      if ok { applyStored(rules: rules, of: user, &turn) }
    case .noted(let registration):
      // The device may be gone meanwhile.
      guard ok, users[registration.user]?.device(registration.device)?.registration != nil else {
        return
      }
      users[registration.user]?.withDevice(registration.device) {
        $0.registration = registration
      }
    case .seen: break
    }
  }

  private mutating func applyStored(_ registration: Registration, _ turn: inout Turn) {
    let key = registration.user
    let former = users[key]?.device(registration.device)?.registration
    if former == nil { tally.registrations += 1 }
    users[key, default: User()].withDevice(registration.device) { device in
      device.registration = registration
      device.isUnwritten = false
      if !registration.request.deviceName.isEmpty {
        device.name = registration.request.deviceName
      }
    }
    if let former { release(former, except: registration.fingerprints, &turn) }
    guard mayPush, registration.ringToken != nil else { return }
    for id in users[key]?.calls ?? [] {
      mutate(id) { $0.becameWakeable(registration.device, turn) }
    }
  }

  private mutating func forget(_ user: UserKey, _ id: DeviceID, _ turn: inout Turn) {
    guard let registration = users[user]?.device(id)?.registration else { return }
    tally.registrations -= 1
    users[user]?.withDevice(id) {
      $0.registration = nil
      $0.isUnwritten = false
    }
    release(registration, except: [], &turn)
    cannotBeWoken(user, id, &turn)
    tidy(user)
  }

  /// The device attached, or is about to leave. Stores that it was seen, at most once in
  /// `lastSeenWriteInterval`.
  mutating func noteSeen(_ user: UserKey, _ id: DeviceID, _ turn: inout Turn) {
    guard var registration = users[user]?.device(id)?.registration,
      registration.seenAt + limits.lastSeenWriteInterval <= turn.now,
      !isStoring(user, id)
    else { return }
    registration.seenAt = turn.now
    users[user]?.withDevice(id) { $0.registration = registration }
    store(registration, .seen, nil, &turn)
  }

  /// Removes the registrations of devices that were unseen for too long.
  mutating func expireRegistrations(now: Timestamp, _ turn: inout Turn) {
    expirySweepAt = now + limits.expirySweepInterval
    var expired: [(UserKey, DeviceID)] = []
    for (key, user) in users {
      for device in user.devices where isExpired(device, turn) { expired.append((key, device.id)) }
    }
    for (user, device) in expired { remove(user, device, .expired, reply: nil, &turn) }
  }

  func isExpired(_ device: User.Device, _ turn: borrowing Turn) -> Bool {
    device.registration != nil && device.session == nil
      && Self.seen(device) + limits.registrationLifetime < turn.now
  }
}

extension User.Device {
  /// How much is lost with its registration: 0, no call reaches it anyway; 1, it rings by its socket without one; 2, a
  /// push makes it ring.
  fileprivate var needOfRegistration: Int { wakes ? 2 : session == nil ? 0 : 1 }
}
