internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging

/// An order to an edge: by an operator, by the end of the process, or by `ReachWatch`.
enum EdgeOrder: Sendable {
  /// Send the devices elsewhere, and go on without any. `seconds` replaces the configured time.
  case drain(seconds: Int?)
  /// Take devices again.
  case resume
  /// Drain, then end.
  case shutDown
  /// The cluster has stopped answering, or answers again.
  case cutOff(Bool)
}

/// The state of an edge, as operators see it.
enum EdgePhase: String, Sendable {
  case starting, serving
  /// Sends its devices elsewhere.
  case draining
  /// Has no devices left, and takes none.
  case drained
  /// The cluster does not answer: takes no devices, and asks those that it has to try other edges.
  case cutOff

  /// The state in heartbeats. The cluster may find devices here as long as it is not `gone`.
  var heartbeat: NodeState {
    switch self {
    case .starting: .starting
    case .serving, .cutOff: .serving
    case .draining, .drained: .leaving
    }
  }
}

extension EdgeNode {
  /// Carries out orders in turn, until the node is to end and has no devices left.
  ///
  /// While it drains, the port stays open for health checks; upgrades, attaches and new calls are refused.
  func handleOrders(_ server: EdgeServer) async {
    var isEnding = false
    while !Task.isCancelled {
      let pause: ContinuousClock.Instant? = phase == .draining ? .now + .milliseconds(50) : nil
      for order in await orders.next(until: pause) {
        switch order {
        case .drain(let seconds):
          if phase == .serving || phase == .cutOff {
            await drain(server, seconds: seconds)
          }
        case .resume: if !isEnding { await resume(server) }
        case .cutOff(true): if phase == .serving { await cutOff(server) }
        case .cutOff(false): if phase == .cutOff { await resume(server) }
        case .shutDown:
          isEnding = true
          // A drain that is under way begins anew: an operator may have given it an hour.
          if phase != .drained { await drain(server, seconds: nil) }
        }
      }
      if phase == .draining, await server.loops.sum({ $0.sessionCount }) == 0 {
        phase = .drained
        shared.logger.notice("edge is drained")
      }
      if isEnding, phase == .drained { return }
    }
  }

  private func drain(_ server: EdgeServer, seconds: Int?) async {
    phase = .draining
    beat(phase.heartbeat)
    let seconds = max(0, min(seconds ?? configuration.drainSeconds, 3600))
    let count = await server.loops.sum { $0.beginDrain(over: .seconds(Int64(seconds))) }
    shared.logger.notice("edge drains", metadata: .keys([.count: "\(count)"]))
  }

  /// Notifies the devices, which would not notice as long as their sockets work. Devices that find no other edge
  /// stay, since no session is closed.
  private func cutOff(_ server: EdgeServer) async {
    phase = .cutOff
    shared.metrics.cutOffs.increment()
    let count = await server.loops.sum {
      $0.beginDrain(over: EdgeLoop.cutOffSpread, closes: false)
    }
    shared.logger.error(
      "The cluster does not answer: devices are told to try other edges.",
      metadata: .keys([.count: "\(count)"]))
  }

  private func resume(_ server: EdgeServer) async {
    guard phase != .serving, phase != .starting else { return }
    for loop in server.loops { try? await loop.run { $0.endDrain() } }
    phase = .serving
    beat(phase.heartbeat)
    shared.logger.notice("edge serves again")
  }

  /// Waits until peers have answered their close frames and requests have their replies; two seconds at most.
  func waitForPeers(_ server: EdgeServer) async {
    for _ in 0..<100 {
      if await server.loops.sum({ $0.openCount }) == 0 { return }
      try? await Task.sleep(for: .milliseconds(20))
    }
  }
}
