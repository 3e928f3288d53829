internal import CallTelemetry
internal import FoundationEssentials
internal import JWTKit

/// Reads the JSON of tokens, which anybody may send, signed or not.
struct ShallowJSONDecoder: JWTJSONDecoder {
  func decode<Value: Decodable>(_ type: Value.Type, from text: Data) throws -> Value {
    try BoundedJSON.read(type, Array(text))
  }
}
