public import CallCore

/// Probes of silent nodes, before their timeout. A node is sent a message, and the server reports if nobody subscribes
/// to it. The server knows that as soon as the connection of a killed process closes, while silence alone must last
/// longer.
///
/// This is still a guess. A restarting server, or a broken route between two servers, looks the same for a while. So it
/// takes several answers over some time, of which only those count that this node gets after it has been connected for
/// a while, and none if they would remove half of the cluster at once: then the network is at fault. A node that counts
/// as dead by mistake only loses its shards.
extension Membership {
  public struct Probing: Sendable, Equatable {
    /// The silence after which a member is probed.
    public var silence: Span
    /// The time between two probes of a member.
    public var interval: Span
    /// How long nobody must have subscribed before the member counts as lost.
    public var span: Span
    /// The fewest answers that must show it.
    public var strikes: Int
    /// How long this node must have been connected for such an answer to count.
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
    /// The first of the consecutive answers that nobody subscribes.
    var since: Timestamp?
    var strikes = 0
  }

  public struct Probe: Sendable, Equatable {
    public var incarnation: UInt64
    public var isEdge: Bool
  }

  /// The members to probe now. Each is returned once per interval.
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

  /// When `probes` next returns a member.
  public var nextProbe: Timestamp {
    guard let probing else { return .distantFuture }
    return living.reduce(.distantFuture) { next, member in
      // Both times must have passed; otherwise the manager would wait for a time that is over.
      let silent = silentSince(member) + probing.silence
      return min(next, max(silent, suspects[member.incarnation]?.nextProbe ?? silent))
    }
  }

  /// A probe was answered.
  /// - Parameters:
  ///   - listens: false if the server reported that nobody subscribes; true also if there was no answer.
  ///   - connectedSince: since when this node is connected; nil while it is not.
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

  /// Whether at least half of the others seem gone at once, which rather shows a fault of the network. A single one may
  /// always be gone.
  private func strikesHalf() -> Bool {
    let struck = living.count { suspects[$0.incarnation]?.since != nil }
    return struck > 1 && struck * 2 > living.count
  }
}
