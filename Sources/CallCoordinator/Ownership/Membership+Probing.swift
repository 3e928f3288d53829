public import CallCore

/// A silent node is looked into before its timeout: it is sent a message, and the server says when
/// nobody listens for it any more. That is known the moment the connection of a killed process
/// closes, while silence alone must last long enough to be no accident.
///
/// It is still a guess. A server that restarts, or a route between two that breaks, looks the same
/// for a while, so several answers over some time are asked for, from a node that has been connected
/// for longer, and they do not count when they would strike half of the cluster at once: then it is
/// the network that is ill. Who is counted dead by mistake loses his shards, and nothing else.
extension Membership {
  public struct Probing: Sendable, Equatable {
    /// A member that was not heard for so long is looked into.
    public var silence: Span
    /// Between two looks at one member.
    public var interval: Span
    /// For how long nobody must have listened.
    public var span: Span
    /// In how many answers at least.
    public var strikes: Int
    /// How long this node must have been connected before it believes such answers.
    public var connected: Span
    public init(silence: Span, interval: Span, span: Span, strikes: Int, connected: Span) {
      self.silence = silence
      self.interval = interval
      self.span = span
      self.strikes = strikes
      self.connected = connected
    }
  }

  struct Suspect: Sendable {
    var nextProbe: Timestamp
    /// The first of the answers in a row that nobody listens.
    var since: Timestamp?
    var strikes = 0
  }

  public struct Probe: Sendable, Equatable {
    public var incarnation: UInt64
    public var isEdge: Bool
  }

  /// Whom to look into now. Each is asked for once per interval.
  public mutating func probes(now: Timestamp) -> [Probe] {
    guard let probing else { return [] }
    var due: [Probe] = []
    for member in living where silentSince(member) + probing.silence <= now {
      let suspect = suspects[member.incarnation]
      if let suspect, suspect.nextProbe > now { continue }
      suspects[member.incarnation, default: Suspect(nextProbe: now)].nextProbe =
        now + probing.interval
      due.append(Probe(incarnation: member.incarnation, isEdge: member.isEdge))
    }
    return due.sorted { $0.incarnation < $1.incarnation }
  }

  /// When `probes` has something to say next.
  public var nextProbe: Timestamp {
    guard let probing else { return .distantFuture }
    return living.reduce(.distantFuture) { next, member in
      // Both must have passed, or a moment that is over would be waited for.
      let silent = silentSince(member) + probing.silence
      return min(next, max(silent, suspects[member.incarnation]?.nextProbe ?? silent))
    }
  }

  /// A probe was answered.
  /// - Parameters:
  ///   - listens: false when the server said that nobody listens; true also when it said nothing.
  ///   - connectedSince: since when this node has its connection; nil while it has none.
  public mutating func probed(
    _ incarnation: UInt64, listens: Bool, connectedSince: Timestamp?, now: Timestamp
  ) -> [Event] {
    guard let probing, var suspect = suspects[incarnation] else { return [] }
    guard !listens, let connectedSince, connectedSince + probing.connected <= now else {
      suspect.since = nil
      suspect.strikes = 0
      suspects[incarnation] = suspect
      return []
    }
    suspect.since = suspect.since ?? now
    suspect.strikes += 1
    suspects[incarnation] = suspect
    guard isCondemned(suspect, now: now), !strikesHalf() else { return [] }
    return remove(living.filter { $0.incarnation == incarnation }, .unreachable, now: now)
  }

  private func isCondemned(_ suspect: Suspect, now: Timestamp) -> Bool {
    guard let probing, let since = suspect.since else { return false }
    return suspect.strikes >= probing.strikes && since + probing.span <= now
  }

  /// Whether most of the others are gone at once, which is rather this node's own view of the
  /// network. One alone may always be gone.
  private func strikesHalf() -> Bool {
    let struck = living.count { suspects[$0.incarnation]?.since != nil }
    return struck > 1 && struck * 2 > living.count
  }
}
