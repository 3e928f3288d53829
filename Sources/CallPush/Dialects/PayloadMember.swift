internal import CallWire

/// One named value of a payload.
///
/// Payloads are lists of members rather than dictionaries, so that the same push always gives the same bytes.
struct PayloadMember: Sendable {
  /// A literal of our source, so that no key needs escaping or is reserved by a provider.
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

  /// The data of FCM: a flat map of strings. Values other than texts are written as JSON text. `aps`, which only
  /// Apple's system reads, is apart.
  static func flatJSON(_ members: [PayloadMember]) -> [UInt8] {
    JSONWriter.object { writer in
      for member in members where !member.isForAppleAlone {
        writer.member(member.key, member.value.flat)
      }
    }
  }

  /// Twilio's SDK for iOS wants an `aps` without content.
  var isEmptyObject: Bool {
    if case .object(let members) = value { members.isEmpty } else { false }
  }

  var isForAppleAlone: Bool { String(describing: key) == "aps" }

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
    // No list is at the top level.
    case .objects, .texts: ""
    }
  }
}
