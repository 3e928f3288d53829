/// One token has one owner in the whole cluster among the devices of an app: whoever registers it takes it
/// from the former one, whose shard confirms first. Apps never meet: none takes a token from another.
///
/// For each token of a registration: read the claim; tell the former owner, if it is another device;
/// write the claim over the revision that was read. Then the registration is stored. So of two that
/// race, one finds its revision changed and begins anew, with the other as the former owner. A device
/// claims anew what is its own already: that is what makes the other's revision old.
///
/// What fails on the way is answered with `tryAgain`, and leaves nothing that the next attempt, of
/// whomever, would not put right: a claim without a registration costs the next claimant one question.
extension ShardMachine {
  /// A registration that waits for its tokens.
  struct PendingClaim: Sendable {
    var registration: Registration
    var reply: PendingReply?
    /// Of the tokens that are still to be claimed; the first is on its way.
    var fingerprints: [String]
    /// What the claim that was read must still have.
    var revision: UInt64 = 0
    var attempts = 1
    /// With what the app allows.
    var limits: CallLimits
  }

  mutating func claim(
    _ fingerprints: [String], for registration: Registration, _ reply: PendingReply?,
    _ limits: CallLimits, into outcome: inout Outcome
  ) {
    let token = nextToken()
    pendingClaims[token] = PendingClaim(
      registration: registration, reply: reply, fingerprints: fingerprints, limits: limits)
    ask(.read(fingerprint: fingerprints[0], app: registration.user.app), token, into: &outcome)
  }

  private func ask(_ step: TokenStep, _ token: UInt64, into outcome: inout Outcome) {
    outcome.effects.append(.token(step, token: token))
    outcome.raise(to: .urgent)
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
    guard let claim = pendingClaims[token], let fingerprint = claim.fingerprints.first else {
      return
    }
    switch result {
    case .read(let owner, let revision):
      pendingClaims[token]!.revision = revision
      let mine = self.owner(claim.registration, context)
      if let owner, !owner.isSame(as: mine) {
        return tell(owner, fingerprint, of: token, claim.registration, context, into: &outcome)
      }
      write(token, context, into: &outcome)
    case .notified: write(token, context, into: &outcome)
    case .claimed:
      pendingClaims[token]!.fingerprints.removeFirst()
      if let next = pendingClaims[token]!.fingerprints.first {
        return ask(
          .read(fingerprint: next, app: claim.registration.user.app), token, into: &outcome)
      }
      pendingClaims[token] = nil
      store(claim.registration, claim.reply, claim.limits, into: &outcome)
    case .changed:
      guard claim.attempts < limits.tokenClaimAttempts else { return fail(token, into: &outcome) }
      pendingClaims[token]!.attempts += 1
      ask(.read(fingerprint: fingerprint, app: claim.registration.user.app), token, into: &outcome)
    case .failed: fail(token, into: &outcome)
    }
  }

  private func owner(_ registration: Registration, _ context: CallContext) -> TokenOwner {
    TokenOwner(user: registration.user, device: registration.device, claimedAt: context.now)
  }

  private mutating func write(
    _ token: UInt64, _ context: CallContext, into outcome: inout Outcome
  ) {
    guard let claim = pendingClaims[token], let fingerprint = claim.fingerprints.first else {
      return
    }
    let owner = owner(claim.registration, context)
    ask(
      .claim(fingerprint: fingerprint, owner, expecting: claim.revision), token, into: &outcome)
  }

  private mutating func tell(
    _ former: TokenOwner, _ fingerprint: String, of token: UInt64, _ registration: Registration,
    _ context: CallContext, into outcome: inout Outcome
  ) {
    let isHere =
      former.user == registration.user || users[former.user]?.device(former.device) != nil
    guard isHere else {
      let taken = TokenTaken(
        fingerprint: fingerprint, byUser: registration.user.user, byDevice: registration.device,
        at: context.now)
      return ask(.notify(former: former, taken), token, into: &outcome)
    }
    // Its own shard: no message is needed.
    if isStoring(former.user, former.device) { return fail(token, into: &outcome) }
    dropClaims(of: former.user, former.device, fingerprint, into: &outcome)
    tellTaken(former.user, former.device, fingerprint, into: &outcome)
    let isWaiting = lose(
      fingerprint, former.user, former.device, reply: nil, claim: token, context, into: &outcome)
    if !isWaiting { write(token, context, into: &outcome) }
  }

  private mutating func fail(_ token: UInt64, into outcome: inout Outcome) {
    let claim = pendingClaims.removeValue(forKey: token)
    claim?.reply?.give(
      .error(CallError(.tryAgain, retryAfterMilliseconds: 1000)), into: &outcome)
  }

  /// What a device wanted before counts no more: it registers anew, or goes, or another one takes the
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

  // MARK: Losing a token

  /// Another shard's device registers a token of a device of this one.
  mutating func tokenTaken(
    _ command: Command, _ taken: TokenTaken, _ context: CallContext, into outcome: inout Outcome
  ) {
    // Its registration may hold the token, and is not to be overtaken.
    if isStoring(command.user, command.device) {
      return Self.reply(
        command, .error(CallError(.tryAgain, retryAfterMilliseconds: 200)), .urgent, into: &outcome)
    }
    dropClaims(of: command.user, command.device, taken.fingerprint, into: &outcome)
    tellTaken(command.user, command.device, taken.fingerprint, into: &outcome)
    let isWaiting = lose(
      taken.fingerprint, command.user, command.device, reply: PendingReply(command), claim: nil,
      context, into: &outcome)
    if !isWaiting { Self.reply(command, .done, .urgent, into: &outcome) }
  }

  private func tellTaken(
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

  /// Takes a token from a device, at once: also its leg of a call that rings is woken by it no more.
  /// - Parameter isGone: the token is nobody's any more; its claim goes once the store has it.
  /// - Returns: whether the store has to be told; `reply` or `claim` go on after that.
  mutating func lose(
    _ fingerprint: String, _ user: UserKey, _ id: DeviceID, reply: PendingReply?, claim: UInt64?,
    isGone: Bool = false, _ context: CallContext, into outcome: inout Outcome
  ) -> Bool {
    let gone = isGone ? GoneToken(fingerprint: fingerprint, at: context.now) : nil
    guard let device = users[user]?.device(id), let former = device.registration else {
      return false
    }
    guard let less = former.without(fingerprint) else {
      // An earlier attempt may have failed at the store.
      guard device.isUnwritten else { return false }
      store(former, .less(user, id, claim: claim, gone: gone), reply, into: &outcome)
      return true
    }
    users[user]?.withDevice(id) { $0.registration = less }
    store(less, .less(user, id, claim: claim, gone: gone), reply, into: &outcome)
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

  /// Whether the device is about to have the token again: its new claim is not to be given up.
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

  /// Gives the claim of a token up, unless the device has it again.
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

  /// Gives the claims of a registration up that is gone, or that has other tokens now.
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
