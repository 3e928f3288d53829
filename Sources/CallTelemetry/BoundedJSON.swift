internal import FoundationEssentials

/// Decodes JSON of strangers: of providers, and of whoever asks nodes over the bus.
///
/// FoundationEssentials' decoder (of Swift 6.3) traps on a text that ends 512 arrays or objects deep,
/// so text that opens more brackets than anything here needs never reaches it.
package enum BoundedJSON {
  /// Brackets in strings count, too.
  package static let bracketsMaximum = 128

  /// nil for what is too long, too deep, or not a `Value`.
  package static func decode<Value: Decodable>(
    _ type: Value.Type = Value.self, _ bytes: [UInt8], bytesMax: Int = 65_536
  ) -> Value? {
    guard bytes.count <= bytesMax, !bytes.isEmpty else { return nil }
    let brackets = bytes.count { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") }
    guard brackets <= bracketsMaximum else { return nil }
    return try? JSONDecoder().decode(type, from: Data(bytes))
  }
}
