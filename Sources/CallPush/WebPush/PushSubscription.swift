internal import CallTelemetry
internal import CallWire
internal import Crypto
internal import FoundationEssentials

/// A browser's subscription, from its JSON:
/// `{"endpoint":"https://…","keys":{"p256dh":"…","auth":"…"}}` (W3C Push API, toJSON).
package struct PushSubscription: Sendable {
  static let bytesMax = 4096

  package var endpoint: PushEndpoint
  /// The browser's public key.
  let key: P256.KeyAgreement.PublicKey
  /// 16 bytes.
  let secret: [UInt8]

  private struct Form: Decodable {
    struct Keys: Decodable {
      var p256dh: String
      var auth: String
    }
    var endpoint: String
    var keys: Keys
  }

  /// nil for anything that is none, a key that is not on the curve included.
  package init?(_ text: String) {
    guard
      let form = BoundedJSON.decode(Form.self, Array(text.utf8), bytesMax: Self.bytesMax),
      let endpoint = PushEndpoint(form.endpoint),
      let point = Base64URL.bytes(form.keys.p256dh), point.count == 65,
      let key = try? P256.KeyAgreement.PublicKey(x963Representation: point),
      let secret = Base64URL.bytes(form.keys.auth), secret.count == 16
    else { return nil }
    self.endpoint = endpoint
    self.key = key
    self.secret = secret
  }
}
