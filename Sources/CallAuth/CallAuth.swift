package import CallCore

/// Who a device is, as its token says. Signature and expiry have been checked.
public struct DeviceClaims: Sendable, Equatable {
  public var app: String
  public var user: String
  /// Where set, the token is good for this device only.
  public var device: String?
  /// Seconds since 1970.
  public var expiresAtSeconds: Int64
  /// Since 1970, at the earliest: see `TokenVerifier.verify`.
  public var issuedAtSeconds: Int64
  /// Of the key that signed it.
  public var keyNumber: UInt32
  public init(
    app: String, user: String, device: String?, expiresAtSeconds: Int64,
    issuedAtSeconds: Int64 = 0, keyNumber: UInt32 = 0
  ) {
    self.app = app
    self.user = user
    self.device = device
    self.expiresAtSeconds = expiresAtSeconds
    self.issuedAtSeconds = issuedAtSeconds
    self.keyNumber = keyNumber
  }
}

/// Why a token is no good. More is never said: it would help whoever guesses tokens.
public enum AuthFailure: Error, Sendable, Equatable {
  /// It was good once.
  case expired
  /// It would be good for longer than a token may be, or was issued longer ago.
  case tooLong(maximumSeconds: Int64)
  /// It was good before its user's tokens were revoked.
  case revoked
  case notAccepted
}

extension CallError {
  /// What a device is told.
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
    }
  }
}
