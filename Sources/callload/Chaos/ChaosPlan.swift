/// What is done to the cluster while it works.
package enum ChaosKind: String, CaseIterable, Sendable, Hashable {
  case killCoordinator = "kill-coordinator"
  case freezeCoordinator = "freeze-coordinator"
  case killEdge = "kill-edge"
  case freezeEdge = "freeze-edge"
  case killNATS = "kill-nats"
  case killPush = "kill-push"
  case partition
  case rollingRestart = "rolling-restart"
  case drain

  /// For --help.
  package var summary: String {
    switch self {
    case .killCoordinator: "SIGKILL to a coordinator; LENGTH later it starts again"
    case .freezeCoordinator: "SIGSTOP to a coordinator, SIGCONT after LENGTH, past its lease"
    case .killEdge: "SIGKILL to an edge; LENGTH later it starts again"
    case .freezeEdge: "SIGSTOP to an edge, SIGCONT after LENGTH"
    case .killNATS:
      "SIGKILL to a nats-server, of three sometimes the leader; LENGTH later it starts"
    case .killPush: "SIGKILL to a push gateway (with --sleeping); LENGTH later it starts again"
    case .partition: "a node is cut off from NATS for LENGTH, in silence or with a reset"
    case .rollingRestart: "all nodes one after the other: SIGTERM, wait, start; LENGTH between two"
    case .drain: "callctl drain of a node, LENGTH later callctl resume"
    }
  }

  package var defaultIntervalSeconds: Double {
    switch self {
    case .killCoordinator, .killEdge, .killPush: 10
    case .freezeCoordinator, .freezeEdge, .killNATS, .partition: 15
    case .rollingRestart, .drain: 20
    }
  }

  package var defaultLengthSeconds: Double {
    switch self {
    case .killCoordinator, .killEdge, .killNATS, .killPush, .drain: 1
    // The default lease is 3 s.
    case .freezeCoordinator, .freezeEdge, .partition: 4.5
    case .rollingRestart: 0.5
    }
  }

  /// A change that somebody announced: no call may feel more of it than a short pause.
  package var isPlanned: Bool { self == .rollingRestart || self == .drain }
}

/// Faults to inject: which, how often, how long.
package struct ChaosPlan: Sendable, Equatable {
  package struct Entry: Sendable, Equatable {
    package var kind: ChaosKind
    /// From one fault to the next, on average.
    package var intervalSeconds: Double
    /// How long a fault lasts before it is lifted.
    package var lengthSeconds: Double
  }

  package var entries: [Entry]

  package var needsRelays: Bool { entries.contains { $0.kind == .partition } }

  /// Reads `kill-coordinator=5s,freeze-edge=10s/6s`; `all` is every kind with its defaults.
  /// - Throws: ``SetupError`` that names the value and what would do.
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
    self.init(
      kind: kind, intervalSeconds: kind.defaultIntervalSeconds,
      lengthSeconds: kind.defaultLengthSeconds)
  }

  /// Reads `kind`, `kind=interval` or `kind=interval/length`.
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
    if times.count == 2 { lengthSeconds = try Self.seconds(times[1], of: text) }
    guard intervalSeconds >= 0.5 else {
      throw SetupError(
        "--chaos \(text): a fault every \(times[0]) is too often; give at least 500ms")
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
    entries.map {
      "\($0.kind.rawValue)=\(RunDuration(seconds: $0.intervalSeconds))"
        + "/\(RunDuration(seconds: $0.lengthSeconds))"
    }.joined(separator: ",")
  }
}
