internal import CallWire
internal import Crypto

/// A JWT signed with ES256, whose signature is R||S (RFC 7518, 3.4).
enum ES256Token {
  /// - Parameters:
  ///   - header: JSON.
  ///   - claims: JSON.
  /// - Throws: the error of signing.
  static func sign(
    header: String, claims: String, with key: P256.Signing.PrivateKey
  ) throws -> String {
    let signed = Base64URL.text(Array(header.utf8)) + "." + Base64URL.text(Array(claims.utf8))
    let signature = try key.signature(for: Array(signed.utf8)).rawRepresentation
    return "\(signed).\(Base64URL.text(Array(signature)))"
  }
}
