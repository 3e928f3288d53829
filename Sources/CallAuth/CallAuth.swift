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

/// The forms of ids that a token may carry.
package enum IdentifierRules {
  package static let userBytesMax = 128
  package static let deviceBytesMax = 64
  package static let appBytesMax = 64

  package static func isUser(_ text: String) -> Bool { isPrintable(text, bytesMax: userBytesMax) }
  package static func isDevice(_ text: String) -> Bool {
    isPrintable(text, bytesMax: deviceBytesMax)
  }

  /// Apps name configuration and stand in keys: letters, digits, `.`, `_` and `-`.
  package static func isApp(_ text: String) -> Bool {
    (1...appBytesMax).contains(text.utf8.count)
      && text.utf8.allSatisfy { byte in
        switch byte {
        case 48...57, 65...90, 97...122, 45, 46, 95: true
        default: false
        }
      }
  }

  private static func isPrintable(_ text: String, bytesMax: Int) -> Bool {
    (1...bytesMax).contains(text.utf8.count)
      && text.unicodeScalars.allSatisfy { scalar in
        // Control characters of ASCII and of Latin-1, separators of lines and paragraphs.
        switch scalar.value {
        case 0..<0x20, 0x7f...0x9f, 0x2028, 0x2029: false
        default: true
        }
      }
  }
}
