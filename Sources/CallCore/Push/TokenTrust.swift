/// How far a token is trusted. It decides what the answer "I do not know this token" means: of a
/// token that was never accepted, that it is wrong; of one that was, perhaps that the provider or our configuration is.
///
/// Raw values are those of push jobs and reports.
public enum TokenTrust: UInt8, Sendable, CaseIterable {
  /// Its provider has not accepted a push for it yet, as far as the registration says.
  case unproven = 0
  case proven = 1
  /// Proven, and its provider did not know it since.
  case doubted = 2
}

/// The findings of providers' answers about a token of a registration. A doubted token goes after `refusalsMax` refusals that
/// each come at least `refusalInterval` after the one before, with no accepted push in between: a provider's trouble, or
/// a mistake of the configuration, is over by then, or was noticed.
public struct TokenStanding: Sendable, Hashable {
  public var fingerprint: String
  /// Its provider has accepted a push for it.
  public var isProven: Bool
  /// How often its provider refused it since. Refusals within `refusalInterval` count once.
  public var refusals: UInt32
  /// The time of the last one that counts.
  public var refusedAt: Timestamp

  public static let refusalsMax: UInt32 = 3
  public static let refusalInterval = Span.seconds(12 * 3600)

  public init(
    fingerprint: String, isProven: Bool = false, refusals: UInt32 = 0,
    refusedAt: Timestamp = Timestamp(microseconds: 0)
  ) {
    self.fingerprint = fingerprint
    self.isProven = isProven
    self.refusals = refusals
    self.refusedAt = refusedAt
  }

  var trust: TokenTrust {
    switch (isProven, refusals) {
    case (false, _): .unproven
    case (true, 0): .proven
    case (true, _): .doubted
    }
  }

  var isGivenUp: Bool { refusals >= Self.refusalsMax }

  var givenUp: TokenStanding {
    TokenStanding(fingerprint: fingerprint, refusals: Self.refusalsMax)
  }

  /// A refusal that counts once more; nil: it came too soon after the last one.
  func refused(at now: Timestamp) -> TokenStanding? {
    guard refusals == 0 || refusedAt + Self.refusalInterval <= now else { return nil }
    return TokenStanding(
      fingerprint: fingerprint, isProven: isProven, refusals: refusals + 1, refusedAt: now)
  }
}

extension Registration {
  public func trust(in token: PushToken) -> TokenTrust {
    standings.first { $0.fingerprint == token.fingerprint }?.trust ?? .unproven
  }

  /// With what a report shows of one of its tokens; nil: nothing new. A refusal that is older than the registration does
  /// not count (R12).
  func noting(_ report: PushReport) -> Registration? {
    let fingerprint = report.fingerprint
    guard token(of: fingerprint) != nil else { return nil }
    let standing = standings.first { $0.fingerprint == fingerprint }
    let proven = TokenStanding(fingerprint: fingerprint, isProven: true)
    var noted = self
    switch report.outcome {
    case .accepted: noted.put(proven)
    case .acceptedIn(let environment):
      noted.setEnvironment(environment, of: fingerprint)
      noted.put(proven)
    case .tokenRefused(_, let isSure):
      let former = standing ?? TokenStanding(fingerprint: fingerprint)
      guard registeredAt < report.at else { return nil }
      // A token that was never accepted goes at once. It may have been accepted since the push was decided.
      let goes = isSure && !former.isProven
      guard let refused = goes ? former.givenUp : former.refused(at: report.at) else { return nil }
      noted.put(refused)
    case .tokenGone, .rejected, .expired, .failed: return nil
    }
    return noted == self ? nil : noted
  }

  /// The device registers anew. A token that it still has stays proven, but its refusals no longer count.
  mutating func keepFindings(of former: Registration) {
    for known in former.standings where known.isProven && fingerprints.contains(known.fingerprint) {
      put(TokenStanding(fingerprint: known.fingerprint, isProven: true))
      // A token belongs to one environment, and its provider has said which.
      if let environment = former.token(of: known.fingerprint)?.environment {
        setEnvironment(environment, of: known.fingerprint)
      }
    }
  }

  /// Whether its provider has refused a token for so long that it is given up.
  func isGivenUp(_ fingerprint: String) -> Bool {
    standings.contains { $0.fingerprint == fingerprint && $0.isGivenUp }
  }

  private func token(of fingerprint: String) -> PushToken? {
    guard !fingerprint.isEmpty else { return nil }
    return [request.voipToken, request.alertToken].compactMap(\.self)
      .first { $0.fingerprint == fingerprint }
  }

  private mutating func put(_ standing: TokenStanding) {
    guard let index = standings.firstIndex(where: { $0.fingerprint == standing.fingerprint }) else {
      return standings.append(standing)
    }
    standings[index] = standing
  }

  private mutating func setEnvironment(_ environment: String, of fingerprint: String) {
    if request.voipToken?.fingerprint == fingerprint {
      request.voipToken?.environment = environment
    }
    if request.alertToken?.fingerprint == fingerprint {
      request.alertToken?.environment = environment
    }
  }
}

extension PushReport {
  /// Whether the device's registration is to note it.
  var concernsRegistration: Bool {
    switch outcome {
    case .tokenGone, .tokenRefused, .acceptedIn: true
    case .accepted: trust != .proven
    case .rejected, .expired, .failed: false
    }
  }
}
