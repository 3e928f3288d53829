package import CallCore

/// Selects the provider token of a connection.
///
/// Each connection has tokens of its own. With a shared token, a connection that opens shortly before a rotation uses
/// two tokens within 20 minutes, and APNs answers 429 TooManyProviderTokenUpdates (pushy #811, #850, #931, #946).
package struct APNsTokenMachine: Sendable {
  /// The number and times of a token. The owner of the key signs it once per number.
  package struct Token: Sendable, Equatable {
    package let serial: UInt32
    package let mintedAt: Timestamp
    let rotateAt: Timestamp
    /// The claim `iat`.
    package var issuedAtSeconds: Int64 { mintedAt.microseconds / 1_000_000 }
  }

  package enum Refusal: Sendable, Equatable {
    /// It concerns a token that is no longer in use.
    case ignore
    /// The connection uses its former token again.
    case wentBack
    /// There is no former token, so a new connection is needed.
    case replaceConnection
  }

  /// The age of rotation, which is random so that connections do not sign all at once. Apple allows 20 to 60 minutes.
  static let rotateAfter = (least: Span.seconds(40 * 60), most: Span.seconds(50 * 60))
  /// A pinned token is not used beyond this age.
  static let ageMax = Span.seconds(55 * 60)

  package private(set) var current: Token?
  private var former: Token?
  /// The connection went back to its former token. It gets no next token.
  private var isPinned = false

  package init() {}

  /// The token for a push that is sent now. Returns nil if the connection has none and gets none.
  package mutating func token(now: Timestamp, random: inout some RandomNumberGenerator) -> Token? {
    if let current {
      if isPinned { return now - current.mintedAt < Self.ageMax ? current : nil }
      if now < current.rotateAt { return current }
    }
    let span = Int64.random(
      in: Self.rotateAfter.least.microseconds...Self.rotateAfter.most.microseconds, using: &random)
    let next = Token(
      serial: (current?.serial ?? 0) + 1, mintedAt: now,
      rotateAt: now + Span(microseconds: span))
    former = current
    current = next
    return next
  }

  /// APNs answered that the token followed too soon after the one before it.
  package mutating func refusedAsTooSoon(serial: UInt32, now: Timestamp) -> Refusal {
    guard let current, current.serial == serial else { return .ignore }
    guard !isPinned, let former, now - former.mintedAt < Self.ageMax else {
      return .replaceConnection
    }
    self.current = former
    self.former = nil
    isPinned = true
    return .wentBack
  }
}
