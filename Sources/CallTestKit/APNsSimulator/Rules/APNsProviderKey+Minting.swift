public import CallCore
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
    let signed = base64URLText(Array(header.utf8)) + "." + base64URLText(Array(claims.utf8))
    guard let key = try? P256.Signing.PrivateKey(pemRepresentation: privateKeyPEM),
      let signature = try? key.signature(for: Array(signed.utf8))
    else { return "" }
    let bytes = der ? Array(signature.derRepresentation) : Array(signature.rawRepresentation)
    return signed + "." + base64URLText(bytes)
  }
}

package func base64URLText(_ bytes: [UInt8]) -> String {
  let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8)
  var text: [UInt8] = []
  var bits: UInt32 = 0
  var count: UInt32 = 0
  for byte in bytes {
    bits = bits << 8 | UInt32(byte)
    count += 8
    while count >= 6 {
      count -= 6
      text.append(digits[Int(bits >> count & 63)])
    }
  }
  if count > 0 { text.append(digits[Int(bits << (6 - count) & 63)]) }
  return String(decoding: text, as: UTF8.self)
}
