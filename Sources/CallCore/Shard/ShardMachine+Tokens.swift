/// A token has one owner in the whole cluster among the devices of an app (R13): a device that registers it takes it
/// from the former owner, whose shard confirms first. No app takes a token from another app.
///
/// For each token of a registration the shard reads the claim, notifies the former owner if that is another
/// device, and writes the claim over the revision that was read (`PendingClaim`). Then it stores the
/// registration. If two devices race, one finds its revision changed and begins anew, with the other as the former
/// owner. A device also claims a token that is its own already: that makes the other's revision old.
///
/// A failure on the way is answered with `tryAgain`. The next attempt, by any device, puts right what it left: a claim
/// without a registration costs the next claimant one question.
extension ShardMachine {
  mutating func claim(
    _ fingerprints: [String], for registration: Registration, _ reply: PendingReply?,
    _ limits: CallLimits, _ turn: inout Turn
  ) {
    let token = nextToken()
    let claim = PendingClaim(registration, fingerprints, reply, limits)
    pendingClaims[token] = claim
    read(claim, token, &turn)
  }

  private func start(_ step: TokenStep, _ token: UInt64, _ turn: inout Turn) {
    turn.perform(.token(step, token: token))
  }

  private func read(_ claim: PendingClaim, _ token: UInt64, _ turn: inout Turn) {
    start(.read(fingerprint: claim.fingerprint, app: claim.registration.user.app), token, &turn)
  }

  /// A `token` effect was carried out, or could not be.
  public mutating func tokenStepDone(
    token: UInt64, _ result: TokenStepResult, now: Timestamp, into outcome: inout Outcome
  ) {
    var turn = turn(at: now, taking: &outcome)
    defer { swap(&turn.outcome, &outcome) }
    tokenStepDone(token: token, result, &turn)
    carryOutPushes(&turn)
  }

  mutating func tokenStepDone(token: UInt64, _ result: TokenStepResult, _ turn: inout Turn) {
    // The claim may have been given up meanwhile.
    guard let next = pendingClaims[token]?.stepDone(result), let claim = pendingClaims[token] else {
      return
    }
    switch next {
    case .read: read(claim, token, &turn)
    case .notify(let owner): notify(owner, claim, token, &turn)
    case .claim(let revision):
      let owner = owner(claim.registration, turn)
      start(.claim(fingerprint: claim.fingerprint, owner, expecting: revision), token, &turn)
    case .store:
      pendingClaims[token] = nil
      store(claim.registration, claim.reply, claim.limits, &turn)
    case .giveUp: fail(token, &turn)
    case .unexpected: turn.outcome.faults.append(MachineFault(.unexpectedTokenResult))
    }
  }

  private func owner(_ registration: Registration, _ turn: borrowing Turn) -> TokenOwner {
    TokenOwner(user: registration.user, device: registration.device, claimedAt: turn.now)
  }

  private mutating func notify(
    _ former: TokenOwner, _ claim: PendingClaim, _ token: UInt64, _ turn: inout Turn
  ) {
    let (registration, fingerprint) = (claim.registration, claim.fingerprint)
    let isHere =
      former.user == registration.user || users[former.user]?.device(former.device) != nil
    guard isHere else {
      let taken = TokenTaken(
        fingerprint: fingerprint, byUser: registration.user.user, byDevice: registration.device,
        at: turn.now)
      return start(.notify(former: former, taken), token, &turn)
    }
    // Its own shard: no message is needed.
    if isStoring(former.user, former.device) { return fail(token, &turn) }
    dropClaims(of: former.user, former.device, holding: fingerprint, &turn)
    notifyTokenTaken(former.user, former.device, fingerprint, &turn)
    let isWaiting = removeTakenToken(
      fingerprint, former.user, former.device, reply: nil, claim: token, &turn)
    if !isWaiting { tokenStepDone(token: token, .notified, &turn) }
  }

  private mutating func fail(_ token: UInt64, _ turn: inout Turn) {
    let claim = pendingClaims.removeValue(forKey: token)
    claim?.reply?.send(.error(CallError(.tryAgain, retryAfterMilliseconds: 1000)), &turn)
  }

  /// Gives up a device's pending claims: it registers anew, is removed, or another device takes the token.
  mutating func dropClaims(
    of user: UserKey, _ device: DeviceID, holding fingerprint: String? = nil, _ turn: inout Turn
  ) {
    let dropped = pendingClaims.filter { _, claim in
      claim.registration.user == user && claim.registration.device == device
        && (fingerprint.map(claim.registration.fingerprints.contains) ?? true)
    }
    for token in dropped.keys.sorted() { fail(token, &turn) }
  }

  // MARK: Removing a token

  /// Another shard's device registers a token of a device of this one.
  mutating func tokenTaken(_ command: Command, _ taken: TokenTaken, _ turn: inout Turn) {
    // The registration on its way to the store may hold the token. It must not arrive after this.
    if isStoring(command.user, command.device) {
      return turn.reply(command, .error(CallError(.tryAgain, retryAfterMilliseconds: 200)))
    }
    dropClaims(of: command.user, command.device, holding: taken.fingerprint, &turn)
    notifyTokenTaken(command.user, command.device, taken.fingerprint, &turn)
    let isWaiting = removeTakenToken(
      taken.fingerprint, command.user, command.device, reply: PendingReply(command), claim: nil,
      &turn)
    if !isWaiting { turn.reply(command, .done) }
  }

  private func notifyTokenTaken(
    _ user: UserKey, _ device: DeviceID, _ fingerprint: String, _ turn: inout Turn
  ) {
    guard let device = users[user]?.device(device), let session = device.session,
      device.registration?.without(fingerprint) != nil
    else { return }
    let notice = Notice(
      kind: .tokenTaken, message: "Another device has registered the push token of this one.")
    turn.outcome.effects.append(.notice(session, notice))
  }

  /// Another device registers a token of this one. If the app has webhooks, it learns of that first.
  /// - Returns: as of `removeToken`.
  private mutating func removeTakenToken(
    _ fingerprint: String, _ user: UserKey, _ device: DeviceID, reply: PendingReply?,
    claim: UInt64?, _ turn: inout Turn
  ) -> Bool {
    storeEventFirst(ofTaken: fingerprint, user, device, reply: reply, claim: claim, &turn)
      || removeToken(fingerprint, user, device, reply: reply, claim: claim, &turn)
  }

  /// Takes a token from a device, at once. From then on it does not wake the device's leg of a ringing call either.
  /// - Parameters:
  ///   - reply: goes out once the store has the change.
  ///   - claim: the token of a claim in this shard that goes on once the store has the change.
  ///   - isGone: its provider no longer accepts the token; the token's claim is released once the store has the change.
  /// - Returns: whether something is to be stored. If not, neither `reply` nor `claim` is used.
  mutating func removeToken(
    _ fingerprint: String, _ user: UserKey, _ id: DeviceID, reply: PendingReply?, claim: UInt64?,
    isGone: Bool = false, _ turn: inout Turn
  ) -> Bool {
    let gone = isGone ? GoneToken(fingerprint: fingerprint, at: turn.now) : nil
    guard let device = users[user]?.device(id), let former = device.registration else {
      return false
    }
    guard let reduced = former.without(fingerprint) else {
      // An earlier attempt may have failed at the store.
      guard device.isUnwritten else { return false }
      store(former, .tokenRemoved(user, id, claim: claim, gone: gone), reply, &turn)
      return true
    }
    users[user]?.withDevice(id) { $0.registration = reduced }
    store(reduced, .tokenRemoved(user, id, claim: claim, gone: gone), reply, &turn)
    if former.ringToken?.fingerprint == fingerprint {
      cannotBeWoken(user, id, &turn)
    }
    return true
  }

  mutating func cannotBeWoken(_ user: UserKey, _ device: DeviceID, _ turn: inout Turn) {
    for id in users[user]?.calls ?? [] {
      mutate(id) { $0.cannotBeWoken(device, &turn) }
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
  mutating func release(_ gone: GoneToken, _ user: UserKey, _ device: DeviceID, _ turn: inout Turn)
  {
    let fingerprint = gone.fingerprint
    let has = users[user]?.device(device)?.registration?.fingerprints.contains(fingerprint) ?? false
    guard !fingerprint.isEmpty, !has, !claims(fingerprint, user, device) else { return }
    turn.perform(
      .releaseToken(
        fingerprint: fingerprint, TokenOwner(user: user, device: device, claimedAt: gone.at)),
      .relaxed)
  }

  /// Releases the claims of a registration that is gone, or that has other tokens now.
  func release(_ registration: Registration, except kept: [String], _ turn: inout Turn) {
    for fingerprint in registration.fingerprints
    where !kept.contains(fingerprint)
      && !claims(fingerprint, registration.user, registration.device)
    {
      turn.perform(.releaseToken(fingerprint: fingerprint, owner(registration, turn)), .relaxed)
    }
  }
}
