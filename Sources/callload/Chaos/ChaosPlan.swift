/// What is done to the cluster while it works.
package enum ChaosKind: String, CaseIterable, Sendable, Hashable {
  case killCoordinator = "kill-coordinator"
  case freezeCoordinator = "freeze-coordinator"
  case killEdge = "kill-edge"
  case freezeEdge = "freeze-edge"
  case killNATS = "kill-nats"
  case freezeNATS = "freeze-nats"
  case cutNATS = "cut-nats"
  case killAllNATS = "kill-all-nats"
  case freezeAllNATS = "freeze-all-nats"
  case cutAllNATS = "cut-all-nats"
  case freezeAllEdges = "freeze-all-edges"
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
    case .freezeNATS: "SIGSTOP to a nats-server, SIGCONT after LENGTH"
    case .cutNATS: "no node reaches a nats-server for LENGTH, in silence or with a reset"
    case .killAllNATS: "SIGKILL to all nats-servers; LENGTH later they start"
    case .freezeAllNATS: "SIGSTOP to all nats-servers, SIGCONT after LENGTH"
    case .cutAllNATS: "no node reaches any nats-server for LENGTH, in silence or with a reset"
    case .freezeAllEdges: "SIGSTOP to all edges, SIGCONT after LENGTH"
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
    case .freezeNATS, .cutNATS: 40
    case .killAllNATS, .freezeAllNATS, .cutAllNATS, .freezeAllEdges: 60
    }
  }

  package var defaultLengthSeconds: Double {
    switch self {
    case .killCoordinator, .killEdge, .killNATS, .killPush, .drain: 1
    // The default lease is 3 s.
    case .freezeCoordinator, .freezeEdge, .partition: 4.5
    case .rollingRestart: 0.5
    case .freezeNATS, .cutNATS, .killAllNATS, .freezeAllNATS, .cutAllNATS: 15
    case .freezeAllEdges: 5
    }
  }

  /// Where faults of a kind have different lengths: the shortest.
  package var defaultShortestSeconds: Double? {
    switch self {
    case .freezeNATS, .cutNATS, .killAllNATS, .freezeAllNATS, .cutAllNATS: 1
    case .killCoordinator, .freezeCoordinator, .killEdge, .freezeEdge, .killNATS, .killPush,
      .partition, .rollingRestart, .drain, .freezeAllEdges:
      nil
    }
  }

  /// A nats-server is away, or all are.
  package var isOfNATS: Bool {
    oneServerKind != nil || self == .killNATS || self == .freezeNATS || self == .cutNATS
  }

  /// What does to one nats-server what this kind does to all.
  package var oneServerKind: ChaosKind? {
    switch self {
    case .killAllNATS: .killNATS
    case .freezeAllNATS: .freezeNATS
    case .cutAllNATS: .cutNATS
    default: nil
    }
  }

  /// An edge keeps its devices' connections, and what is said to them and by them waits.
  var keepsDevicesWaiting: Bool {
    self == .freezeEdge || self == .freezeAllEdges || self == .partition
  }

  /// What a coordinator said before may reach devices only after another has spoken.
  var delaysOldWords: Bool {
    switch self {
    case .freezeCoordinator, .partition, .freezeNATS, .freezeAllNATS, .cutNATS, .cutAllNATS: true
    default: false
    }
  }

  var needsRelays: Bool { self == .partition || self == .cutNATS || self == .cutAllNATS }

  /// A change that somebody announced: no call may feel more of it than a short pause.
  package var isPlanned: Bool { self == .rollingRestart || self == .drain }
}

/// Faults to inject: which, how often, how long.
package struct ChaosPlan: Sendable, Equatable {
  package struct Entry: Sendable, Equatable {
    package var kind: ChaosKind
    /// From one fault to the next, on average.
    package var intervalSeconds: Double
    /// How long a fault lasts before it is lifted, at most.
    package var lengthSeconds: Double
    /// Each fault lasts as long as chance says, at least this; nil: all last `lengthSeconds`.
    package var shortestSeconds: Double?
  }

  package var entries: [Entry]

  package var needsRelays: Bool { entries.contains { $0.kind.needsRelays } }

  /// Reads `kill-coordinator=5s,freeze-edge=10s/6s,kill-all-nats=20s/1s-15s`; `all` is every kind with its defaults.
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
      lengthSeconds: kind.defaultLengthSeconds, shortestSeconds: kind.defaultShortestSeconds)
  }

  /// The length of the next fault, in seconds.
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
    entries.map {
      "\($0.kind.rawValue)=\(RunDuration(seconds: $0.intervalSeconds))"
        + "/\($0.lengthText)"
    }.joined(separator: ",")
  }
}

extension ChaosPlan.Entry {
  /// As the command line has it.
  package var lengthText: String {
    let longest = "\(RunDuration(seconds: lengthSeconds))"
    return shortestSeconds.map { "\(RunDuration(seconds: $0))-\(longest)" } ?? longest
  }
}
