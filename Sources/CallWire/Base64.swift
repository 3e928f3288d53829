/// Base64 with the alphabet for URLs, without padding (RFC 4648, section 5).
public enum Base64URL {
  public static func text(_ bytes: [UInt8]) -> String { Base64.text(bytes, last: "-_") }

  /// As `Base64.bytes`.
  public static func bytes(_ text: String) -> [UInt8]? { Base64.bytes(text) }
}

/// Base64 with the plain alphabet, padded (RFC 4648, section 4).
public enum Base64 {
  public static func text(_ bytes: [UInt8]) -> String {
    text(bytes, last: "+/") + String(repeating: "=", count: (3 - bytes.count % 3) % 3)
  }

  /// Without padding.
  /// - Parameter last: the two characters in which the alphabets differ.
  fileprivate static func text(_ bytes: [UInt8], last: String) -> String {
    let alphabet = Array(
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789\(last)".utf8)
    var out: [UInt8] = []
    out.reserveCapacity((bytes.count + 2) / 3 * 4)
    for start in stride(from: 0, to: bytes.count, by: 3) {
      let group = bytes[start..<min(start + 3, bytes.count)]
      let word = group.reduce(UInt32(0)) { $0 << 8 | UInt32($1) } << UInt32(8 * (3 - group.count))
      for place in 0...group.count {
        out.append(alphabet[Int(word >> UInt32(18 - 6 * place) & 63)])
      }
    }
    return String(decoding: out, as: UTF8.self)
  }

  /// Takes both alphabets, and padding or none; nothing else. nil where bits are left over
  /// that belong to no byte.
  public static func bytes(_ text: String) -> [UInt8]? {
    var digits = Array(text.utf8)
    var padding = 0
    while digits.last == UInt8(ascii: "="), padding < 2 {
      digits.removeLast()
      padding += 1
    }
    guard padding == 0 || (digits.count + padding) % 4 == 0, digits.count % 4 != 1 else {
      return nil
    }
    var out: [UInt8] = []
    out.reserveCapacity(digits.count * 3 / 4)
    var word: UInt32 = 0
    var bits: UInt32 = 0
    for digit in digits {
      guard let value = value(of: digit) else { return nil }
      word = (word << 6 | value) & 0xffff
      bits += 6
      if bits >= 8 {
        bits -= 8
        out.append(UInt8(truncatingIfNeeded: word >> bits))
      }
    }
    guard word & (1 << bits - 1) == 0 else { return nil }
    return out
  }

  private static func value(of digit: UInt8) -> UInt32? {
    switch digit {
    case UInt8(ascii: "A")...UInt8(ascii: "Z"): UInt32(digit) - 65
    case UInt8(ascii: "a")...UInt8(ascii: "z"): UInt32(digit) - 71
    case UInt8(ascii: "0")...UInt8(ascii: "9"): UInt32(digit) + 4
    case UInt8(ascii: "-"), UInt8(ascii: "+"): 62
    case UInt8(ascii: "_"), UInt8(ascii: "/"): 63
    default: nil
    }
  }
}
