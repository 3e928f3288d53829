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
