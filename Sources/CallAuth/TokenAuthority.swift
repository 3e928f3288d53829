internal import Synchronization

/// Verifies tokens with the keys in force, which may be replaced while the node runs, and the revocations. One object
/// serves all roles of a node.
public final class TokenAuthority: Sendable {
  private struct State {
    var verifier: TokenVerifier
    var keyNumbers: Set<UInt32>
    var revocations = Revocations()
  }

  private let state: Mutex<State>
  private let changes = Atomic<UInt64>(0)
  private let maximumAgeSeconds: Int64

  /// - Parameter maximumAgeSeconds: see `TokenVerifier`.
  public init(
    keys: AppKeys, maximumAgeSeconds: Int64 = TokenVerifier.standardMaximumAgeSeconds
  ) {
    self.maximumAgeSeconds = maximumAgeSeconds
    state = Mutex(
      State(
        verifier: TokenVerifier(keys: keys, maximumAgeSeconds: maximumAgeSeconds),
        keyNumbers: keys.keyNumbers))
  }

  /// The keys in force.
  public var keys: AppKeys { state.withLock { $0.verifier.keys } }

  /// Incremented whenever a valid token may have become invalid: sessions must then be checked again with
  /// `isInForce`.
  public var generation: UInt64 { changes.load(ordering: .acquiring) }

  /// The number of users whose tokens are revoked.
  public var revocationCount: Int { state.withLock { $0.revocations.count } }

  /// Replaces the keys, at once.
  public func replace(keys: AppKeys) {
    let verifier = TokenVerifier(keys: keys, maximumAgeSeconds: maximumAgeSeconds)
    let numbers = keys.keyNumbers
    state.withLock {
      $0.verifier = verifier
      $0.keyNumbers = numbers
    }
    changes.add(1, ordering: .releasing)
  }

  /// Revokes the user's tokens that were issued in this second or before.
  public func revoke(app: String, user: String, atSeconds: Int64, now: Int64) {
    let oldest = now - maximumAgeSeconds - 2 * TokenVerifier.clockLeewaySeconds
    let isNews = state.withLock {
      $0.revocations.add(app: app, user: user, atSeconds, oldest: oldest)
    }
    if isNews { changes.add(1, ordering: .releasing) }
  }

  /// Verifies a user's token, as `TokenVerifier.verify`, and that it is not revoked.
  /// - Throws: as `TokenVerifier.verify`, and `revoked`.
  public func verify(_ token: String, now: Int64) throws(AuthFailure) -> DeviceClaims {
    guard case .device(let claims) = try verifyAny(token, now: now) else { throw .servers }
    return claims
  }

  /// Verifies a token of an app's server, as `TokenVerifier.verifyServer`.
  /// - Throws: as that.
  public func verifyServer(_ token: String, now: Int64) throws(AuthFailure) -> ServerClaims {
    // No user's revocation concerns it: only the end of its key does.
    let verifier = state.withLock { $0.verifier }
    return try verifier.verifyServer(token, now: now)
  }

  /// Verifies a token, whosever it is.
  /// - Throws: as `verify`.
  public func verifyAny(_ token: String, now: Int64) throws(AuthFailure) -> TokenClaims {
    // Copied, so that signatures are verified without the lock.
    let verifier = state.withLock { $0.verifier }
    let verified = try verifier.verifyAny(token, now: now)
    guard case .device(let claims) = verified else { return verified }
    let isRevoked = state.withLock {
      $0.revocations.covers(
        app: claims.app, user: claims.user, issuedAtSeconds: claims.issuedAtSeconds)
    }
    if isRevoked { throw .revoked }
    return verified
  }

  /// Finds the fault of a token that `verifyAny` refused; nil: it has none, but may be revoked.
  public func fault(in token: String, now: Int64) -> TokenFault? {
    let verifier = state.withLock { $0.verifier }
    do throws(TokenFault) {
      _ = try verifier.check(token, now: now)
      return nil
    } catch {
      return error
    }
  }

  /// Whether a verified token is still valid until its expiry: its key is in force, and it is not revoked. The
  /// arguments are those of its `DeviceClaims`.
  public func isInForce(
    app: String, user: String, issuedAtSeconds: Int64, keyNumber: UInt32
  ) -> Bool {
    state.withLock {
      $0.keyNumbers.contains(keyNumber)
        && !$0.revocations.covers(app: app, user: user, issuedAtSeconds: issuedAtSeconds)
    }
  }
}

/// The time up to which each user's tokens are revoked. Users are compared by their bytes.
private struct Revocations {
  private var seconds: [[UInt8]: Int64] = [:]
  /// The number of entries at which obsolete ones are removed.
  private var prunedAt = 1024

  var count: Int { seconds.count }

  func covers(app: String, user: String, issuedAtSeconds: Int64) -> Bool {
    guard !seconds.isEmpty, let at = seconds[Self.key(app, user)] else { return false }
    return issuedAtSeconds <= at
  }

  /// - Parameter oldest: tokens issued before this have all expired.
  /// - Returns: false if that was revoked already.
  mutating func add(app: String, user: String, _ at: Int64, oldest: Int64) -> Bool {
    let key = Self.key(app, user)
    if let before = seconds[key], before >= at { return false }
    seconds[key] = at
    if seconds.count >= prunedAt {
      seconds = seconds.filter { $0.value >= oldest }
      prunedAt = max(1024, 2 * seconds.count)
    }
    return true
  }

  /// No app's name contains a zero byte.
  private static func key(_ app: String, _ user: String) -> [UInt8] {
    Array(app.utf8) + [0] + Array(user.utf8)
  }
}
