package import CallCore

/// When what was disturbed by a fault, and by which: all that the judge may put down to chaos.
///
/// A fault of a coordinator disturbs the shards that it served until they answer again; one of an
/// edge disturbs the devices that it carried until they are attached elsewhere, or it is well
/// again; one of NATS disturbs all shards. Times are the loop's.
package struct FaultTimeline: Sendable {
  struct Window: Sendable {
    var fault: Int
    var from: Timestamp
    /// Nothing while it lasts.
    var until: Timestamp?
    /// Lost messages are retransmitted in this time after the end.
    var afterglow: Span

    /// Whether it lies at least partly in a time.
    func touches(_ begin: Timestamp, _ end: Timestamp) -> Bool {
      from <= end && (until.map { begin <= $0 + afterglow } ?? true)
    }
  }

  let shardCount: Int
  private let app: String
  private let roster: Roster
  private var shards: [Int: [Window]] = [:]
  private var devices: [Int: [Window]] = [:]
  private var faults: [Int: Fault] = [:]
  private var beganAt: [Int: Timestamp] = [:]
  private var liftedAt: [Int: Timestamp] = [:]
  /// By fault of a nats-server that is away: the shards that answer all the same.
  private var answeredEarly: [Int: Set<Int>] = [:]
  /// Shards of users, by user.
  private var shardOfUser: [Int32]

  package init(roster: Roster, app: String, shardCount: Int) {
    self.roster = roster
    self.app = app
    self.shardCount = shardCount
    self.shardOfUser = (0..<(shardCount > 0 ? roster.users : 0)).map {
      Int32(ShardHash.shard(of: UserKey(app: app, user: roster.userName($0)), count: shardCount))
    }
  }

  /// Without faults nothing is explained by one.
  package var isEmpty: Bool { faults.isEmpty }

  func shard(ofUser user: Int) -> Int { user < shardOfUser.count ? Int(shardOfUser[user]) : -1 }
  func shard(ofDevice device: Int) -> Int { shard(ofUser: roster.user(of: device)) }

  // MARK: What happens

  /// - Parameter carried: the devices that were connected to the edge concerned.
  package mutating func begin(_ fault: Fault, carried: [Int], at now: Timestamp) {
    faults[fault.id] = fault
    beganAt[fault.id] = now
    let window = Self.window(fault, from: now)
    for shard in fault.shards { shards[shard, default: []].append(window) }
    for device in carried { devices[device, default: []].append(window) }
    forget(before: now)
  }

  /// These shards are concerned, too, or again.
  package mutating func widen(_ fault: Fault, by more: [Int], since: Timestamp) {
    let window = Self.window(fault, from: since)
    for shard in more {
      let isKnown = shards[shard]?.contains { $0.fault == fault.id && $0.until == nil } ?? false
      if !isKnown { shards[shard, default: []].append(window) }
    }
  }

  private static func window(
    _ fault: Fault, from begin: Timestamp, until end: Timestamp? = nil
  ) -> Window {
    Window(
      fault: fault.id, from: begin, until: end,
      afterglow: Span(microseconds: fault.afterglowMicroseconds))
  }

  /// A shard answered again.
  ///
  /// While a nats-server is away that shows no more than that one stream has a leader: what a take-over, a
  /// hand-over or the next append needs may have lost its own, and those that come back move leaders again.
  package mutating func answered(shard: Int, fault: Int, at now: Timestamp) {
    if faults[fault]?.kind.isOfNATS == true, liftedAt[fault] == nil {
      answeredEarly[fault, default: []].insert(shard)
    } else {
      Self.close(&shards, shard, fault, at: now)
    }
  }

  /// A device has a new session.
  /// - Parameter edge: where. One that has just thawed, or has its way to NATS again, had kept the device
  ///   waiting, and with it what was said to it.
  package mutating func attached(device: Int, through edge: Int? = nil, at now: Timestamp) {
    for window in devices[device] ?? [] where window.until == nil {
      Self.close(&devices, device, window.fault, at: now)
    }
    for fault in faults.values where edge.map(fault.edges.contains) == true {
      guard fault.kind.keepsDevicesWaiting, let began = beganAt[fault.id],
        liftedAt[fault.id].map({ now <= $0 + Self.keptWaiting }) ?? true
      else { continue }
      devices[device, default: []].append(Self.window(fault, from: began, until: now))
    }
  }

  /// How long after its end a frozen edge may need to pass on what waited.
  private static let keptWaiting: Span = .seconds(2)

  /// The node is well again. Devices that kept their connections to it are no longer disturbed;
  /// those that lost them are, until they have new ones.
  /// - Parameter isWell: whether a device has a session, or wants none.
  package mutating func lifted(
    fault: Int, at now: Timestamp, isWell: (_ device: Int) -> Bool = { _ in false }
  ) {
    liftedAt[fault] = now
    for shard in answeredEarly.removeValue(forKey: fault) ?? [] {
      Self.close(&shards, shard, fault, at: now)
    }
    guard let kind = faults[fault]?.kind else { return }
    for device in devices.keys where kind.keepsDevicesWaiting || isWell(device) {
      Self.close(&devices, device, fault, at: now)
    }
  }

  /// No more is to be found out about the shards of a fault.
  package mutating func end(shardsOf fault: Int, at now: Timestamp) {
    for shard in Array(shards.keys) { answered(shard: shard, fault: fault, at: now) }
  }

  private static func close(
    _ windows: inout [Int: [Window]], _ key: Int, _ fault: Int, at now: Timestamp
  ) {
    guard let index = windows[key]?.firstIndex(where: { $0.fault == fault && $0.until == nil })
    else { return }
    windows[key]?[index].until = now
  }

  /// No call is judged by what was minutes ago: the longest rings for three.
  private mutating func forget(before now: Timestamp) {
    let kept = Span.seconds(600)
    func prune(_ windows: inout [Int: [Window]]) {
      for key in windows.keys {
        windows[key]?.removeAll { $0.until.map { $0 + kept < now } ?? false }
        if windows[key]?.isEmpty == true { windows[key] = nil }
      }
    }
    prune(&shards)
    prune(&devices)
  }

  // MARK: What it explains

  /// The fault that disturbed a shard at some time between two.
  package func disturbed(shard: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    Self.first(shards[shard], begin, end).flatMap { faults[$0] }
  }

  /// The same, of those in which messages get lost, which may lie beside others.
  package func lostMessages(shard: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    (shards[shard] ?? []).lazy.filter { $0.touches(begin, end) }.compactMap { faults[$0.fault] }
      .first { $0.losesMessages }
  }

  package func disturbed(device: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    Self.first(devices[device], begin, end).flatMap { faults[$0] }
  }

  /// What kept a device from coming back between two times, if it lasted for half of them at least: edges in
  /// trouble, one of which it may have been on its way to, and what befell its own shard.
  package func hindrance(shard: Int, from begin: Timestamp, to end: Timestamp) -> Fault? {
    var spans = (shards[shard] ?? []).map {
      (fault: $0.fault, from: $0.from, to: $0.until.map { [glow = $0.afterglow] in $0 + glow })
    }
    for (id, fault) in faults where !fault.edges.isEmpty {
      guard let began = beganAt[id] else { continue }
      spans.append((id, began, liftedAt[id].map { $0 + Self.keptWaiting }))
    }
    let found = spans.filter { $0.from < end && $0.to.map { begin < $0 } ?? true }
      .sorted { ($0.from, $0.fault) < ($1.from, $1.fault) }
    var (covered, reached): (Int64, Timestamp) = (0, begin)
    for span in found {
      let last = min(span.to ?? end, end)
      covered += max(0, (last - max(reached, span.from)).microseconds)
      reached = max(reached, last)
    }
    guard (end - begin).microseconds <= 2 * covered else { return nil }
    return found.first.flatMap { faults[$0.fault] }
  }

  /// A fault that disturbed anything at some time between two.
  package func disturbed(from begin: Timestamp, to end: Timestamp) -> Fault? {
    for windows in [shards, devices] {
      let found = windows.values.lazy.compactMap { Self.first($0, begin, end) }.first
      if let found { return faults[found] }
    }
    return nil
  }

  /// Whether a fault of one of these kinds began between two times.
  package func began(
    _ isMeant: (ChaosKind) -> Bool, from begin: Timestamp, to end: Timestamp
  ) -> Bool {
    faults.contains { id, fault in
      isMeant(fault.kind) && beganAt[id].map { begin <= $0 && $0 <= end } ?? false
    }
  }

  /// Whether what was said to a device in time may come late: its edge was frozen, or cut off, whatever
  /// else befell the device meanwhile, or a nats-server was that may have had it in hand.
  package func mayComeLate(to device: Int, at now: Timestamp) -> Bool {
    let waited = (devices[device] ?? []).contains { window in
      guard let kind = faults[window.fault]?.kind, window.touches(now, now) else { return false }
      return kind.keepsDevicesWaiting
    }
    return waited
      || faults.contains { id, fault in
        fault.kind.isOfNATS && fault.kind.delaysOldWords
          && beganAt[id].map { $0 <= now } ?? false
          && liftedAt[id].map { now <= $0 + Self.keptWaiting } ?? true
      }
  }

  /// An edge that is silent for so long is lost (`leaseTimeout`, 3 s), and so are its devices, which are waited
  /// for (`reattachGrace`, 5 s). A bit less, since nobody knows when it was heard last.
  private static let beyondReach: Span = .milliseconds(7_500)

  /// Whether nobody can reach a device that has its connection: its edge has been stopped or cut off for
  /// longer than the cluster waits, by one fault or by several in a row.
  package func isBeyondReach(_ device: Int, at moment: Timestamp) -> Bool {
    let windows = (devices[device] ?? []).filter {
      faults[$0.fault]?.kind.keepsDevicesWaiting == true
    }
    var since = Timestamp(microseconds: 0)
    var until = since
    for window in windows.sorted(by: { $0.from < $1.from }) where window.from <= moment {
      // Two windows with less time between them count as one: the device was not announced in between.
      if until.later(by: Self.keptWaiting) < window.from { since = window.from }
      until = max(until, window.until ?? .distantFuture)
    }
    return since + Self.beyondReach <= moment && moment <= until.later(by: Self.keptWaiting)
  }

  /// Whether edges send their devices away at this time, since no shard has answered for 8 s.
  package func mayTellDevicesToGo(at moment: Timestamp) -> Bool {
    faults.contains { id, fault in
      guard fault.kind.isOfNATS, let began = beganAt[id] else { return false }
      return began + Self.beyondReach <= moment
        && (liftedAt[id].map { moment <= $0 + .seconds(5) } ?? true)
    }
  }

  private static func first(
    _ windows: [Window]?, _ begin: Timestamp, _ end: Timestamp
  ) -> Int? {
    windows?.first { $0.touches(begin, end) }?.fault
  }

  /// Whether what a former owner of a shard said in time may come only now: its process was frozen,
  /// or its way to NATS cut, with words on the way.
  package func mayBeStale(shard: Int, at now: Timestamp) -> Bool {
    (shards[shard] ?? []).contains { window in
      guard let fault = faults[window.fault], window.from <= now else { return false }
      guard fault.kind.delaysOldWords else { return false }
      return liftedAt[fault.id].map { now <= $0 + .seconds(3) } ?? true
    }
  }

  /// Until when faults excuse that a device was not told of something which was due: from one that
  /// lasts at the due time, or begins within `slack` of it, to its end, and on with the next.
  package func excuse(
    shard: Int, device: Int, due: Timestamp, slack: Span
  ) -> Timestamp {
    let all = (shards[shard] ?? []) + (devices[device] ?? [])
    var until = due
    for window in all.sorted(by: { $0.from < $1.from }) where window.from <= until.later(by: slack)
    {
      // After a take-over the new owner tells everybody at once.
      let isSaidAgain = faults[window.fault]?.losesMessages ?? false
      let glow = isSaidAgain ? window.afterglow : Span(microseconds: 0)
      until = max(until, window.until.map { $0 + glow } ?? .distantFuture)
    }
    return until
  }
}

// MARK: For people

extension FaultTimeline {
  /// When the edges that had a device were in trouble, in the half minute before a moment. Seconds count from a moment.
  func story(device: Int, around moment: Timestamp) -> [String] {
    let before = moment + Span(microseconds: -30_000_000)
    return (devices[device] ?? []).compactMap { window in
      guard let fault = faults[window.fault], window.touches(before, moment) else { return nil }
      return "its edge: \(fault.kind.rawValue) \(fault.node), "
        + "\(Self.seconds(window.from, from: moment)) to \(Self.seconds(window.until, from: moment)) s"
    }
  }

  private static func seconds(_ at: Timestamp?, from moment: Timestamp) -> String {
    guard let at else { return "…" }
    let tenths = (at - moment).microseconds / 100_000
    return "\(tenths < 0 ? "-" : "+")\(abs(tenths) / 10).\(abs(tenths) % 10)"
  }

  /// What befell the cluster, and a shard by it, from half a minute before to ten seconds behind a
  /// moment. Seconds count from that.
  package func story(shard: Int, around moment: Timestamp) -> [String] {
    func seconds(_ at: Timestamp?) -> String { Self.seconds(at, from: moment) }
    let before = moment + Span(microseconds: -30_000_000)
    return faults.keys.sorted().compactMap { id in
      guard let fault = faults[id], let began = beganAt[id], began <= moment + .seconds(10),
        liftedAt[id].map({ before <= $0 }) ?? true
      else { return nil }
      var line =
        "\(fault.kind.rawValue) \(fault.node), \(seconds(began)) to \(seconds(liftedAt[id])) s"
      if let window = shards[shard]?.first(where: { $0.fault == id }) {
        line += "; shard \(shard) was back at \(seconds(window.until)) s"
      }
      return line
    }
  }
}

extension Timestamp {
  /// Later, where there is a later: the far future stays.
  func later(by span: Span) -> Timestamp { self == .distantFuture ? self : self + span }
}
