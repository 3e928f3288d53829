internal import FoundationEssentials

/// Decodes JSON of strangers.
///
/// FoundationEssentials' decoder (of Swift 6.3) traps on a text that ends 512 arrays or objects deep,
/// so text that opens more brackets than anything here needs never reaches it.
enum BoundedJSON {
  /// Brackets in strings count, too.
  static let bracketsMaximum = 128

  /// nil for what is too long, too deep, or not a `Value`.
  static func decode<Value: Decodable>(
    _ type: Value.Type = Value.self, _ bytes: [UInt8], bytesMax: Int = 65_536
  ) -> Value? {
    guard bytes.count <= bytesMax, !bytes.isEmpty else { return nil }
    let brackets = bytes.count { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") }
    guard brackets <= bracketsMaximum else { return nil }
    return try? JSONDecoder().decode(type, from: Data(bytes))
  }
}

/// RFC 4648, section 5, without padding.
package enum Base64URL {
  package static func encode(_ bytes: some Collection<UInt8>) -> String {
    String(
      Data(bytes).base64EncodedString().compactMap { character -> Character? in
        switch character {
        case "+": "-"
        case "/": "_"
        case "=": nil
        default: character
        }
      })
  }

  /// nil for text that is not base64url. Padding may be there.
  package static func decode(_ text: String) -> [UInt8]? {
    var standard = ""
    for character in text.trimming("=") {
      switch character {
      case "-": standard.append("+")
      case "_": standard.append("/")
      case "+", "/": return nil
      default: standard.append(character)
      }
    }
    standard += String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)
    return Data(base64Encoded: standard).map { Array($0) }
  }
}
