/// Text as one token of a key or a subject: letters, digits and `-` as they are, every other byte as `_` and two hex
/// digits.
public enum KeyText {
  public static func encode(_ text: String) -> String {
    var out = ""
    for byte in text.utf8 {
      switch byte {
      case 48...57, 65...90, 97...122, 45: out.unicodeScalars.append(Unicode.Scalar(byte))
      default:
        out += "_"
        out += byte < 16 ? "0" + String(byte, radix: 16) : String(byte, radix: 16)
      }
    }
    return out
  }

  /// Decodes what `encode` has encoded; nil for anything else.
  public static func decode(_ part: Substring) -> String? {
    var bytes: [UInt8] = []
    var rest = part.utf8[...]
    while let byte = rest.popFirst() {
      if byte != UInt8(ascii: "_") {
        bytes.append(byte)
        continue
      }
      guard rest.count >= 2, let value = UInt8(String(Substring(rest.prefix(2))), radix: 16)
      else { return nil }
      bytes.append(value)
      rest = rest.dropFirst(2)
    }
    guard let text = String(validating: bytes, as: UTF8.self), encode(text) == part else {
      return nil
    }
    return text
  }
}
