internal import CallCore

/// Finds out when something is wrong with the cluster, for the rules of time.
final class Unrest {
  private let world: SimWorld
  private let nats: SimNATS
  private let coordinators: [SimCoordinator]
  private var lastNodes: [Int?] = []
  private var lastLook: Timestamp

  init(_ world: SimWorld, _ nats: SimNATS, _ coordinators: [SimCoordinator]) {
    self.world = world
    self.nats = nats
    self.coordinators = coordinators
    lastLook = world.now
  }

  /// Notes whether anything was wrong since it looked the last time.
  func look(_ calendar: inout FaultCalendar) {
    let nodes = coordinators.map { $0.node?.number }
    let wrong =
      nodes != lastNodes || nats.isDown || !nats.faults.isNone
      || coordinators.contains { $0.isFrozen || $0.isLeaving }
      || !coordinators.contains { $0.isRunning }
    if wrong { calendar.add(from: lastLook, until: world.now) }
    lastNodes = nodes
    lastLook = world.now
  }
}

extension SimNetworkFaults {
  var isNone: Bool {
    lose == 0 && duplicate == 0 && delay == 0 && reorder == 0 && writeLost == 0
      && writeAnswerLost == 0 && writeLate == 0 && writeFails == 0 && writeRefused == 0
      && appendRaces == 0 && putRaces == 0 && readLost == 0 && readStale == 0
      && jobLost == 0 && settlementLost == 0
  }
}
