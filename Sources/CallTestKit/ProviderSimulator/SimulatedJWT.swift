internal import Foundation

/// A signed JSON token, taken apart strictly, for simulators. Nothing is verified yet.
struct SimulatedJWT {
  var header: [String: Any]
  var claims: [String: Any]
  private var claimsText: String
  /// What the signature is of.
  var signed: Data
  var signature: Data

  init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false).map(String.init)
    guard parts.count == 3, let header = Self.bytes(parts[0]), let claims = Self.bytes(parts[1]),
      let signature = Self.bytes(parts[2]),
      let headerObject = try? JSONSerialization.jsonObject(with: header) as? [String: Any],
      let claimsObject = try? JSONSerialization.jsonObject(with: claims) as? [String: Any]
    else { return nil }
    self.header = headerObject
    self.claims = claimsObject
    claimsText = String(decoding: claims, as: UTF8.self)
    signed = Data("\(parts[0]).\(parts[1])".utf8)
    self.signature = signature
  }

  /// A claim that is written as a whole number, as dates must be here: no fraction, no text.
  func integer(_ claim: String) -> Int64? {
    guard let range = claimsText.range(of: "\"\(claim)\":") else { return nil }
    let digits = claimsText[range.upperBound...].prefix { $0.isNumber }
    guard let next = claimsText[range.upperBound...].dropFirst(digits.count).first,
      next == "," || next == "}"
    else { return nil }
    return Int64(digits)
  }

  /// base64url without padding, and nothing else.
  static func bytes(_ text: String) -> Data? {
    guard isText(text), text.utf8.count % 4 != 1 else { return nil }
    let standard = text.replacingOccurrences(of: "-", with: "+")
      .replacingOccurrences(of: "_", with: "/")
    return Data(
      base64Encoded: standard
        + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4))
  }

  static func isText(_ text: String) -> Bool {
    text.utf8.allSatisfy { byte in
      switch byte {
      case 48...57, 65...90, 97...122, 45, 95: true
      default: false
      }
    }
  }
}
