import CallClient
import CallCore

/// The faults of a stage: reports to the judge what they excuse, and has their shards probed. On the fleet's loop.
final class FaultWatch {
  private unowned let stage: Stage
  private unowned let fleet: DeviceFleet
  private(set) var result = ChaosResult()
  /// Faults that are not lifted, or whose shards do not all answer yet.
  private var open: [Int: Open] = [:]
  /// The kinds of faults during which a call was placed.
  private var placedDuring: [CallID: Set<ChaosKind>] = [:]

  private struct Open {
    let fault: ChaosFault
    let beganAt: Timestamp
    /// The devices that were connected to its edges and have not lost their sessions.
    var carried: Set<Int>
    /// Devices that lost them and have no new ones.
    var away: Set<Int> = []
    var course: ChaosResult.Course
    var liftedAt: Timestamp?
    /// `calmMicroseconds` of that moment.
    var calmWhenLifted: Int64 = 0
    var isAsking = false
    var isTakenOver = false

    var isLifted: Bool { liftedAt != nil }
    var isSettled: Bool { isLifted && !isAsking && away.isEmpty }

    /// Whether it keeps devices from coming back: no edge is well, or none reaches the shards.
    var isInTheWay: Bool {
      (!fault.edges.isEmpty || fault.kind.isOfNATS) && (!isLifted || isAsking)
    }

    mutating func lose(_ device: Int) {
      guard carried.remove(device) != nil else { return }
      away.insert(device)
      course.disconnected += 1
    }

    mutating func loseAll() {
      away = carried
      course.disconnected = carried.count
      carried = []
    }

    mutating func comeBack(_ device: Int, at now: Timestamp) {
      guard away.remove(device) != nil else { return }
      let span = UInt64(max(1, (now - beganAt).microseconds))
      course.allBackMicroseconds = max(course.allBackMicroseconds, span)
    }
  }

  /// How long there was nothing in the way of devices, in all: the time that they had to come back.
  private var calmMicroseconds: Int64 = 0
  private var tickedAt: Timestamp?

  /// How stale a node's own list of its shards may be.
  private static let statusAge: Span = .seconds(1)

  init(_ stage: Stage, _ fleet: DeviceFleet) {
    self.stage = stage
    self.fleet = fleet
  }

  /// Whether a fault has not settled; the stage waits for it.
  var isSettling: Bool { !open.isEmpty }

  private var now: Timestamp { fleet.loop.now }
  private var unlifted: some Sequence<Open> { open.values.lazy.filter { !$0.isLifted } }

  // MARK: The course of a fault

  func begins(_ fault: ChaosFault) {
    let carried = fault.edges.flatMap { fleet.devices(at: $0) }
    let course = ChaosResult.Course(
      fault: fault.id, kind: fault.kind, node: fault.node,
      atSeconds: (now - stage.startedAt).seconds)
    // One that sleeps need not come back.
    var new = Open(
      fault: fault, beganAt: now, carried: Set(carried.filter { !fleet.devices[$0].sleeps }),
      course: course)
    if fault.kind.means == .kill { new.loseAll() }
    open[fault.id] = new
    result.injected[fault.kind, default: 0] += 1
    stage.checker.timeline.begin(fault, carried: carried, at: now)
  }

  func happened(_ fault: ChaosFault) {
    guard let since = open[fault.id]?.beganAt, let probes = fleet.probes, !fault.shards.isEmpty
    else { return }
    // In an outage of NATS a single edge may lose its connection, so each must be well again.
    let disturbed = unlifted.flatMap(\.fault.edges)
    let edges = Set(fleet.options.edges.indices).subtracting(disturbed)
    open[fault.id]?.isAsking = true
    probes.watch(fault, since: since, through: fault.kind.isOfNATS ? edges : [])
  }

  func widened(_ fault: ChaosFault, by shards: [Int]) {
    guard let found = open[fault.id], let probes = fleet.probes else { return }
    let new = shards.filter { !probes.isAsking($0, for: fault.id) }
    guard !new.isEmpty else { return }
    // The measured time begins now, when the change is known; the excused one when it may have happened.
    if found.isAsking {
      probes.widen(fault.id, by: new, since: now)
    } else {
      var rest = fault
      rest.shards = new
      open[fault.id]?.isAsking = true
      probes.watch(rest, since: now, through: [])
    }
    let since = max(found.beganAt, now - Self.statusAge)
    stage.checker.timeline.widen(fault, by: new, since: since)
  }

  func lifted(_ fault: ChaosFault) {
    let away = open[fault.id]?.away ?? []
    stage.checker.timeline.lifted(fault: fault.id, at: now) { [fleet] in
      // A device may not have noticed yet that its edge was killed.
      !away.contains($0) && (fleet.devices[$0].isAttached || fleet.devices[$0].driver.isSuspended)
    }
    if fault.kind.isPlanned { fleet.probes?.finishPlanned(fault.id) }
    open[fault.id]?.liftedAt = now
    open[fault.id]?.calmWhenLifted = calmMicroseconds
    open[fault.id]?.course.liftedSeconds = (now - stage.startedAt).seconds
    closeIfDone(fault)
  }

  func found(_ finding: ShardProbes.Finding, of fault: ChaosFault) {
    switch finding {
    case .answered(let shard, let span):
      stage.checker.timeline.answered(shard: shard, fault: fault.id, at: now)
      return result.shardSilence[fault.kind, default: LatencyHistogram()].record(span)
    case .complete(let longest): tookOver(fault, UInt64(max(1, longest.microseconds)))
    case .slow(let accounts): return noteSlow(fault, accounts)
    case .gaveUp(let accounts):
      noteSlow(fault, accounts)
      tookOver(fault, nil)
    case .paused(let pauses):
      for pause in pauses.values { result.handOver.record(pause) }
    }
    stage.checker.timeline.end(shardsOf: fault.id, at: now)
    open[fault.id]?.isAsking = false
    closeIfDone(fault)
  }

  /// Notes the first account only: the others are mostly alike.
  private func noteSlow(_ fault: ChaosFault, _ accounts: [String]) {
    guard let began = open[fault.id]?.beganAt, let first = accounts.first else { return }
    let at = Units.fixed((began - stage.startedAt).seconds, 1)
    let age = Units.fixed((now - began).seconds, 0)
    let rest = accounts.count > 1 ? "; \(accounts.count - 1) more" : ""
    result.slow.append(
      "\(fault.kind.rawValue) \(fault.node) at \(at) s, after \(age) s: \(first)\(rest)")
  }

  private func tookOver(_ fault: ChaosFault, _ microseconds: UInt64?) {
    guard let found = open[fault.id] else { return }
    // Shards that came to the node later are no second take-over.
    guard !found.isTakenOver || microseconds == nil else { return }
    open[fault.id]?.isTakenOver = true
    result.takeOvers.append(
      ChaosResult.TakeOver(
        fault: fault.id, kind: fault.kind, node: fault.node,
        atSeconds: (found.beganAt - stage.startedAt).seconds,
        shards: fault.shards.count, microseconds: microseconds))
  }

  private func closeIfDone(_ fault: ChaosFault) {
    if open[fault.id]?.isSettled == true { close(fault.id) }
  }

  private func close(_ fault: Int) {
    if let course = open.removeValue(forKey: fault)?.course { result.courses.append(course) }
  }

  /// The courses of all faults, in the order in which they began, also of those that have not settled.
  var courses: [ChaosResult.Course] {
    (result.courses + open.values.map(\.course)).sorted { $0.fault < $1.fault }
  }

  // MARK: Calls

  func placed(_ call: CallID) {
    let kinds = Set(unlifted.map(\.fault.kind))
    if !kinds.isEmpty { placedDuring[call] = kinds }
  }

  func judged(_ call: CallID, _ fate: ChaosResult.Fate) {
    for kind in placedDuring.removeValue(forKey: call) ?? [] {
      result.placedDuring[kind, default: [:]][fate, default: 0] += 1
    }
  }

  /// A fault explains why a call ended otherwise than planned, or was not placed.
  func explains(_ change: String, by kind: ChaosKind) {
    result.changed["\(change) (\(kind.rawValue))", default: 0] += 1
  }

  // MARK: Devices

  /// Whether a fault that is known explains that a device's connection breaks now.
  func excuses(_ device: LoadDevice) -> Bool {
    let timeline = stage.checker.timeline
    guard !timeline.isEmpty else { return false }
    // A device that an edge sends away may have a new session before it loses the old one.
    if unlifted.contains(where: { !$0.fault.edges.isEmpty }) { return true }
    // Where all come back at once, sessions are replaced and sent away until all are attached.
    if open.values.contains(where: { $0.fault.kind.isOfAllEdges }) { return true }
    if timeline.mayTellDevicesToGo(at: now) { return true }
    return timeline.disturbed(.device(device.index), from: now, to: now) != nil
  }

  /// The device's connection broke.
  func lost(_ device: LoadDevice) {
    changeOpen { $0.lose(device.index) }
  }

  private func cameBack(_ device: LoadDevice) {
    changeOpen { [now] in $0.comeBack(device.index, at: now) }
  }

  /// In place: nothing else may refer to the sets of devices, which would be copied for each device.
  private func changeOpen(_ change: (inout Open) -> Void) {
    for id in Array(open.keys) {
      guard let index = open.index(forKey: id) else { continue }
      change(&open.values[index])
      if open.values[index].isSettled { close(id) }
    }
  }

  /// Notes when the processors were busy, and gives devices up that have no session long after a fault. Time in which other
  /// faults are in their way does not count.
  func tick(at now: Timestamp) {
    if let tickedAt, !open.values.contains(where: \.isInTheWay) {
      calmMicroseconds += (now - tickedAt).microseconds
    }
    tickedAt = now
    if let since = fleet.processorsBusySince(at: now) {
      stage.checker.timeline.processorsWereBusy(from: since, until: now)
      fleet.tap?.wereBusy(from: since, until: now)
    }
    let timeout = Span(seconds: fleet.options.settleSeconds).microseconds
    changeOpen { [calmMicroseconds] found in
      guard found.isLifted, found.calmWhenLifted + timeout < calmMicroseconds else { return }
      found.course.neverBack += found.away.count { !fleet.devices[$0].isAttached }
      found.away = []
    }
  }

  /// - Parameter lost: when it lost its last session, if it did.
  func attached(_ device: LoadDevice, lostAt lost: Timestamp?) {
    stage.checker.timeline.attached(device: device.index, through: device.edge, at: now)
    cameBack(device)
    guard let lost else { return }
    result.reconnects += 1
    result.reconnect.record(now - lost)
  }
}
