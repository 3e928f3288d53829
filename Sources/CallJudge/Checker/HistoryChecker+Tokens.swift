package import CallCore

/// Rules of tokens: each has one owner, and a registration loses it only with a reason.
extension HistoryChecker {
  /// A registration was stored, or removed.
  mutating func keep(_ who: Who, _ registration: Registration?) throws(HistoryViolation) {
    var all = history.registrations[who] ?? []
    let former = all.last.flatMap { $0.until == nil ? $0.registration : nil }
    // Its writer learns the result, unless `unconfirmed` says otherwise. A later owner that rewrites the same
    // registration, without a token or with a new last-seen time, does not learn who owns its tokens.
    if registration == nil || registration?.registeredAt != former?.registeredAt {
      history.unconfirmed.remove(who)
    }
    if let last = all.indices.last, all[last].until == nil { all[last].until = now }
    // A call that rings may have begun before.
    all.removeAll { $0.until.map { $0 + .seconds(120) < now } ?? false }
    if let registration { all.append(PushHistory.Stored(registration: registration, until: nil)) }
    history.registrations[who] = all
    guard let former, let registration, former.registeredAt == registration.registeredAt else {
      return
    }
    // The same registration with fewer tokens: another device took them, or a provider rejected them.
    let kept = registration.tokens.map(\.fingerprint)
    for token in former.tokens.map(\.fingerprint) where !kept.contains(token) {
      let isGone = history.gone[token]?[who].map { $0 > former.registeredAt } ?? false
      let isTaken = history.wanted[token]?.contains { $0 != who } ?? false
      try require(
        isGone || isTaken, .tokensKept, nil,
        "\(who) lost a token that nobody took, and that was registered since it was gone")
    }
  }

  /// The device's registration was acknowledged, so its shard has it.
  mutating func confirmed(_ who: Who, _ request: RegistrationRequest) {
    guard let stored = storedRegistration(of: who)?.request,
      stored.voipToken?.token == request.voipToken?.token,
      stored.alertToken?.token == request.alertToken?.token
    else { return }
    history.unconfirmed.remove(who)
  }

  /// A shard gets a report of a push: a provider may have reported the token as invalid.
  mutating func reported(_ who: Who, _ report: PushReport) {
    let since: Timestamp?
    switch report.outcome {
    case .tokenGone(let at): since = at
    case .tokenRefused(_, isSure: true): since = nil
    default: return
    }
    // One that its provider has accepted is not lost for a refusal.
    guard history.saidGone.contains(report.fingerprint) || !isProven(report.fingerprint, of: who)
    else { return }
    let said = since ?? report.at
    let before = history.gone[report.fingerprint]?[who] ?? said
    history.gone[report.fingerprint, default: [:]][who] = max(before, said)
  }

  private func isProven(_ fingerprint: String, of who: Who) -> Bool {
    storedRegistration(of: who)?.standings.contains {
      $0.fingerprint == fingerprint && $0.isProven
    } ?? false
  }

  package func storedRegistration(of who: Who) -> Registration? {
    history.registrations[who]?.last.flatMap { $0.until == nil ? $0.registration : nil }
  }

  // MARK: Owners

  /// Another device that had claimed a token before a push to it was decided.
  func otherOwner(of token: PushToken, than who: Who, _ decided: Timestamp) -> Who? {
    guard !history.raced.contains(token.fingerprint),
      let claim = history.claims[token.fingerprint], claim.owner != who,
      claim.at + .milliseconds(1) < decided
    else { return nil }
    return claim.owner
  }

  /// At the end the device of each stored token has its claim: a shard gives a token to another device
  /// only after the store has the registration without it. This holds for registrations that the shard
  /// has.
  func tokensWithoutOwner() -> [HistoryViolation] {
    var found: [HistoryViolation] = []
    for (who, all) in history.registrations.inOrder {
      guard let last = all.last, last.until == nil, !history.unconfirmed.contains(who) else {
        continue
      }
      for token in last.registration.tokens {
        let owner = history.claims[token.fingerprint]?.owner
        guard owner != who, !history.raced.contains(token.fingerprint) else { continue }
        found.append(
          HistoryViolation(
            .tokensHaveOneOwner,
            "\(who) is registered with a token that is \(owner.map { "\($0)'s" } ?? "nobody's")"))
      }
    }
    return found
  }
}

extension Registration {
  package var tokens: [PushToken] {
    [request.voipToken, request.alertToken].compactMap(\.self).filter { !$0.fingerprint.isEmpty }
  }
}
