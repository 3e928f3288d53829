internal import FoundationEssentials

extension Encodable {
  /// The JSON of an answer; nil where a value cannot be written.
  package var jsonBytes: [UInt8]? { (try? JSONEncoder().encode(self)).map(Array.init) }

  /// JSON for files, scripts and signatures: with sorted keys, so that two texts can be compared.
  /// - Throws: what the encoder throws.
  package func sortedJSON(indented: Bool = false) throws -> String {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    if indented { encoder.outputFormatting.insert(.prettyPrinted) }
    return String(decoding: try encoder.encode(self), as: UTF8.self)
  }
}

/// Decodes untrusted JSON: of providers, of nodes, and of clients that query nodes over the bus.
///
/// The decoder of FoundationEssentials (Swift 6.3) traps on text that ends 512 arrays or objects deep, so text that
/// is nested deeper than `depthMaximum` never reaches it. The decoder also accepts UTF-16 and UTF-32, whose
/// brackets and quotes the check of the depth would not find. So only UTF-8 reaches it, the one encoding that
/// RFC 8259 (8.1) allows.
package enum BoundedJSON {
  /// The deepest nesting of objects and arrays.
  package static let depthMaximum = 64

  /// Returns nil for text that is too long, too deep, or not a `Value`.
  package static func decode<Value: Decodable>(
    _ type: Value.Type = Value.self, _ bytes: [UInt8], bytesMax: Int = 65_536
  ) -> Value? {
    guard bytes.count <= bytesMax, !bytes.isEmpty else { return nil }
    return try? read(type, bytes)
  }

  /// As `decode`, for callers that report errors and limit the length themselves.
  /// - Throws: `DecodingError`.
  package static func read<Value: Decodable>(
    _ type: Value.Type = Value.self, _ bytes: [UInt8]
  ) throws -> Value {
    guard isShallow(bytes) else {
      throw DecodingError.dataCorrupted(
        .init(codingPath: [], debugDescription: "nested too deep, or no UTF-8"))
    }
    return try JSONDecoder().decode(type, from: Data(bytes))
  }

  /// Whether the text may be given to a decoder. Brackets in strings do not count.
  package static func isShallow(_ bytes: [UInt8]) -> Bool {
    var depth = 0
    var isInString = false
    var isEscaped = false
    for byte in bytes {
      // These bytes do not occur in JSON that is UTF-8. A decoder recognises UTF-16 and UTF-32 by them.
      if byte == 0 || byte >= 0xfe { return false }
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
