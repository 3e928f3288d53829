public import CallCore
internal import CallWire
internal import Crypto

extension APNsProviderKey {
  /// A provider token of this key, as a sender would make it: for tests of the simulator itself and
  /// for trying it by hand.
  /// - Parameter der: signed in DER, which no document allows.
  public func token(issuedAt: Timestamp, der: Bool = false) -> String {
    token(
      header: "{\"alg\":\"ES256\",\"kid\":\"\(id)\"}",
      claims: "{\"iss\":\"\(team)\",\"iat\":\(issuedAt.microseconds / 1_000_000)}", der: der)
  }

  /// Signs any header and claims, also wrong ones.
  package func token(header: String, claims: String, der: Bool = false) -> String {
    let signed = Base64URL.text(Array(header.utf8)) + "." + Base64URL.text(Array(claims.utf8))
    guard let key = try? P256.Signing.PrivateKey(pemRepresentation: privateKeyPEM),
      let signature = try? key.signature(for: Array(signed.utf8))
    else { return "" }
    let bytes = der ? Array(signature.derRepresentation) : Array(signature.rawRepresentation)
    return signed + "." + Base64URL.text(bytes)
  }
}
