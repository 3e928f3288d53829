internal import CallWire

/// One named value of a payload.
///
/// A list of them, and not a dictionary, so that the same push always gives the same bytes.
struct PayloadMember: Sendable {
  /// A key that stands in the source: none comes from outside, so none needs escaping, and none can
  /// be one that a provider keeps for itself.
  var key: StaticString
  var value: Value

  indirect enum Value: Sendable {
    case text(String)
    case flag(Bool)
    case number(Int64)
    case object([PayloadMember])
    case objects([[PayloadMember]])
    case texts([String])
  }

  init(_ key: StaticString, _ value: Value) {
    self.key = key
    self.value = value
  }

  init(_ key: StaticString, _ text: String) { self.init(key, .text(text)) }
  init(_ key: StaticString, _ flag: Bool) { self.init(key, .flag(flag)) }
  init(_ key: StaticString, _ number: Int64) { self.init(key, .number(number)) }
  init(_ key: StaticString, _ members: [PayloadMember]) { self.init(key, .object(members)) }

  // MARK: As JSON

  static func json(_ members: [PayloadMember]) -> [UInt8] {
    JSONWriter.object { write(members, into: &$0) }
  }

  /// As FCM wants its data: a flat map of strings. What is no text is written as its JSON text; what
  /// only Apple's system reads (`aps`) is left out.
  static func flatJSON(_ members: [PayloadMember]) -> [UInt8] {
    JSONWriter.object { writer in
      for member in members where !member.isForAppleAlone {
        writer.member(member.key, member.value.flat)
      }
    }
  }

  private var isForAppleAlone: Bool { String(describing: key) == "aps" }

  private static func write(_ members: [PayloadMember], into writer: inout JSONWriter) {
    for member in members {
      switch member.value {
      case .text(let text): writer.member(member.key, text)
      case .flag(let flag): writer.member(member.key, flag)
      case .number(let number): writer.member(member.key, number)
      case .object(let members): writer.object(member.key) { write(members, into: &$0) }
      case .objects(let objects):
        writer.array(member.key, objects) { writer, members in
          writer.element { write(members, into: &$0) }
        }
      case .texts(let texts):
        writer.array(member.key, texts) { writer, text in writer.element(text) }
      }
    }
  }
}

extension PayloadMember.Value {
  fileprivate var flat: String {
    switch self {
    case .text(let text): text
    case .flag(let flag): flag ? "true" : "false"
    case .number(let number): String(number)
    case .object(let members): String(decoding: PayloadMember.json(members), as: UTF8.self)
    // None at the top level has lists.
    case .objects, .texts: ""
    }
  }
}
