internal import CallBus
internal import CallCore

/// The writes of one node that wait for their answers.
final class SimWrites: @unchecked Sendable {
  typealias Completion = @Sendable (AppendResult) -> Void

  /// Writes of one node to one of these are taken in their order, also when one of them is late.
  enum Lane: Hashable {
    case journal(Int)
    case bucket(String)
    case queue(String)
  }

  private struct Pending {
    var completion: Completion
    var timer: SimToken
  }

  private unowned let link: SimLink
  private var pending: [UInt64: Pending] = [:]
  private var lateUntil: [Lane: Timestamp] = [:]
  private var random: SimRandom

  private var nats: SimNATS { link.nats }
  private var world: SimWorld { link.node.world }

  init(_ link: SimLink) {
    self.link = link
    random = link.node.world.fork("writes.\(link.number)")
    link.onBreak.append { [unowned self] in endAll("the connection broke") }
  }

  /// - Parameters:
  ///   - mayBeRefused: whether the write expects anything.
  ///   - apply: what the server does, once.
  ///   - unheard: called behind `apply` where the writer will not hear what became of it.
  func write(
    _ lane: Lane, timeout: Span, mayBeRefused: Bool, apply: @escaping () -> AppendResult,
    unheard: @escaping () -> Void = {}, completion: @escaping Completion
  ) {
    let token = nats.newID()
    guard !link.isClosed else {
      // Never inside the call that caused it.
      world.schedule(after: .milliseconds(0), "closed") { completion(.unknown("closed")) }
      return
    }
    let timer = world.schedule(after: timeout, "write timeout") { [unowned self] in
      link.node.fire { [unowned self] in end(token, .unknown("no acknowledgement in time")) }
    }
    pending[token] = Pending(completion: completion, timer: timer)
    let sent = link.send(
      isWanted: { [unowned self] in pending[token] != nil },
      { [self] in serve(lane, token, mayBeRefused, apply, unheard) })
    if !sent {
      world.schedule(after: .milliseconds(0), "outbox full") { [weak self] in
        self?.end(token, .unknown("the outbox is full"))
      }
    }
  }

  // MARK: At the server

  private func serve(
    _ lane: Lane, _ token: UInt64, _ mayBeRefused: Bool, _ apply: @escaping () -> AppendResult,
    _ unheard: @escaping () -> Void
  ) {
    let faults = nats.faults
    if random.chance(faults.writeLost) { return world.count("fault.write lost") }
    if random.chance(faults.writeFails) {
      world.count("fault.write failed")
      return answer(token, .unknown("JetStream is not ready"))
    }
    if mayBeRefused, random.chance(faults.writeRefused) {
      world.count("fault.write refused")
      return answer(token, .refused)
    }
    if random.chance(faults.writeLate) {
      world.count("fault.write late")
      let time = world.now + random.span(.milliseconds(20), faults.writeLateLongest)
      lateUntil[lane] = max(lateUntil[lane] ?? time, time)
    }
    guard let late = lateUntil[lane], late > world.now else { return take(token, apply, unheard) }
    world.schedule(at: late, "late write") { [self] in take(token, apply, unheard) }
  }

  private func take(_ token: UInt64, _ apply: () -> AppendResult, _ unheard: () -> Void) {
    let result = apply()
    if pending[token] == nil { unheard() }
    if random.chance(nats.faults.writeAnswerLost) {
      unheard()
      return world.count("fault.write answer lost")
    }
    answer(token, result)
  }

  private func answer(_ token: UInt64, _ result: AppendResult) {
    link.reply { [self] in end(token, result) }
  }

  // MARK: At the node

  private func end(_ token: UInt64, _ result: AppendResult) {
    guard let write = pending.removeValue(forKey: token) else { return }
    world.cancel(write.timer)
    write.completion(result)
  }

  private func endAll(_ reason: String) {
    for token in pending.keys.sorted() { end(token, .unknown(reason)) }
  }
}
