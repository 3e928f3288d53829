package import CallCore

/// Which provider token a connection sends with.
///
/// The token belongs to the connection. One shared by all connections breaks: a connection that opens
/// late sends with the old one, the shared one rotates, and the connection has used two within 20
/// minutes, which APNs answers with 429 TooManyProviderTokenUpdates (pushy #811, #850, #931, #946).
package struct APNsTokenMachine: Sendable {
  /// A token by number: who holds the key makes it, once per number.
  package struct Token: Sendable, Equatable {
    package let serial: UInt32
    package let mintedAt: Timestamp
    let rotateAt: Timestamp
    /// The claim `iat`.
    package var issuedAtSeconds: Int64 { mintedAt.microseconds / 1_000_000 }
  }

  package enum Refusal: Sendable, Equatable {
    /// It was about a token that is not used any more.
    case ignore
    /// The connection sends with its former token again.
    case wentBack
    /// There is none to go back to: a new connection is needed.
    case replaceConnection
  }

  /// Apple: no more often than every 20 minutes, no less often than every 60. By chance between these
  /// two, so that the connections of a cluster do not sign all at once.
  static let rotateAfter = (least: Span.seconds(40 * 60), most: Span.seconds(50 * 60))
  /// A token that must be kept beyond its time is not used when older than this.
  static let ageMax = Span.seconds(55 * 60)

  package private(set) var current: Token?
  private var former: Token?
  /// It went back to its former token: the next one is for the next connection.
  private var isPinned = false

  package init() {}

  /// The token for a push that leaves now. Nil: this connection has none and gets none; open another.
  package mutating func token(
    now: Timestamp, random: inout some RandomNumberGenerator
  ) -> Token? {
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

  /// APNs says that the token came too soon after the one before it.
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
