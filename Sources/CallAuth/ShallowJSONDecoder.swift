internal import FoundationEssentials
internal import JWTKit

/// Reads the JSON of tokens, which anybody may send, signed or not.
///
/// FoundationEssentials' decoder (of Swift 6.3) traps on a text that ends 512 arrays or objects
/// deep, so text that opens more brackets than a token needs never reaches it.
struct ShallowJSONDecoder: JWTJSONDecoder {
  /// Brackets in strings count, too: nothing that a token has to say needs as many.
  static let bracketsMaximum = 128

  func decode<Value: Decodable>(_ type: Value.Type, from text: Data) throws -> Value {
    let brackets = text.count { $0 == UInt8(ascii: "[") || $0 == UInt8(ascii: "{") }
    guard brackets <= Self.bracketsMaximum else { throw TooManyBrackets() }
    return try JSONDecoder().decode(type, from: text)
  }

  private struct TooManyBrackets: Error {}
}
