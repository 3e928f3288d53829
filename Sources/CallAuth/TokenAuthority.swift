internal import Synchronization

/// Who says on a node whether a token is good: by the keys in force, which may be replaced while the
/// node runs. One object for all of its roles.
public final class TokenAuthority: Sendable {
  private struct State {
    var verifier: TokenVerifier
    var keyNumbers: Set<UInt32>

    init(_ keys: AppKeys) {
      verifier = TokenVerifier(keys: keys)
      keyNumbers = keys.keyNumbers
    }
  }

  private let state: Mutex<State>
  private let changes = Atomic<UInt64>(0)

  public init(keys: AppKeys) { state = Mutex(State(keys)) }

  /// The keys in force.
  public var keys: AppKeys { state.withLock { $0.verifier.keys } }

  /// Grows whenever a token that was good may be good no more: then look at the sessions again.
  public var generation: UInt64 { changes.load(ordering: .acquiring) }

  /// Puts other keys in force, at once.
  public func replace(keys: AppKeys) {
    let new = State(keys)
    state.withLock { $0 = new }
    changes.add(1, ordering: .releasing)
  }

  /// As `TokenVerifier.verify`, by what is in force now.
  public func verify(_ token: String, now: Int64) throws(AuthFailure) -> DeviceClaims {
    // Copied out: signatures are checked without the lock.
    let verifier = state.withLock { $0.verifier }
    return try verifier.verify(token, now: now)
  }

  /// Whether the key is in force that signed a token: `DeviceClaims.keyNumber`.
  public func isInForce(keyNumber: UInt32) -> Bool {
    state.withLock { $0.keyNumbers.contains(keyNumber) }
  }
}
