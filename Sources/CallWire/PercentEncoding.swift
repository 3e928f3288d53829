internal import CallCore

/// Percent-encoding of text in URLs and forms (RFC 3986, 2.1).
package enum PercentEncoding {
  /// Encodes everything but unreserved characters (RFC 3986, 2.3).
  package static func encode(_ text: String) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      if byte.isASCIILetter || byte.isASCIIDigit || "-._~".utf8.contains(byte) {
        bytes.append(byte)
      } else {
        bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }

  /// - Parameter plusIsSpace: as in `application/x-www-form-urlencoded`.
  /// - Returns: nil for a `%` without two hex digits, or bytes that are not UTF-8.
  package static func decode(_ text: Substring.UTF8View, plusIsSpace: Bool = false) -> String? {
    var bytes: [UInt8] = []
    var rest = text
    while let byte = rest.popFirst() {
      switch byte {
      case UInt8(ascii: "+") where plusIsSpace: bytes.append(UInt8(ascii: " "))
      case UInt8(ascii: "%"):
        guard let high = rest.popFirst()?.hexDigit, let low = rest.popFirst()?.hexDigit
        else { return nil }
        bytes.append(high << 4 | low)
      default: bytes.append(byte)
      }
    }
    return String(validating: bytes, as: UTF8.self)
  }
}
