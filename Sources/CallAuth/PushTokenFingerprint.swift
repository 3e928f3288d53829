internal import Crypto

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
