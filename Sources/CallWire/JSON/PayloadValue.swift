/// A JSON value as a tree: push payloads, which an app is handed as a dictionary by the system, or
/// as bytes, and whose sender it learns only from the content.
public indirect enum PayloadValue: Sendable, Equatable {
  case null
  case flag(Bool)
  case number(Double)
  case text(String)
  case list([PayloadValue])
  case object([String: PayloadValue])

  /// No provider delivers a larger payload.
  public static let bytesMaximum = 16_384

  /// Reads JSON (RFC 8259). Of members with the same name the last one counts.
  ///
  /// - Returns: nil for anything that is not one JSON value, is nested deeper than 32, or is larger
  ///   than `bytesMaximum`.
  public init?(json bytes: [UInt8]) {
    guard bytes.count <= Self.bytesMaximum else { return nil }
    let value = unsafe bytes.withUnsafeBytes { buffer -> PayloadValue? in
      unsafe try? JSONCursor.whole(buffer) { (json) throws(Fault) in try Self.read(&json) }
    }
    guard let value else { return nil }
    self = value
  }

  /// Takes what Apple's and Google's libraries hand over: dictionaries, arrays, strings, numbers.
  ///
  /// - Returns: nil where something else stands in it, or a key is no string.
  public init?(_ value: Any) {
    self.init(value, depth: 0)
  }

  private init?(_ value: Any, depth: Int) {
    guard depth <= JSONCursor.depthMaximum else { return nil }
    switch value {
    case let text as String: self = .text(text)
    // Where numbers are objects, 0 and 1 pass for flags; `wholeNumber` therefore accepts flags.
    case let flag as Bool: self = .flag(flag)
    case let number as Int: self = .number(Double(number))
    case let number as Int64: self = .number(Double(number))
    case let number as Double: self = .number(number)
    case let members as [AnyHashable: Any]:
      var object: [String: PayloadValue] = [:]
      for (key, value) in members {
        guard let key = key as? String, let value = PayloadValue(value, depth: depth + 1) else {
          return nil
        }
        object[key] = value
      }
      self = .object(object)
    case let elements as [Any]:
      var list: [PayloadValue] = []
      for element in elements {
        guard let value = PayloadValue(element, depth: depth + 1) else { return nil }
        list.append(value)
      }
      self = .list(list)
    default: return nil
    }
  }

  // MARK: Looking into it

  /// nil: no object, no such member, or null.
  public subscript(_ key: String) -> PayloadValue? {
    guard case .object(let members) = self, let value = members[key], value != .null else {
      return nil
    }
    return value
  }

  public var text: String? {
    if case .text(let text) = self { text } else { nil }
  }

  /// Also of the numbers 0 and 1, and of the words that stand for flags in FCM's map of strings.
  public var flag: Bool? {
    switch self {
    case .flag(let flag): flag
    case .number(0), .text("false"): false
    case .number(1), .text("true"): true
    default: nil
    }
  }

  /// A whole number, up to 2^53.
  public var wholeNumber: Int64? {
    switch self {
    case .number(let number):
      abs(number) <= 9_007_199_254_740_992 ? Int64(exactly: number) : nil
    case .flag(let flag): flag ? 1 : 0
    default: nil
    }
  }

  // MARK: Reading

  private static func read(_ json: inout JSONCursor) throws(Fault) -> PayloadValue {
    switch try json.first() {
    case UInt8(ascii: "{"):
      var object: [String: PayloadValue] = [:]
      try json.object("") { (json, key) throws(Fault) in
        object[try key.text()] = try read(&json)
      }
      return .object(object)
    case UInt8(ascii: "["):
      var list: [PayloadValue] = []
      try json.array("") { (json) throws(Fault) in list.append(try read(&json)) }
      return .list(list)
    case UInt8(ascii: "\""): return .text(try json.text(""))
    case UInt8(ascii: "t"), UInt8(ascii: "f"): return .flag(try json.flag(""))
    case UInt8(ascii: "n"):
      guard try json.null() else { throw .malformed }
      return .null
    default: return .number(try json.double())
    }
  }
}
