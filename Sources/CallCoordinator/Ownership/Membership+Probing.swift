public import CallCore

/// Probes of silent nodes, before their timeout. A node is sent a message, and the server reports if nobody subscribes
/// to it. The server knows that as soon as the connection of a killed process closes, while silence alone must last
/// longer.
///
/// Calls stand still while a coordinator is missing, so it is probed between its heartbeats, too; a living one ignores
/// that. An edge is probed only when a heartbeat is late.
///
/// This is still a guess. A restarting server, or a broken route between two servers, looks the same for a while. So it
/// takes several answers over some time, of which only those count that this node gets after it has been connected for
/// a while, and none if they would remove half of the cluster at once: then the network is at fault. A node that counts
/// as dead by mistake only loses its shards.
extension Membership {
  public struct Probing: Sendable, Equatable {
    /// The silence after which an edge is probed.
    public var edgeSilence: Span
    /// The silence after which a coordinator is probed.
    public var coordinatorSilence: Span
    /// The time between two probes of a member at whose address nobody subscribed the last time.
    public var interval: Span
    /// The time between two other probes of a member.
    public var pause: Span
    /// How long nobody must have subscribed before the member counts as lost.
    public var span: Span
    /// The fewest answers that must show it.
    public var strikes: Int
    /// How long this node must have been connected for such an answer to count.
    public var connected: Span
    public init(
      edgeSilence: Span, coordinatorSilence: Span, interval: Span, pause: Span, span: Span,
      strikes: Int, connected: Span
    ) {
      self.edgeSilence = edgeSilence
      self.coordinatorSilence = coordinatorSilence
      self.interval = interval
      self.pause = pause
      self.span = span
      self.strikes = strikes
      self.connected = connected
    }

    func silence(of isEdge: Bool) -> Span { isEdge ? edgeSilence : coordinatorSilence }
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
    /// When it is sent.
    public var at: Timestamp
    public init(incarnation: UInt64, isEdge: Bool, at: Timestamp) {
      self.incarnation = incarnation
      self.isEdge = isEdge
      self.at = at
    }
  }

  /// The members to probe now.
  public mutating func probes(now: Timestamp) -> [Probe] {
    guard let probing else { return [] }
    var due: [Probe] = []
    for member in living where silentSince(member) + probing.silence(of: member.isEdge) <= now {
      var suspect = suspects[member.incarnation] ?? Suspect(nextProbe: now)
      if suspect.nextProbe > now { continue }
      suspect.nextProbe = now + (suspect.since == nil ? probing.pause : probing.interval)
      suspects[member.incarnation] = suspect
      due.append(Probe(incarnation: member.incarnation, isEdge: member.isEdge, at: now))
    }
    return due.sorted { $0.incarnation < $1.incarnation }
  }

  /// When `probes` next returns a member.
  public var nextProbe: Timestamp {
    guard let probing else { return .distantFuture }
    return living.reduce(.distantFuture) { next, member in
      // Both times must have passed; otherwise the manager would wait for a time that is over.
      let silent = silentSince(member) + probing.silence(of: member.isEdge)
      return min(next, max(silent, suspects[member.incarnation]?.nextProbe ?? silent))
    }
  }

  /// A probe was answered.
  /// - Parameters:
  ///   - listens: false if the server reported that nobody subscribes; true also if there was no answer.
  ///   - connectedSince: since when this node is connected; nil while it is not.
  public mutating func probed(
    _ probe: Probe, listens: Bool, connectedSince: Timestamp?, now: Timestamp
  ) -> [Event] {
    let incarnation = probe.incarnation
    guard let probing, var suspect = suspects[incarnation] else { return [] }
    // It listened before it died. A living node answers nothing, so that is known only when the probe has timed out.
    if listens, let since = suspect.since, probe.at < since { return [] }
    guard !listens, let connectedSince, connectedSince + probing.connected <= now else {
      suspect.since = nil
      suspect.strikes = 0
      suspects[incarnation] = suspect
      return []
    }
    suspect.since = suspect.since ?? now
    suspect.strikes += 1
    suspect.nextProbe = min(suspect.nextProbe, probe.at + probing.interval)
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
