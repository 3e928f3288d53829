internal import CallBus
internal import CallCore
internal import CallTelemetry
internal import CallWire
internal import Logging
internal import Synchronization

/// What an edge is asked to do: by an operator, by the end of the process, or by `ReachWatch`.
enum EdgeOrder: Sendable {
  /// Send the devices elsewhere, and go on without any. `seconds` replaces the configured time.
  case drain(seconds: Int?)
  /// Take devices again.
  case resume
  /// Drain, then end.
  case shutDown
  /// The cluster does not answer any more, or answers again.
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

/// The state of an edge: set by the task of `handleOrders`, and read by others.
final class EdgeStateBox: Sendable {
  private let state = Mutex(EdgePhase.starting)
  var value: EdgePhase { state.withLock { $0 } }
  func set(_ new: EdgePhase) { state.withLock { $0 = new } }
}

extension EdgeNode {
  /// Carries out orders in turn, until the node is to end and has no devices left.
  ///
  /// While it drains, the port stays open for health checks; upgrades, attaches and new calls are refused.
  func handleOrders(_ server: EdgeServer, _ state: EdgeStateBox) async {
    var isEnding = false
    while !Task.isCancelled {
      let pause: ContinuousClock.Instant? =
        state.value == .draining ? .now + .milliseconds(50) : nil
      for order in await orders.next(until: pause) {
        switch order {
        case .drain(let seconds):
          if state.value == .serving || state.value == .cutOff {
            await drain(server, state, seconds: seconds)
          }
        case .resume: if !isEnding { await resume(server, state) }
        case .cutOff(true): if state.value == .serving { await cutOff(server, state) }
        case .cutOff(false): if state.value == .cutOff { await resume(server, state) }
        case .shutDown:
          isEnding = true
          // A drain that is under way begins anew: an operator may have given it an hour.
          if state.value != .drained { await drain(server, state, seconds: nil) }
        }
      }
      if state.value == .draining, await isEmpty(server) {
        state.set(.drained)
        shared.logger.notice("edge is drained")
      }
      if isEnding, state.value == .drained { return }
    }
  }

  private func drain(_ server: EdgeServer, _ state: EdgeStateBox, seconds: Int?) async {
    state.set(.draining)
    beat(EdgePhase.draining.heartbeat)
    let seconds = max(0, min(seconds ?? configuration.drainSeconds, 3600))
    var count = 0
    for loop in server.loops {
      count += (try? await loop.run { $0.beginDrain(over: .seconds(Int64(seconds))) }) ?? 0
    }
    shared.logger.notice("edge drains", metadata: .keys([.count: "\(count)"]))
  }

  /// Notifies the devices, which would not notice as long as their sockets work. Those that find no other edge
  /// stay, since no session is closed.
  private func cutOff(_ server: EdgeServer, _ state: EdgeStateBox) async {
    state.set(.cutOff)
    shared.metrics.cutOffs.increment()
    var count = 0
    for loop in server.loops {
      let told = try? await loop.run {
        $0.beginDrain(over: EdgeLoop.cutOffSpread, closes: false)
      }
      count += told ?? 0
    }
    shared.logger.error(
      "The cluster does not answer: devices are told to try other edges.",
      metadata: .keys([.count: "\(count)"]))
  }

  private func resume(_ server: EdgeServer, _ state: EdgeStateBox) async {
    guard state.value != .serving, state.value != .starting else { return }
    for loop in server.loops { try? await loop.run { $0.endDrain() } }
    state.set(.serving)
    beat(EdgePhase.serving.heartbeat)
    shared.logger.notice("edge serves again")
  }

  private func isEmpty(_ server: EdgeServer) async -> Bool {
    for loop in server.loops where (try? await loop.run { $0.sessionCount }) ?? 0 > 0 {
      return false
    }
    return true
  }

  /// Waits until peers have answered their close frames and requests have their replies; two seconds at most.
  func waitForPeers(_ server: EdgeServer) async {
    for _ in 0..<100 {
      var open = 0
      for loop in server.loops { open += (try? await loop.run { $0.openCount }) ?? 0 }
      if open == 0 { return }
      try? await Task.sleep(for: .milliseconds(20))
    }
  }
}
