package import CallCore
internal import CallWire
internal import Crypto
internal import FoundationEssentials

extension StringProtocol {
  /// Whether all is ASCII that shows something: no space and no control character.
  var isGraphicASCII: Bool { utf8.allSatisfy { 0x21...0x7e ~= $0 } }

  var isASCIIDigits: Bool { utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 } }

  /// Whether all is letters and digits of ASCII, and `others`.
  func isAlphanumericASCII(or others: StaticString = "") -> Bool {
    utf8.allSatisfy { byte in
      switch byte {
      case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
      default: others.withUTF8Buffer { $0.contains(byte) }
      }
    }
  }
}

/// Bytes as lower-case hexadecimal digits.
func hexText(_ bytes: some Sequence<UInt8>) -> String {
  let digits = Array("0123456789abcdef".utf8)
  let text = bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
  return String(decoding: text, as: UTF8.self)
}

/// A JWT in its compact form (RFC 7515, 3.1; RFC 7519).
enum SignedJWT {
  /// - Parameters:
  ///   - header: JSON.
  ///   - claims: JSON.
  ///   - sign: makes the signature.
  static func text(
    header: String, claims: String, sign: ([UInt8]) throws -> some Sequence<UInt8>
  ) rethrows -> String {
    let signed = Base64URL.text(Array(header.utf8)) + "." + Base64URL.text(Array(claims.utf8))
    return "\(signed).\(Base64URL.text(Array(try sign(Array(signed.utf8)))))"
  }

  /// With ES256, whose signature is R||S (RFC 7518, 3.4).
  /// - Throws: the error of signing.
  static func text(
    header: String, claims: String, es256 key: P256.Signing.PrivateKey
  ) throws -> String {
    try text(header: header, claims: claims) { try key.signature(for: $0).rawRepresentation }
  }
}

/// The `Retry-After` header (RFC 9110, 10.2.3): seconds, or a date.
package enum RetryAfter {
  /// Longer waits mean the same to us: not within any call.
  static let secondsMax: Int64 = 86_400

  /// How long to wait; zero for a date that has passed; nil for text that is neither.
  package static func span(_ text: String, now: Timestamp) -> Span? {
    let words = text.split { $0 == " " || $0 == "\t" }
    if words.count == 1, words[0].isASCIIDigits {
      return .seconds(min(Int64(words[0]) ?? secondsMax, secondsMax))
    }
    guard let at = secondsSince1970(text) else { return nil }
    return .seconds(min(max(0, at - now.microseconds / 1_000_000), secondsMax))
  }

  /// The three forms that a recipient must read (RFC 9110, 5.6.7): `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94
  /// 08:49:37 GMT` and `Sun Nov  6 08:49:37 1994`.
  private static func secondsSince1970(_ text: String) -> Int64? {
    var parts = text.split { " ,-\t".contains($0) }
    if parts.count == 5 { parts = [parts[0], parts[2], parts[1], parts[4], parts[3], "GMT"] }
    guard parts.count == 6, parts[5] == "GMT" else { return nil }
    let time = parts[4].split(separator: ":", omittingEmptySubsequences: false)
    guard time.count == 3, let day = number(parts[1], 1...31),
      let month = months.firstIndex(of: parts[2]), let year = year(parts[3]),
      let hour = number(time[0], 0...23), let minute = number(time[1], 0...59),
      let second = number(time[2], 0...60)
    else { return nil }
    let date = DateComponents(
      timeZone: .gmt, year: year, month: month + 1, day: day, hour: hour, minute: minute,
      second: second)
    return Calendar(identifier: .gregorian).date(from: date).map {
      Int64($0.timeIntervalSince1970)
    }
  }

  private static let months: [Substring] = [
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
  ]

  private static func number(_ text: Substring, _ range: ClosedRange<Int>) -> Int? {
    guard text.isASCIIDigits, let value = Int(text), range.contains(value) else { return nil }
    return value
  }

  /// Two digits from 70 on are of the twentieth century, others of this one.
  private static func year(_ text: Substring) -> Int? {
    if text.utf8.count == 4 { return number(text, 1970...9999) }
    guard text.utf8.count == 2 else { return nil }
    return number(text, 0...99).map { $0 < 70 ? 2000 + $0 : 1900 + $0 }
  }
}
