package import CallCore
internal import Crypto
internal import Synchronization

/// The claims of a verified token.
public struct DeviceClaims: Sendable, Equatable {
  public var app: String
  public var user: String
  /// If set, the token is valid for this device only.
  public var device: String?
  /// The user's display name, as `DisplayName.shown`; empty: none.
  public var name: String
  /// Seconds since 1970.
  public var expiresAtSeconds: Int64
  /// Seconds since 1970; an estimate for a token without `iat`: see `TokenVerifier.verify`.
  public var issuedAtSeconds: Int64
  /// The number of the key that signed it.
  public var keyNumber: UInt32
  public init(
    app: String, user: String, device: String?, name: String = "", expiresAtSeconds: Int64,
    issuedAtSeconds: Int64 = 0, keyNumber: UInt32 = 0
  ) {
    self.app = app
    self.user = user
    self.device = device
    self.name = name
    self.expiresAtSeconds = expiresAtSeconds
    self.issuedAtSeconds = issuedAtSeconds
    self.keyNumber = keyNumber
  }
}

/// The claims of a verified token of an app's server: it may act for every user of its app, and is no device.
public struct ServerClaims: Sendable, Equatable {
  public var app: String
  /// Seconds since 1970.
  public var expiresAtSeconds: Int64
  /// The number of the key that signed it.
  public var keyNumber: UInt32
  public init(app: String, expiresAtSeconds: Int64, keyNumber: UInt32 = 0) {
    self.app = app
    self.expiresAtSeconds = expiresAtSeconds
    self.keyNumber = keyNumber
  }
}

/// The claims of a verified token: a device's, or an app's server's.
public enum TokenClaims: Sendable, Equatable {
  case device(DeviceClaims)
  case server(ServerClaims)
}

/// Why a token is refused. No more detail is given, since it would help to forge tokens.
public enum AuthFailure: Error, Sendable, Equatable {
  /// It was valid before.
  case expired
  /// Its lifetime exceeds the maximum, or it was issued longer ago.
  case tooLong(maximumSeconds: Int64)
  /// Its user's tokens were revoked.
  case revoked
  case notAccepted
  /// It is good, but an app's server's, where a user's is needed.
  case servers
  /// It is good, but a user's, where an app's server's is needed.
  case users
}

extension CallError {
  /// The error that a device receives.
  package init(_ failure: AuthFailure) {
    switch failure {
    case .expired: self.init(Code.expired)
    case .tooLong(let seconds):
      self.init(
        .tokenTooLong,
        "The token is good for more than \(seconds) s from now, or was issued longer ago than that: "
          + "see maxTokenAge.")
    case .revoked: self.init(Code.revoked)
    case .notAccepted: self.init(Code.notAccepted)
    case .servers:
      self.init(.forbidden, "This is a token of an app's server: a device needs one of its user.")
    case .users:
      self.init(
        .forbidden, "This is a user's token: the app's server needs one with the claim server.")
    }
  }
}

/// Keys of the cluster on a node. Empty until the node has read them from the cluster; replaced when they change.
public final class Keyring<Keys: Sendable>: Sendable {
  private let keys: Mutex<Keys?>

  public init(_ keys: Keys? = nil) { self.keys = Mutex(keys) }

  /// nil before the first `replace`: nothing can be signed or verified yet.
  public var current: Keys? { keys.withLock { $0 } }

  public func replace(with keys: Keys?) { self.keys.withLock { $0 = keys } }
}

public typealias PushKeyring = Keyring<PushCapabilityKeys>
public typealias TicketKeyring = Keyring<SessionTicketKeys>

extension Keyring: CustomStringConvertible, CustomReflectable {
  public var description: String { "Keyring(\(current.map { "\($0)" } ?? "empty"))" }
  public var customMirror: Mirror { Mirror(self, children: ["current": description]) }
}

/// Identifies a push token where the token itself must not appear: 32 hexadecimal digits, half of the SHA-256 of the
/// provider's name, a zero byte and the token.
public enum PushTokenFingerprint {
  /// - Parameters:
  ///   - provider: its name, as in `PushProvider.name`.
  ///   - token: normalised, as it is stored.
  public static func of(provider: String, token: String) -> String {
    var hash = SHA256()
    hash.update(data: Array(provider.utf8) + [0])
    hash.update(data: Array(token.utf8))
    let digits = Array("0123456789abcdef".utf8)
    let text = hash.finalize().prefix(16).flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    return String(decoding: text, as: UTF8.self)
  }
}
