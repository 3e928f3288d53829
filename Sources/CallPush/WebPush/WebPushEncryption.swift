internal import CallWire
internal import Crypto
internal import FoundationEssentials

/// Encrypts a push for one subscription: `aes128gcm` (RFC 8188) with keys of RFC 8291.
///
/// One record: salt (16) | record size (4) | length of the key (1) | our public key (65) | AES-128-GCM of the text and
/// the delimiter 2.
package enum WebPushEncryption {
  /// The longest body that a push service must accept (RFC 8030, 7.2).
  static let bodyBytesMax = 4096
  static let recordSize: UInt32 = 4096
  static let headerBytes = 16 + 4 + 1 + 65
  /// Delimiter and tag take 17.
  package static let textBytesMax = bodyBytesMax - headerBytes - 17

  /// The text is too long.
  package struct TooLong: Error {}

  /// - Parameters:
  ///   - salt: 16 bytes; nil: random ones.
  ///   - ephemeralKey: a key of this message alone; nil: a new one.
  /// - Throws: `TooLong`, or the error of the key.
  package static func seal(
    _ text: [UInt8], for subscription: PushSubscription, salt: [UInt8]? = nil,
    ephemeralKey: [UInt8]? = nil
  ) throws -> [UInt8] {
    guard text.count <= textBytesMax else { throw TooLong() }
    let salt = salt ?? (0..<16).map { _ in UInt8.random(in: .min ... .max) }
    let ephemeral =
      try ephemeralKey.map { try P256.KeyAgreement.PrivateKey(rawRepresentation: $0) }
      ?? P256.KeyAgreement.PrivateKey()
    let ours = ephemeral.publicKey.x963Representation
    let (key, nonce) = try keys(
      secret: try ephemeral.sharedSecretFromKeyAgreement(with: subscription.key),
      auth: subscription.secret, theirs: subscription.key.x963Representation, ours: ours,
      salt: salt)
    let sealed = try AES.GCM.seal(text + [2], using: key, nonce: nonce)
    var body: [UInt8] = []
    body.reserveCapacity(headerBytes + text.count + 17)
    body += salt
    withUnsafeBytes(of: recordSize.bigEndian) { body += $0 }
    body.append(UInt8(ours.count))
    body += ours
    body += sealed.ciphertext
    body += sealed.tag
    return body
  }

  /// RFC 8291, 3.4.
  private static func keys(
    secret: SharedSecret, auth: [UInt8], theirs: Data, ours: Data, salt: [UInt8]
  ) throws -> (key: SymmetricKey, nonce: AES.GCM.Nonce) {
    let material = secret.hkdfDerivedSymmetricKey(
      using: SHA256.self, salt: auth, sharedInfo: Data("WebPush: info\0".utf8) + theirs + ours,
      outputByteCount: 32)
    let key = HKDF<SHA256>.deriveKey(
      inputKeyMaterial: material, salt: salt,
      info: Data("Content-Encoding: aes128gcm\0".utf8), outputByteCount: 16)
    let nonce = HKDF<SHA256>.deriveKey(
      inputKeyMaterial: material, salt: salt, info: Data("Content-Encoding: nonce\0".utf8),
      outputByteCount: 12)
    return (key, try nonce.withUnsafeBytes { try AES.GCM.Nonce(data: $0) })
  }
}

/// A browser's subscription, parsed for encryption.
package struct PushSubscription: Sendable {
  static let bytesMax = 4096

  package var endpoint: PushEndpoint
  /// The browser's public key.
  let key: P256.KeyAgreement.PublicKey
  /// 16 bytes.
  let secret: [UInt8]

  /// Returns nil for anything else, also for a key that is not on the curve.
  package init?(_ text: String) {
    guard text.utf8.count <= Self.bytesMax, let form = WebPushSubscription(json: text),
      let endpoint = PushEndpoint(form.endpoint),
      let key = try? P256.KeyAgreement.PublicKey(x963Representation: form.p256dh)
    else { return nil }
    self.endpoint = endpoint
    self.key = key
    secret = form.auth
  }
}
