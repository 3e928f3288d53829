package import CallCore

/// The claims of a verified token.
public struct DeviceClaims: Sendable, Equatable {
  public var app: String
  public var user: String
  /// If set, the token is valid for this device only.
  public var device: String?
  /// Seconds since 1970.
  public var expiresAtSeconds: Int64
  /// Seconds since 1970; an estimate for a token without `iat`: see `TokenVerifier.verify`.
  public var issuedAtSeconds: Int64
  /// The number of the key that signed it.
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

/// Why a token is refused. No more detail is given, since it would help to forge tokens.
public enum AuthFailure: Error, Sendable, Equatable {
  /// It was valid before.
  case expired
  /// Its lifetime exceeds the maximum, or it was issued longer ago.
  case tooLong(maximumSeconds: Int64)
  /// Its user's tokens were revoked.
  case revoked
  case notAccepted
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
    }
  }
}
