internal import Crypto
internal import Foundation

/// What a browser does with the body of a push. Written from RFC 5869, 8188 and 8291 with plain HMAC,
/// so that an error in the sender's use of a library's key derivation does not cancel out here.
extension WebPushSimulator {
  struct Opened {
    var salt: [UInt8]
    var text: [UInt8]
  }

  /// nil for what a browser cannot decrypt.
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

  /// Not more than one block of the hash.
  private static func expand(_ key: Data, _ info: Data, _ count: Int) -> Data {
    Data(
      HMAC<SHA256>.authenticationCode(for: info + [1], using: SymmetricKey(data: key))
    ).prefix(count)
  }
}
