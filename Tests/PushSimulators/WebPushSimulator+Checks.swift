internal import CallTestKit
internal import CallWire
internal import Crypto
internal import Foundation

/// Checks the request before the subscription is looked up, and decrypts its body.
extension WebPushSimulator {
  /// The status of the answer, and the error.
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
  private func faultOfAuthorization(_ request: SimulatedRequest) -> (status: Int, what: String)? {
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

/// Decrypts the body of a push as a browser does. Written from RFC 5869, 8188 and 8291 with plain HMAC, so that an
/// error in the sender's use of a key derivation library does not cancel out.
extension WebPushSimulator {
  struct Opened {
    var salt: [UInt8]
    var text: [UInt8]
  }

  /// Returns nil if a browser cannot decrypt the body.
  static func open(_ body: [UInt8], _ browser: Browser) -> Opened? {
    guard body.count > 21 else { return nil }
    let salt = Array(body[0..<16])
    let recordSize = body[16..<20].reduce(0) { $0 << 8 | Int($1) }
    let keyLength = Int(body[20])
    guard keyLength == 65, body.count > 21 + keyLength else { return nil }
    let senderKey = Data(body[21..<21 + keyLength])
    let record = Array(body[(21 + keyLength)...])
    // RFC 8188, 2: the record size counts the tag; one record only (RFC 8291, 4).
    guard recordSize >= 18, (18...recordSize).contains(record.count),
      let theirs = try? P256.KeyAgreement.PublicKey(x963Representation: senderKey),
      let shared = try? browser.key.sharedSecretFromKeyAgreement(with: theirs)
    else { return nil }
    let secret = shared.withUnsafeBytes { Data($0) }
    let ours = browser.key.publicKey.x963Representation
    let material = expand(
      extract(salt: Data(browser.secret), secret),
      Data("WebPush: info\0".utf8) + ours + senderKey, 32)
    let start = extract(salt: Data(salt), material)
    let key = expand(start, Data("Content-Encoding: aes128gcm\0".utf8), 16)
    let nonce = expand(start, Data("Content-Encoding: nonce\0".utf8), 12)
    guard let nonce = try? AES.GCM.Nonce(data: nonce),
      let box = try? AES.GCM.SealedBox(
        nonce: nonce, ciphertext: record.dropLast(16), tag: record.suffix(16)),
      let padded = try? AES.GCM.open(box, using: SymmetricKey(data: key))
    else { return nil }
    // The last record's delimiter is 2, zeros may follow.
    guard let end = padded.lastIndex(where: { $0 != 0 }), padded[end] == 2 else { return nil }
    return Opened(salt: salt, text: Array(padded[padded.startIndex..<end]))
  }

  private static func extract(salt: Data, _ material: Data) -> Data {
    Data(HMAC<SHA256>.authenticationCode(for: material, using: SymmetricKey(data: salt)))
  }

  /// At most one block of the hash.
  private static func expand(_ key: Data, _ info: Data, _ count: Int) -> Data {
    Data(
      HMAC<SHA256>.authenticationCode(for: info + [1], using: SymmetricKey(data: key))
    ).prefix(count)
  }
}
