/// One token has one owner in the whole cluster among the devices of an app (R13): whoever registers it takes it
/// from the former owner, whose shard confirms first. Apps never meet: none takes a token from another.
///
/// For each token of a registration the shard reads the claim, notifies the former owner if that is another
/// device, and writes the claim over the revision that was read (`PendingClaim`). Then it stores the
/// registration. Of two devices that race, one finds its revision changed and begins anew, with the other as the
/// former owner. A device also claims what is its own already: that is what makes the other's revision old.
///
/// What fails on the way is answered with `tryAgain`, and leaves nothing that the next attempt, of
/// any device, would not put right: a claim without a registration costs the next claimant one question.
extension ShardMachine {
  mutating func claim(
    _ fingerprints: [String], for registration: Registration, _ reply: PendingReply?,
    _ limits: CallLimits, into outcome: inout Outcome
  ) {
    let token = nextToken()
    let claim = PendingClaim(registration, fingerprints, reply, limits)
    pendingClaims[token] = claim
    read(claim, token, into: &outcome)
  }

  private func start(_ step: TokenStep, _ token: UInt64, into outcome: inout Outcome) {
    outcome.effects.append(.token(step, token: token))
    outcome.raise(to: .urgent)
  }

  private func read(_ claim: PendingClaim, _ token: UInt64, into outcome: inout Outcome) {
    start(
      .read(fingerprint: claim.fingerprint, app: claim.registration.user.app), token,
      into: &outcome)
  }

  /// A `token` effect was carried out, or could not be.
  public mutating func tokenStepDone(
    token: UInt64, _ result: TokenStepResult, now: Timestamp, into outcome: inout Outcome
  ) {
    let context = context(now)
    tokenStepDone(token: token, result, context, into: &outcome)
    carryOutPushes(context, into: &outcome)
  }

  mutating func tokenStepDone(
    token: UInt64, _ result: TokenStepResult, _ context: CallContext, into outcome: inout Outcome
  ) {
    // The claim may have been given up meanwhile.
    guard let next = pendingClaims[token]?.stepDone(result), let claim = pendingClaims[token] else {
      return
    }
    switch next {
    case .read: read(claim, token, into: &outcome)
    case .notify(let owner): notify(owner, claim, token, context, into: &outcome)
    case .claim(let revision):
      let owner = owner(claim.registration, context)
      start(
        .claim(fingerprint: claim.fingerprint, owner, expecting: revision), token, into: &outcome)
    case .store:
      pendingClaims[token] = nil
      store(claim.registration, claim.reply, claim.limits, into: &outcome)
    case .giveUp: fail(token, into: &outcome)
    case .unexpected: outcome.faults.append(MachineFault(.unexpectedTokenResult))
    }
  }

  private func owner(_ registration: Registration, _ context: CallContext) -> TokenOwner {
    TokenOwner(user: registration.user, device: registration.device, claimedAt: context.now)
  }

  private mutating func notify(
    _ former: TokenOwner, _ claim: PendingClaim, _ token: UInt64, _ context: CallContext,
    into outcome: inout Outcome
  ) {
    let (registration, fingerprint) = (claim.registration, claim.fingerprint)
    let isHere =
      former.user == registration.user || users[former.user]?.device(former.device) != nil
    guard isHere else {
      let taken = TokenTaken(
        fingerprint: fingerprint, byUser: registration.user.user, byDevice: registration.device,
        at: context.now)
      return start(.notify(former: former, taken), token, into: &outcome)
    }
    // Its own shard: no message is needed.
    if isStoring(former.user, former.device) { return fail(token, into: &outcome) }
    dropClaims(of: former.user, former.device, fingerprint, into: &outcome)
    notifyTokenTaken(former.user, former.device, fingerprint, into: &outcome)
    let isWaiting = removeToken(
      fingerprint, former.user, former.device, reply: nil, claim: token, context, into: &outcome)
    if !isWaiting { tokenStepDone(token: token, .notified, context, into: &outcome) }
  }

  private mutating func fail(_ token: UInt64, into outcome: inout Outcome) {
    let claim = pendingClaims.removeValue(forKey: token)
    claim?.reply?.send(
      .error(CallError(.tryAgain, retryAfterMilliseconds: 1000)), into: &outcome)
  }

  /// Gives up what a device was about to claim: it registers anew, or goes, or another one takes the
  /// token.
  mutating func dropClaims(
    of user: UserKey, _ device: DeviceID, _ fingerprint: String? = nil,
    into outcome: inout Outcome
  ) {
    let dropped = pendingClaims.filter { _, claim in
      claim.registration.user == user && claim.registration.device == device
        && (fingerprint.map(claim.registration.fingerprints.contains) ?? true)
    }
    for token in dropped.keys.sorted() { fail(token, into: &outcome) }
  }

  // MARK: Removing a token

  /// Another shard's device registers a token of a device of this one.
  mutating func tokenTaken(
    _ command: Command, _ taken: TokenTaken, _ context: CallContext, into outcome: inout Outcome
  ) {
    // The registration on its way to the store may hold the token. It must not arrive after this.
    if isStoring(command.user, command.device) {
      return Self.reply(
        command, .error(CallError(.tryAgain, retryAfterMilliseconds: 200)), .urgent, into: &outcome)
    }
    dropClaims(of: command.user, command.device, taken.fingerprint, into: &outcome)
    notifyTokenTaken(command.user, command.device, taken.fingerprint, into: &outcome)
    let isWaiting = removeToken(
      taken.fingerprint, command.user, command.device, reply: PendingReply(command), claim: nil,
      context, into: &outcome)
    if !isWaiting { Self.reply(command, .done, .urgent, into: &outcome) }
  }

  private func notifyTokenTaken(
    _ user: UserKey, _ device: DeviceID, _ fingerprint: String, into outcome: inout Outcome
  ) {
    guard let device = users[user]?.device(device), let session = device.session,
      device.registration?.without(fingerprint) != nil
    else { return }
    let notice = Notice(
      kind: .tokenTaken,
      message: "Another device has registered the push token of this one.")
    outcome.effects.append(.notice(session, notice))
  }

  /// Takes a token from a device, at once. It also wakes the device's leg of a ringing call no more.
  /// - Parameters:
  ///   - reply: goes out once the store has the change.
  ///   - claim: the token of a claim in this shard that goes on once the store has the change.
  ///   - isGone: the token is nobody's any more; its claim is released once the store has the change.
  /// - Returns: whether something is to be stored. If not, neither `reply` nor `claim` is used.
  mutating func removeToken(
    _ fingerprint: String, _ user: UserKey, _ id: DeviceID, reply: PendingReply?, claim: UInt64?,
    isGone: Bool = false, _ context: CallContext, into outcome: inout Outcome
  ) -> Bool {
    let gone = isGone ? GoneToken(fingerprint: fingerprint, at: context.now) : nil
    guard let device = users[user]?.device(id), let former = device.registration else {
      return false
    }
    guard let reduced = former.without(fingerprint) else {
      // An earlier attempt may have failed at the store.
      guard device.isUnwritten else { return false }
      store(former, .tokenRemoved(user, id, claim: claim, gone: gone), reply, into: &outcome)
      return true
    }
    users[user]?.withDevice(id) { $0.registration = reduced }
    store(reduced, .tokenRemoved(user, id, claim: claim, gone: gone), reply, into: &outcome)
    if former.ringToken?.fingerprint == fingerprint {
      cannotBeWoken(user, id, context, into: &outcome)
    }
    return true
  }

  mutating func cannotBeWoken(
    _ user: UserKey, _ device: DeviceID, _ context: CallContext, into outcome: inout Outcome
  ) {
    for id in users[user]?.calls ?? [] {
      mutate(id) { $0.cannotBeWoken(device, context, into: &outcome) }
    }
  }

  /// Whether the device is about to have the token again: its new claim is not to be released.
  func claims(_ fingerprint: String, _ user: UserKey, _ device: DeviceID) -> Bool {
    func isIt(_ registration: Registration) -> Bool {
      registration.user == user && registration.device == device
        && registration.fingerprints.contains(fingerprint)
    }
    return pendingClaims.values.contains { isIt($0.registration) }
      || pendingStores.values.contains {
        if case .register(let registration, _) = $0.what { isIt(registration) } else { false }
      }
  }

  /// Releases the claim of a token that is gone, unless the device has it again.
  mutating func release(
    _ gone: GoneToken, _ user: UserKey, _ device: DeviceID, into outcome: inout Outcome
  ) {
    let fingerprint = gone.fingerprint
    let has = users[user]?.device(device)?.registration?.fingerprints.contains(fingerprint) ?? false
    guard !fingerprint.isEmpty, !has, !claims(fingerprint, user, device) else { return }
    outcome.effects.append(
      .releaseToken(
        fingerprint: fingerprint, TokenOwner(user: user, device: device, claimedAt: gone.at)))
    outcome.raise(to: .relaxed)
  }

  /// Releases the claims of a registration that is gone, or that has other tokens now.
  func release(
    _ registration: Registration, except kept: [String], _ context: CallContext,
    into outcome: inout Outcome
  ) {
    for fingerprint in registration.fingerprints
    where !kept.contains(fingerprint)
      && !claims(fingerprint, registration.user, registration.device)
    {
      outcome.effects.append(
        .releaseToken(fingerprint: fingerprint, owner(registration, context)))
      outcome.raise(to: .relaxed)
    }
  }
}
