internal import Synchronization

/// Who says on a node whether a token is good: by the keys in force, which may be replaced while the
/// node runs, and by what was revoked. One object for all of its roles.
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

  /// Grows whenever a token that was good may be good no more: then look at the sessions again, with
  /// `isInForce`.
  public var generation: UInt64 { changes.load(ordering: .acquiring) }

  /// How many users' tokens were revoked.
  public var revocationCount: Int { state.withLock { $0.revocations.count } }

  /// Puts other keys in force, at once.
  public func replace(keys: AppKeys) {
    let verifier = TokenVerifier(keys: keys, maximumAgeSeconds: maximumAgeSeconds)
    let numbers = keys.keyNumbers
    state.withLock {
      $0.verifier = verifier
      $0.keyNumbers = numbers
    }
    changes.add(1, ordering: .releasing)
  }

  /// From now on no token of the user counts that was issued in this second or before.
  public func revoke(app: String, user: String, atSeconds: Int64, now: Int64) {
    let oldest = now - maximumAgeSeconds - 2 * TokenVerifier.clockLeewaySeconds
    let isNews = state.withLock {
      $0.revocations.add(app: app, user: user, atSeconds, oldest: oldest)
    }
    if isNews { changes.add(1, ordering: .releasing) }
  }

  /// As `TokenVerifier.verify`, by what is in force now.
  /// - Throws: `revoked`, too.
  public func verify(_ token: String, now: Int64) throws(AuthFailure) -> DeviceClaims {
    // Copied out: signatures are checked without the lock.
    let verifier = state.withLock { $0.verifier }
    let claims = try verifier.verify(token, now: now)
    let isRevoked = state.withLock {
      $0.revocations.covers(
        app: claims.app, user: claims.user, issuedAtSeconds: claims.issuedAtSeconds)
    }
    if isRevoked { throw .revoked }
    return claims
  }

  /// Whether a token that was good may still be relied on, until it expires: its key is in force, and it
  /// is not revoked. The arguments are those of its `DeviceClaims`.
  public func isInForce(
    app: String, user: String, issuedAtSeconds: Int64, keyNumber: UInt32
  ) -> Bool {
    state.withLock {
      $0.keyNumbers.contains(keyNumber)
        && !$0.revocations.covers(app: app, user: user, issuedAtSeconds: issuedAtSeconds)
    }
  }
}

/// Until when the tokens of users were revoked. Users are equal when their bytes are.
private struct Revocations {
  private var seconds: [[UInt8]: Int64] = [:]
  /// At how many entries those are looked for that mean nothing any more.
  private var prunedAt = 1024

  var count: Int { seconds.count }

  func covers(app: String, user: String, issuedAtSeconds: Int64) -> Bool {
    guard !seconds.isEmpty, let at = seconds[Self.key(app, user)] else { return false }
    return issuedAtSeconds <= at
  }

  /// - Parameter oldest: of tokens that were issued before then none is good any more.
  /// - Returns: false where as much was revoked before.
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

  /// No app's name holds a zero byte.
  private static func key(_ app: String, _ user: String) -> [UInt8] {
    Array(app.utf8) + [0] + Array(user.utf8)
  }
}
