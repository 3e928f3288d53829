internal import FoundationEssentials

/// Decodes JSON of strangers: of providers, of nodes, and of whoever asks nodes over the bus.
///
/// FoundationEssentials' decoder (of Swift 6.3) traps on a text that ends 512 arrays or objects deep,
/// so text that goes deeper than anything here needs never reaches it.
package enum BoundedJSON {
  /// Objects and arrays within each other.
  package static let depthMaximum = 64

  /// nil for what is too long, too deep, or not a `Value`.
  package static func decode<Value: Decodable>(
    _ type: Value.Type = Value.self, _ bytes: [UInt8], bytesMax: Int = 65_536
  ) -> Value? {
    guard bytes.count <= bytesMax, !bytes.isEmpty, isShallow(bytes) else { return nil }
    return try? JSONDecoder().decode(type, from: Data(bytes))
  }

  /// Whether a decoder may have it. Brackets in strings do not count.
  package static func isShallow(_ bytes: [UInt8]) -> Bool {
    var depth = 0
    var isInString = false
    var isEscaped = false
    for byte in bytes {
      if isEscaped {
        isEscaped = false
      } else if isInString {
        if byte == UInt8(ascii: "\\") { isEscaped = true }
        if byte == UInt8(ascii: "\"") { isInString = false }
      } else {
        switch byte {
        case UInt8(ascii: "\""): isInString = true
        case UInt8(ascii: "["), UInt8(ascii: "{"):
          depth += 1
          if depth > depthMaximum { return false }
        case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
        default: break
        }
      }
    }
    return true
  }
}
