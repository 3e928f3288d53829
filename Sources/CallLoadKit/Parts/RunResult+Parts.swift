import CallCore

// A part's result travels to the process that adds them up.
extension PushPurpose: Codable {}

extension RunResult {
  /// Adds the result of other devices under the same load.
  package mutating func add(_ part: RunResult) {
    devicesExpected += part.devicesExpected
    devicesConnected += part.devicesConnected
    devicesRegistered += part.devicesRegistered
    registrationsOfUnknownFate += part.registrationsOfUnknownFate
    callsExpected += part.callsExpected
    callsPlaced += part.callsPlaced
    callsCompleted += part.callsCompleted
    callsByPart.add(part.callsByPart)
    failures.add(part.failures)
    failureExamples.merge(part.failureExamples) { first, _ in first }
    correctness.add(part.correctness)
    examples.merge(part.examples) { Array(($0 + $1).prefix(CallChecker.examplesMax)) }
    latency.add(part.latency)
    series = Self.sum(series, part.series) { $0.add($1) }
    rings += part.rings
    nearerMoves += part.nearerMoves
    loadSeconds = max(loadSeconds, part.loadSeconds)
    rampSeconds = max(rampSeconds, part.rampSeconds)
    interrupted = interrupted || part.interrupted
    chaos = Self.sum(chaos, part.chaos) { $0.add($1) }
    pushes = Self.sum(pushes, part.pushes) { $0.add($1) }
    webhooksDue += part.webhooksDue
    webhooks = webhooks ?? part.webhooks
    history = Self.sum(history, part.history) { $0.add($1) }
    hook = hook ?? part.hook
    ongoing = Self.sum(ongoing, part.ongoing) { $0.add($1) }
  }

  private static func sum<Value>(
    _ one: Value?, _ other: Value?, _ add: (inout Value, Value) -> Void
  ) -> Value? {
    guard var sum = one, let other else { return one ?? other }
    add(&sum, other)
    return sum
  }
}

extension ChaosResult {
  /// Adds what the same faults did to other devices, and how long other probes waited for the same shards.
  mutating func add(_ part: ChaosResult) {
    injected.merge(part.injected, uniquingKeysWith: max)
    for (kind, fates) in part.placedDuring { placedDuring[kind, default: [:]].add(fates) }
    takeOvers = Self.merged(takeOvers, part.takeOvers, by: \.fault) { $0.add($1) }
    courses = Self.merged(courses, part.courses, by: \.fault) { $0.add($1) }
    slow = Array((slow + part.slow).prefix(Self.slowMax))
    shardSilence.add(part.shardSilence)
    handOver.add(part.handOver)
    commandWait.add(part.commandWait)
    reconnect.add(part.reconnect)
    commandsRetried += part.commandsRetried
    reconnects += part.reconnects
    changed.add(part.changed)
  }

  /// Both lists, of which elements with the same number are one.
  private static func merged<Value>(
    _ one: [Value], _ other: [Value], by number: (Value) -> Int,
    _ add: (inout Value, Value) -> Void
  ) -> [Value] {
    var all = one
    for value in other {
      if let place = one.firstIndex(where: { number($0) == number(value) }) {
        add(&all[place], value)
      } else {
        all.append(value)
      }
    }
    return all
  }
}

extension ChaosResult.TakeOver {
  fileprivate mutating func add(_ other: Self) {
    atSeconds = min(atSeconds, other.atSeconds)
    shards = max(shards, other.shards)
    let both = [microseconds, other.microseconds]
    microseconds = both.contains(nil) ? nil : both.compactMap(\.self).max()
  }
}

extension ChaosResult.Course {
  fileprivate mutating func add(_ other: Self) {
    atSeconds = min(atSeconds, other.atSeconds)
    liftedSeconds = [liftedSeconds, other.liftedSeconds].compactMap(\.self).max()
    disconnected += other.disconnected
    neverBack += other.neverBack
    allBackMicroseconds = max(allBackMicroseconds, other.allBackMicroseconds)
  }
}

extension HistoryResult {
  fileprivate mutating func add(_ part: HistoryResult) {
    users += part.users
    entries += part.entries
    callsOfBothSides += part.callsOfBothSides
  }
}

extension OngoingResult {
  fileprivate mutating func add(_ part: OngoingResult) {
    states += part.states
    calls += part.calls
  }
}

extension PushResult {
  fileprivate mutating func add(_ part: PushResult) {
    sleeping += part.sleeping
    pushes.add(part.pushes)
    late.add(part.late)
    answers.add(part.answers)
    toProvider.add(part.toProvider)
    toAttached.add(part.toAttached)
    cleanUpsSent.add(part.cleanUpsSent)
    cleanUpsRead.add(part.cleanUpsRead)
    expired += part.expired
    woken += part.woken
    neverWoken += part.neverWoken
    wokenLate += part.wokenLate
    actedByPush += part.actedByPush
    goodTokensRefused += part.goodTokensRefused
    unreadable += part.unreadable
  }
}

extension Dictionary where Value == Int {
  fileprivate mutating func add(_ other: Self) { merge(other, uniquingKeysWith: +) }
}

extension Dictionary where Value == LatencyHistogram {
  mutating func add(_ other: Self) {
    merge(other) { one, other in
      var sum = one
      sum.add(other)
      return sum
    }
  }
}
