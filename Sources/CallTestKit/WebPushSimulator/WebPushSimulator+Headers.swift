internal import CallWire
internal import Crypto
internal import Foundation

/// The checks of a push service before it looks up the subscription.
extension WebPushSimulator {
  /// The status to answer with, and what was wrong.
  func faultOfHeaders(_ request: SimulatedRequest) -> (Int, String)? {
    guard request.method == "POST" else { return (405, "method \(request.method)") }
    for name in ["authorization", "ttl", "urgency", "topic", "content-encoding"]
    where request.headers.count(where: { $0.name == name }) > 1 {
      return (400, "\(name) twice")
    }
    guard request.body.count <= 4096 else { return (413, "body of \(request.body.count) bytes") }
    guard request.header("content-encoding") == "aes128gcm" else {
      return (415, "content encoding")
    }
    // RFC 8030, 5.2: required, a whole number.
    guard let ttl = request.header("ttl"), !ttl.isEmpty, ttl.allSatisfy(\.isNumber),
      let seconds = Int(ttl), seconds <= 2_419_200
    else { return (400, "TTL") }
    if let urgency = request.header("urgency"),
      !["very-low", "low", "normal", "high"].contains(urgency)
    {
      return (400, "urgency")
    }
    if let topic = request.header("topic") {
      // RFC 8030, 5.4.
      guard (1...32).contains(topic.utf8.count), SimulatedJWT.isText(topic) else {
        return (400, "topic")
      }
    }
    return faultOfAuthorization(request).map { ($0.status, "authorization: \($0.what)") }
  }

  /// RFC 8292.
  private func faultOfAuthorization(
    _ request: SimulatedRequest
  ) -> (status: Int, what: String)? {
    guard let value = request.header("authorization"), value.hasPrefix("vapid ") else {
      return (401, "scheme")
    }
    var fields: [String: String] = [:]
    for part in value.dropFirst("vapid ".count).split(separator: ",") {
      let pair = part.trimmingCharacters(in: .whitespaces)
        .split(separator: "=", maxSplits: 1).map(String.init)
      guard pair.count == 2 else { return (401, "parameters") }
      fields[pair[0]] = pair[1]
    }
    guard Set(fields.keys) == ["t", "k"], let text = fields["t"], let keyText = fields["k"],
      let token = SimulatedJWT(text), let point = SimulatedJWT.bytes(keyText)
    else { return (401, "t and k") }
    guard keyText == applicationServerKey else { return (403, "another key") }
    guard point.count == 65, let key = try? P256.Signing.PublicKey(x963Representation: point)
    else { return (403, "k") }
    guard token.header["alg"]?.text == "ES256" else { return (403, "alg") }
    guard token.signature.count == 64,
      let signature = try? P256.Signing.ECDSASignature(rawRepresentation: token.signature),
      key.isValidSignature(signature, for: token.signed)
    else { return (403, "signature") }
    guard token.claims["aud"]?.text == origin else { return (403, "aud") }
    let now = nowSeconds()
    guard let end = token.integer("exp"), end > now, end <= now + 86_400 else {
      return (403, "exp")
    }
    guard let subject = token.claims["sub"]?.text,
      subject.hasPrefix("mailto:") || subject.hasPrefix("https://")
    else { return (403, "sub") }
    return nil
  }
}
