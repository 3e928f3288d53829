internal import CallCore
internal import NIOCore
internal import Synchronization

extension APNsSimulatorConnection {
  /// Judges a request and applies the faults of the script.
  func handle(_ request: APNsRequest, _ stream: UInt32) {
    // An earlier request may have ended the connection.
    guard transport.isOpen(stream), !transport.isDead else { return }
    guard spend(stream) else {
      transport.reset(stream, code: HTTP2.ErrorCode.refusedStream.rawValue)
      return simulator.unanswered()
    }
    let now = simulator.options.clock()
    let decision = simulator.core.withLock {
      $0.judge(request, connection: number, identity: &identity, now: now)
    }
    var pending = Pending(stream: stream, verdict: decision.verdict)
    let id = pending.verdict.id ?? mintUUID()
    pending.verdict.id = id
    pending.verdict.push?.id = id
    var delay: Duration?
    for fault in decision.faults {
      switch fault {
      case .answer(let reason, let timestamp):
        pending.verdict.response = APNsResponse(reason, timestamp: timestamp)
        pending.verdict.push = nil
      case .delay(let span): delay = span
      case .shape(let shape): pending.shape.formUnion(shape)
      case .flipSettings(let times): transport.flipSettings(times)
      case .limitStreams(let limit):
        streamsMax = limit
        transport.announce(limit: limit)
      case .gather(let count, let within, let then):
        return hold(pending, count: count, within: within, then)
      case .noAnswer: return simulator.unanswered()
      case .deliverWithoutAnswer:
        simulator.deliver(pending.verdict.push)
        return simulator.unanswered()
      case .refuse:
        transport.reset(stream, code: HTTP2.ErrorCode.refusedStream.rawValue)
        return simulator.unanswered()
      case .reset(let code, let times):
        transport.reset(stream, code: code, times: times)
        return simulator.unanswered()
      case .cut:
        simulator.unanswered()
        return reset()
      case .goAway(let goAway):
        // GOAWAY precedes the answer.
        say(goAway, at: stream)
      }
    }
    guard let delay else { return answer(pending) }
    // The device gets the push without the delay.
    simulator.deliver(pending.verdict.push)
    pending.verdict.push = nil
    later(delay) { [pending] connection in connection.answer(pending) }
  }

  /// R25 to R27.
  private func say(_ goAway: APNsFault.GoAway, at stream: UInt32) {
    if let warning = goAway.warning {
      transport.goAway(last: 0x7FFF_FFFF, code: goAway.code, reason: goAway.reason, closes: false)
      var second = goAway
      second.warning = nil
      later(warning) { [second] connection in
        connection.say(second, at: connection.transport.lastStream)
      }
      return
    }
    let last: UInt32 =
      switch goAway.last {
      case .this: stream
      case .before: stream >= 2 ? stream - 2 : 0
      case .zero: 0
      }
    transport.goAway(
      last: last, code: goAway.code, reason: goAway.reason,
      closes: goAway.closes && !goAway.abruptly)
    if goAway.abruptly {
      flush()
      reset()
    }
  }

  /// Waits for more requests (R25, R30).
  private func hold(_ pending: Pending, count: Int, within: Duration, _ then: APNsFault.Release) {
    held.append(pending)
    if held.count >= count {
      release?.cancel()
      release = nil
      return letGo(then)
    }
    guard release == nil else { return }
    release = later(within) { connection in
      connection.release = nil
      connection.letGo(then)
    }
  }

  private func letGo(_ then: APNsFault.Release) {
    let held = self.held
    self.held = []
    switch then {
    case .inOrder: for pending in held { answer(pending) }
    case .reversed: for pending in held.reversed() { answer(pending) }
    case .goAway(let reason, let answering):
      let answered = held.sorted { $0.stream < $1.stream }.prefix(answering)
      transport.goAway(last: answered.last?.stream ?? 0, reason: reason, closes: true)
      for pending in answered { answer(pending) }
      simulator.unanswered(held.count - answered.count)
    case .cut(let answering):
      for pending in held.prefix(answering) { answer(pending) }
      for pending in held.dropFirst(answering) { simulator.deliver(pending.verdict.push) }
      simulator.unanswered(max(0, held.count - answering))
      flush()
      reset()
    }
  }

  @discardableResult
  private func later(
    _ span: Duration, _ act: @escaping (APNsSimulatorConnection) -> Void
  ) -> Scheduled<Void>? {
    context?.eventLoop.assumeIsolated().scheduleTask(in: TimeAmount(span)) { [weak self] in
      guard let self, self.context != nil else { return }
      act(self)
      self.flush()
    }
  }
}
