import FoundationEssentials

/// Reading scenario files; loadtest/scenarios/README.md describes them.
extension Scenario {
  /// - Throws: ``SetupError`` that names the file, the key and the remedy.
  package static func load(path: String) throws -> Scenario {
    guard let data = FileManager.default.contents(atPath: path) else {
      throw SetupError("scenario file \(path): cannot be read")
    }
    do {
      return try Scenario(json: data)
    } catch {
      throw SetupError("scenario file \(path): \(error)")
    }
  }

  /// - Throws: ``SetupError`` that names the key and the remedy.
  package init(json text: String) throws { try self.init(json: Data(text.utf8)) }

  private init(json data: Data) throws {
    do {
      self = try JSONDecoder().decode(Scenario.self, from: data)
    } catch let error as DecodingError {
      throw SetupError(Self.describe(error))
    }
  }

  private static func describe(_ error: DecodingError) -> String {
    switch error {
    case .dataCorrupted(let context), .typeMismatch(_, let context),
      .valueNotFound(_, let context):
      let path = context.codingPath.map(\.stringValue).joined(separator: ".")
      return path.isEmpty ? context.debugDescription : "\(path): \(context.debugDescription)"
    case .keyNotFound(let key, let context):
      let path = context.codingPath.map(\.stringValue).joined(separator: ".")
      return "\(path.isEmpty ? "" : path + ": ")the key \(key.stringValue) is missing"
    @unknown default: return "\(error)"
    }
  }
}

extension Scenario: Decodable {
  enum CodingKeys: String, CodingKey, CaseIterable { case name, summary, history, webhooks, parts }

  package init(from decoder: any Decoder) throws {
    try decoder.refuseOtherKeys(than: CodingKeys.allCases.map(\.stringValue))
    let values = try decoder.container(keyedBy: CodingKeys.self)
    name = try values.decode(String.self, forKey: .name)
    summary = try values.decodeIfPresent(String.self, forKey: .summary) ?? ""
    history = try values.decodeIfPresent(Bool.self, forKey: .history) ?? false
    webhooks = try values.decodeIfPresent(Bool.self, forKey: .webhooks) ?? false
    parts = try values.decode([Part].self, forKey: .parts)
    guard parts.contains(where: { $0.weight > 0 }) else {
      throw SetupError("parts: at least one needs a weight above 0")
    }
  }
}

extension Scenario.Part: Decodable {
  enum CodingKeys: String, CodingKey, CaseIterable {
    case kind, weight, ringTimeoutSeconds, alertMs, actMs, thenMs, talkMs, awayMs, candidates
    case answered
  }

  package init(from decoder: any Decoder) throws {
    try decoder.refuseOtherKeys(than: CodingKeys.allCases.map(\.stringValue))
    let values = try decoder.container(keyedBy: CodingKeys.self)
    let name = try values.decode(String.self, forKey: .kind)
    guard let kind = Scenario.Kind(rawValue: name) else {
      let known = Scenario.Kind.allCases.map(\.rawValue).joined(separator: ", ")
      throw SetupError("kind \(name): known are \(known)")
    }
    self.init(kind: kind, weight: try values.decode(Double.self, forKey: .weight))
    guard weight >= 0, weight.isFinite else {
      throw SetupError("\(name): weight \(weight) is below 0")
    }
    if let seconds = try values.decodeIfPresent(UInt32.self, forKey: .ringTimeoutSeconds) {
      guard (5...180).contains(seconds) else {
        throw SetupError("\(name): ringTimeoutSeconds \(seconds) is not 5 to 180")
      }
      ringTimeoutSeconds = seconds
    }
    try values.read(.alertMs, of: name, into: &alertMs)
    try values.read(.actMs, of: name, into: &actMs)
    try values.read(.thenMs, of: name, into: &thenMs)
    try values.read(.talkMs, of: name, into: &talkMs)
    try values.read(.awayMs, of: name, into: &awayMs)
    try values.read(.candidates, of: name, into: &candidates)
    try values.read(.answered, of: name, into: &answered)
  }
}

extension KeyedDecodingContainer<Scenario.Part.CodingKeys> {
  fileprivate func read(_ key: Key, of part: String, into range: inout ClosedRange<Double>) throws {
    guard let bounds = try decodeIfPresent([Double].self, forKey: key) else { return }
    guard bounds.count == 2, bounds[0] >= 0, bounds[0] <= bounds[1], bounds[1] <= 600_000 else {
      throw SetupError("\(part): \(key.stringValue) is [low, high], in milliseconds from 0")
    }
    range = bounds[0]...bounds[1]
  }

  fileprivate func read(_ key: Key, of part: String, into share: inout Double) throws {
    guard let value = try decodeIfPresent(Double.self, forKey: key) else { return }
    guard (0...1).contains(value) else {
      throw SetupError("\(part): \(key.stringValue) \(value) is not 0 to 1")
    }
    share = value
  }
}

extension Decoder {
  fileprivate func refuseOtherKeys(than known: [String]) throws {
    for key in try container(keyedBy: MemberName.self).allKeys
    where !known.contains(key.stringValue) {
      throw SetupError("unknown key \(key.stringValue); known are \(known.joined(separator: ", "))")
    }
  }
}
