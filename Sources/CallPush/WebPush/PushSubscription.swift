internal import CallWire
internal import Crypto

/// A browser's subscription, ready to be encrypted for.
package struct PushSubscription: Sendable {
  static let bytesMax = 4096

  package var endpoint: PushEndpoint
  /// The browser's public key.
  let key: P256.KeyAgreement.PublicKey
  /// 16 bytes.
  let secret: [UInt8]

  /// nil for anything that is none, a key that is not on the curve included.
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
