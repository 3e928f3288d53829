package import CallWire

/// A strictly parsed signed JSON token (RFC 7519). Nothing is verified yet.
package struct SimulatedJWT {
  package var header: [String: PayloadValue]
  package var claims: [String: PayloadValue]
  private var claimsText: [UInt8]
  /// The bytes that are signed.
  package var signed: [UInt8]
  package var signature: [UInt8]

  package init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3, let head = Self.bytes(parts[0]), let body = Self.bytes(parts[1]),
      let signature = Self.bytes(parts[2]), let header = strictJSONObject(head),
      let claims = strictJSONObject(body)
    else { return nil }
    self.header = header
    self.claims = claims
    claimsText = body
    signed = Array("\(parts[0]).\(parts[1])".utf8)
    self.signature = signature
  }

  /// A claim that is written as a whole number, without a fraction or an exponent, as times must be.
  package func integer(_ claim: String) -> Int64? {
    var digits = ""
    claimsText.withUnsafeBytes { bytes in
      _ = try? JSONCursor.whole(bytes) { (json) throws(Fault) in
        try json.object("") { (json, key) throws(Fault) in
          if try key.text() == claim, case .number? = claims[claim] {
            digits = try json.digits()
          } else {
            try json.skip()
          }
        }
      }
    }
    return Int64(digits)
  }

  /// Decodes canonical base64url without padding.
  package static func bytes(_ text: String) -> [UInt8]? {
    isText(text) ? Base64URL.bytes(text) : nil
  }

  /// Whether all characters are of base64url's alphabet.
  package static func isText(_ text: String) -> Bool {
    text.utf8.allSatisfy { byte in
      switch byte {
      case 48...57, 65...90, 97...122, 45, 95: true
      default: false
      }
    }
  }
}

/// The members of a JSON object (RFC 8259), without those that are null. Returns nil for anything else, and for an
/// object with a repeated name, since readers differ in which one they take.
package func strictJSONObject(_ bytes: [UInt8]) -> [String: PayloadValue]? {
  guard case .object(let members)? = PayloadValue(json: bytes) else { return nil }
  var count = 0
  bytes.withUnsafeBytes { bytes in
    _ = try? JSONCursor.whole(bytes) { (json) throws(Fault) in
      try json.object("") { (json, _) throws(Fault) in
        count += 1
        try json.skip()
      }
    }
  }
  return count == members.count ? members : nil
}
