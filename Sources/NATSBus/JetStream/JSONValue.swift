internal import CallWire

/// A JSON text as a tree, for the answers of JetStream. Never traps on input. Members that are null are absent.
package enum JSONValue: Equatable {
  case null
  case bool(Bool)
  /// The digits as they came: sequences need 64 bits.
  case number(String)
  /// Unescaped bytes, as a rule UTF-8.
  case string([UInt8])
  case array([JSONValue])
  case object([String: JSONValue])

  /// Nil when the text is not JSON.
  package init?(parsing bytes: some Collection<UInt8>) {
    let value = unsafe Array(bytes).withUnsafeBytes { bytes in
      try? unsafe JSONCursor.whole(bytes) { (json) throws(Fault) in try Self.read(&json) }
    }
    guard let value else { return nil }
    self = value
  }

  package subscript(key: String) -> JSONValue? {
    if case .object(let members) = self { members[key] } else { nil }
  }
  package var text: String? {
    if case .string(let bytes) = self { String(decoding: bytes, as: UTF8.self) } else { nil }
  }
  package var bytes: [UInt8]? {
    if case .string(let bytes) = self { bytes } else { nil }
  }
  package var unsigned: UInt64? {
    if case .number(let digits) = self { UInt64(digits) } else { nil }
  }
  var elements: [JSONValue]? {
    if case .array(let elements) = self { elements } else { nil }
  }

  /// For messages to operators.
  var description: String {
    switch self {
    case .null: "null"
    case .bool(let value): "\(value)"
    case .number(let digits): digits
    case .string: text ?? ""
    case .array(let elements): elements.map(\.description).joined(separator: ",")
    case .object: "{…}"
    }
  }

  private static func read(_ json: inout JSONCursor) throws(Fault) -> JSONValue {
    switch try json.first() {
    case UInt8(ascii: "{"):
      var members: [String: JSONValue] = [:]
      try json.object("") { (json, key) throws(Fault) in
        members[try key.text()] = try read(&json)
      }
      return .object(members)
    case UInt8(ascii: "["):
      var elements: [JSONValue] = []
      try json.array("") { (json) throws(Fault) in elements.append(try read(&json)) }
      return .array(elements)
    case UInt8(ascii: "\""): return .string(try unsafe json.withUTF8("") { unsafe Array($0) })
    case UInt8(ascii: "t"), UInt8(ascii: "f"): return .bool(try json.flag(""))
    case UInt8(ascii: "n"): return try json.null() ? .null : .bool(false)
    default: return .number(try json.digits())
    }
  }
}
