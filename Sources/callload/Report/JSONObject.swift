package import FoundationEssentials

/// A JSON object as it is written. Members without a value are left out.
package struct JSONObject: Encodable, ExpressibleByDictionaryLiteral {
  package var members: [String: any Encodable]

  package init(dictionaryLiteral elements: (String, (any Encodable)?)...) {
    members = [:]
    for (name, value) in elements { members[name] = value }
  }

  package init(_ pairs: some Sequence<(String, any Encodable)>) {
    members = Dictionary(uniqueKeysWithValues: pairs)
  }

  package subscript(name: String) -> (any Encodable)? {
    get { members[name] }
    set { members[name] = newValue }
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: MemberName.self)
    for (name, value) in members {
      try container.encode(value, forKey: MemberName(stringValue: name))
    }
  }

  /// Indented, names in alphabetical order, with a line break at the end.
  package func encoded() throws -> Data {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    var data = try encoder.encode(self)
    data.append(0x0A)
    return data
  }
}

/// The name of any member of a JSON object.
struct MemberName: CodingKey {
  var stringValue: String
  var intValue: Int? { nil }
  init(stringValue: String) { self.stringValue = stringValue }
  init?(intValue: Int) { nil }
}

extension Double {
  /// To a thousandth: more digits would not be significant.
  var toThousandth: Double { (self * 1_000).rounded() / 1_000 }
}
