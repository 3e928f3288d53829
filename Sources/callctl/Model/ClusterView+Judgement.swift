internal import CallTelemetry

extension ClusterView {
  /// Collects problems and notes.
  /// - Parameter wallSeconds: since 1970.
  mutating func judge(
    _ now: [NodeStatus], before: [Identity: NodeStatus], wallSeconds: Int64
  ) {
    judgeNodes(now)
    for status in now { judgeCertificate(status, wallSeconds: wallSeconds) }
    judgeHooks(now)
    judgeShards()
    for status in now { judgeBus(status, before[Identity(status)]) }
    for status in now { judgeJournal(status, before[Identity(status)]) }
    judgePushes(now, before: before)
  }

  private mutating func judgeNodes(_ now: [NodeStatus]) {
    if !now.contains(where: { $0.edge != nil && $0.isServing }) {
      problems.append("No edge serves: devices cannot connect. Start one with: callnode edge")
    }
    if !now.contains(where: { $0.coordinator != nil }) {
      problems.append(
        "No coordinator answers: no call can be placed. Start one with: callnode coordinator")
    }
    let counts = Set(now.map(\.shardCount))
    if counts.count > 1 {
      let shown = counts.sorted().map(String.init).joined(separator: ", ")
      problems.append(
        "Nodes disagree on the number of shards (\(shown)): "
          + "users are looked for in the wrong places. Stop those that are wrong; callnode config "
          + "shows where the number comes from.")
    }
    let names = Dictionary(grouping: now, by: \.node)
    for (name, same) in names.sorted(by: { $0.key < $1.key }) where same.count > 1 {
      problems.append(
        "\(same.count) nodes call themselves \(name). Give each a --node-id of its own.")
    }
    let versions = Set(now.map(\.version))
    if versions.count > 1 {
      notes.append("Versions differ: \(versions.sorted().joined(separator: ", ")).")
    }
    let replicas = now.compactMap { $0.coordinator?.journalReplicas }.max() ?? 1
    if let warning = StoreVersion.warning(now.map(\.bus.serverVersion), replicas: replicas) {
      notes.append(warning)
    }
    let servers = now.map { (version: $0.bus.serverVersion, address: $0.bus.server) }
    if let advisory = StoreVersion.advisory(servers) { notes.append(advisory) }
    for status in now where !status.isServing {
      notes.append("\(status.node) is \(ShownState.of(status)).")
    }
  }

  /// A certificate is a problem this long before it expires: operators notice a failed renewal within that time.
  private static let certificateWarning: Int64 = 14 * 86_400

  private mutating func judgeCertificate(_ status: NodeStatus, wallSeconds: Int64) {
    guard let expires = status.edge?.certificateExpires else { return }
    let left = expires - wallSeconds
    guard left <= Self.certificateWarning else { return }
    let remedy =
      "Renew the files that tlsCertificate and tlsKey of the edge name; it reads them by itself."
    if left <= 0 {
      problems.append("The certificate of \(status.node) has expired: devices refuse it. \(remedy)")
    } else {
      let days = left / 86_400
      let when = days == 0 ? "in less than a day" : "in \(days) \(days == 1 ? "day" : "days")"
      problems.append("The certificate of \(status.node) expires \(when). \(remedy)")
    }
  }

  private mutating func judgeHooks(_ now: [NodeStatus]) {
    let edges = now.reduce(into: [String: [String]]()) { edges, status in
      for app in status.edge?.hooksAway ?? [] { edges[app, default: []].append(status.node) }
    }
    for (app, nodes) in edges.sorted(by: { $0.key < $1.key }) {
      problems.append(
        "The hook of app \(app) does not answer \(nodes.sorted().joined(separator: ", ")): its calls "
          + "go as whenAway says. The app's server, or the way to it, is down or too slow.")
    }
  }

  private mutating func judgeShards() {
    if !unowned.isEmpty, nodes.contains(where: { $0.status.coordinator != nil }) {
      problems.append(
        "\(Self.shards(unowned)) without an owner: calls to their users have to wait. Coordinators "
          + "take them over within seconds; if this stays, read their logs.")
    }
    let waiting = recovering.filter { owners[$0].isEmpty && stopped[$0] == nil }.sorted()
    if !waiting.isEmpty {
      problems.append(
        "\(Self.shards(waiting)) being read back by a new owner. If this stays, read its log.")
    }
    for (shard, what) in stopped.sorted(by: { $0.key < $1.key })
    where owners.indices.contains(shard) && owners[shard].isEmpty {
      let record = what.sequence.map { ", record \($0)" } ?? ""
      problems.append(
        "Shard \(shard) is stopped: its \(what.what)\(record) cannot be read (\(what.reason)). Its "
          + "users cannot be called. \(what.remedy)")
    }
    if !contested.isEmpty {
      let owners = Set(contested.flatMap { self.owners[$0] }).sorted().joined(separator: ", ")
      problems.append(
        "\(Self.shards(contested)) with two owners. The journal lets only one of them speak; if "
          + "this stays, stop one of \(owners).")
    }
  }

  private mutating func judgeBus(_ now: NodeStatus, _ before: NodeStatus?) {
    if !now.bus.connected {
      problems.append("\(now.node) has lost NATS. Is the server at \(now.bus.server) well?")
    }
    guard let before else { return }
    problem(ofGrowth: now.bus.dropped, before.bus.dropped) {
      "\(now.node) dropped \($0) messages just now: its queue to or from NATS is full. "
        + "Look at its CPU, and at NATS's."
    }
    problem(ofGrowth: now.edge?.commandsTimedOutTotal, before.edge?.commandsTimedOutTotal) {
      "\($0) commands of devices at \(now.node) got no answer just now: a shard has no "
        + "owner, or its coordinator or NATS is too slow."
    }
  }

  private mutating func judgeJournal(_ now: NodeStatus, _ before: NodeStatus?) {
    guard let coordinator = now.coordinator, let past = before?.coordinator else { return }
    problem(ofGrowth: coordinator.appendsRefusedTotal, past.appendsRefusedTotal) {
      "The journal refused \($0) appends of \(now.node) just now: another coordinator "
        + "has taken its shards. Once after a pause is harmless; again and again means that two "
        + "disagree about who lives."
    }
    problem(ofGrowth: coordinator.appendsUnknownTotal, past.appendsUnknownTotal) {
      "\($0) appends of \(now.node) got no answer in time just now: JetStream is slow "
        + "or has no leader."
    }
  }

  /// Adds a problem where a number grew between two samples.
  private mutating func problem(
    ofGrowth now: UInt64?, _ before: UInt64?, _ text: (Int) -> String
  ) {
    let growth = Self.grown(now, before)
    if growth > 0 { problems.append(text(Figures.whole(growth))) }
  }

  static func shards(_ numbers: [Int]) -> String {
    "\(numbers.count == 1 ? "Shard" : "Shards") \(ranges(numbers)) \(numbers.count == 1 ? "is" : "are")"
  }

  /// `3, 7–9`; at most eight ranges, then how many more.
  package static func ranges(_ numbers: [Int]) -> String {
    var ranges: [ClosedRange<Int>] = []
    for number in numbers {
      if let last = ranges.last, last.upperBound == number - 1 {
        ranges[ranges.count - 1] = last.lowerBound...number
      } else {
        ranges.append(number...number)
      }
    }
    var parts = ranges.prefix(8).map {
      $0.count == 1 ? "\($0.lowerBound)" : "\($0.lowerBound)–\($0.upperBound)"
    }
    let more = ranges.dropFirst(8).reduce(0) { $0 + $1.count }
    if more > 0 { parts.append("and \(more) more") }
    return parts.joined(separator: ", ")
  }
}
