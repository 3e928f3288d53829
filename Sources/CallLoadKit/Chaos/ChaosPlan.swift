package struct ChaosPlan: Sendable, Equatable {
  package struct Entry: Sendable, Equatable {
    package var kind: ChaosKind
    package var intervalSeconds: Double
    package var lengthSeconds: Double
    package var shortestSeconds: Double?
  }

  package var entries: [Entry]

  package var needsRelays: Bool { entries.contains { $0.kind.means == .cut } }

  /// Reads `kill-coordinator=5s,freeze-edge=10s/6s,kill-all-nats=20s/1s-15s`; `all` is every kind with its defaults.
  /// - Throws: ``SetupError`` that names the value and the remedy.
  package init(_ texts: [String]) throws {
    entries = []
    for text in texts.flatMap({ $0.split(separator: ",", omittingEmptySubsequences: false) }) {
      if text == "all" {
        for kind in ChaosKind.allCases where kind != .drain { try add(Entry(kind), text) }
      } else {
        try add(Entry(text), text)
      }
    }
  }

  private mutating func add(_ entry: Entry, _ text: Substring) throws {
    guard !entries.contains(where: { $0.kind == entry.kind }) else {
      throw SetupError("--chaos \(text): \(entry.kind.rawValue) is given twice; give it once")
    }
    entries.append(entry)
  }
}

extension ChaosPlan.Entry {
  package init(_ kind: ChaosKind) {
    let facts = kind.facts
    self.init(
      kind: kind, intervalSeconds: facts.intervalSeconds, lengthSeconds: facts.lengthSeconds,
      shortestSeconds: facts.shortestSeconds)
  }

  func drawLength(_ random: inout some RandomNumberGenerator) -> Double {
    guard let shortestSeconds else { return lengthSeconds }
    return Double.random(in: shortestSeconds...lengthSeconds, using: &random)
  }

  /// Reads `kind`, `kind=interval`, `kind=interval/length` or `kind=interval/shortest-longest`.
  init(_ text: Substring) throws {
    let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
    guard let kind = ChaosKind(rawValue: String(parts[0])) else {
      let known = ChaosKind.allCases.map(\.rawValue).joined(separator: ", ")
      throw SetupError("--chaos \(text): there is no \(parts[0]); known are \(known) and all")
    }
    self.init(kind)
    guard parts.count == 2 else { return }
    let times = parts[1].split(separator: "/", omittingEmptySubsequences: false)
    guard times.count <= 2 else {
      throw SetupError(
        "--chaos \(text): give \(kind.rawValue)=INTERVAL or \(kind.rawValue)=INTERVAL/LENGTH, "
          + "such as \(kind.rawValue)=10s/2s")
    }
    intervalSeconds = try Self.seconds(times[0], of: text)
    if times.count == 2 { try readLength(times[1], of: text) }
    guard intervalSeconds >= 0.5 else {
      throw SetupError(
        "--chaos \(text): a fault every \(times[0]) is too often; give at least 500ms")
    }
  }

  private mutating func readLength(_ length: Substring, of text: Substring) throws {
    let ends = length.split(separator: "-", maxSplits: 1, omittingEmptySubsequences: false)
    shortestSeconds = ends.count == 2 ? try Self.seconds(ends[0], of: text) : nil
    lengthSeconds = try Self.seconds(ends[ends.count - 1], of: text)
    guard shortestSeconds ?? 0 <= lengthSeconds else {
      throw SetupError("--chaos \(text): \(length) ends before it begins; give the shorter first")
    }
  }

  private static func seconds(_ time: Substring, of text: Substring) throws -> Double {
    guard let found = try? RunDuration.parse(String(time)), found.seconds <= 3600 else {
      throw SetupError(
        "--chaos \(text): \"\(time)\" is not a length of time; write it like 5s or 500ms")
    }
    return found.seconds
  }
}

extension ChaosPlan: CustomStringConvertible {
  package var description: String {
    entries.map { "\($0.kind.rawValue)=\($0.text)" }.joined(separator: ",")
  }
}

extension ChaosPlan.Entry {
  /// Interval and length, as `init` reads them.
  var text: String {
    let shortest = shortestSeconds.map { "\(RunDuration(seconds: $0))-" } ?? ""
    let longest = RunDuration(seconds: lengthSeconds)
    return "\(RunDuration(seconds: intervalSeconds))/\(shortest)\(longest)"
  }
}
