/// Addresses of other telephone systems. Users are called by their ids; a user's id may look like such an address.
public enum OutsideAddress {
  /// Whether the text is a telephone number or the URI of one, or a SIP URI.
  public static func isOne(_ text: String) -> Bool {
    isE164(text)
      || ["tel:", "sip:", "sips:"].contains { scheme in
        text.utf8.count > scheme.utf8.count
          && zip(text.utf8, scheme.utf8).allSatisfy { $0 | 0x20 == $1 | 0x20 }
      }
  }

  /// ITU-T E.164 with its `+`: 7 to 15 digits.
  public static func isE164(_ text: String) -> Bool {
    let digits = text.utf8.dropFirst()
    return text.utf8.first == UInt8(ascii: "+") && (7...15).contains(digits.count)
      && digits.allSatisfy(\.isASCIIDigit)
  }
}
