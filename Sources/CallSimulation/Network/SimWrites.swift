internal import CallBus
internal import CallCore

/// One node's writes that wait for their replies.
final class SimWrites: SimActor, @unchecked Sendable {
  typealias Completion = @Sendable (AppendResult) -> Void

  /// A destination. One node's writes to it are stored in order, even if one of them is late.
  enum Lane: Hashable {
    case journal(Int)
    case bucket(String)
    case queue(String)
    case records
    case history
    case appStream(AppStreamKind)
  }

  private struct Pending {
    var completion: Completion
    var timer: SimEvent
    var fate: Fate
  }

  /// Whether the server stored a write, and whether its writer gave it up.
  private final class Fate {
    let unconfirmed: (_ sequence: UInt64) -> Void
    var sequence: UInt64? { didSet { report() } }
    var isGivenUp = false { didSet { report() } }

    init(_ unconfirmed: @escaping (_ sequence: UInt64) -> Void) { self.unconfirmed = unconfirmed }

    private func report() {
      if isGivenUp, let sequence { unconfirmed(sequence) }
    }
  }

  private unowned let link: SimLink
  private var pending: [UInt64: Pending] = [:]
  private var lateUntil: [Lane: Timestamp] = [:]
  private var random: SimRandom

  private var nats: SimNATS { link.nats }
  var world: SimWorld { link.node.world }

  init(_ link: SimLink) {
    self.link = link
    random = link.node.world.fork("writes.\(link.number)")
    link.onBreak.append { [unowned self] in endAll("the connection broke") }
  }

  /// - Parameters:
  ///   - mayBeRefused: whether the write is conditional.
  ///   - apply: performs the write at the server; called at most once.
  ///   - unconfirmed: called once, with the record's sequence, if the server stored a write that its
  ///     live writer gave up.
  func write(
    _ lane: Lane, timeout: Span, mayBeRefused: Bool, apply: @escaping () -> AppendResult,
    unconfirmed: @escaping (_ sequence: UInt64) -> Void = { _ in },
    completion: @escaping Completion
  ) {
    let token = nats.newID()
    guard !link.isClosed else {
      // Completions never run inside the call that caused them.
      world.schedule(after: .zero) { completion(.unknown("closed")) }
      return
    }
    let timer = world.schedule(after: timeout) { [unowned self] in
      link.node.fire { [unowned self] in end(token, .unknown("no acknowledgement in time")) }
    }
    let fate = Fate(unconfirmed)
    pending[token] = Pending(completion: completion, timer: timer, fate: fate)
    let sent = link.send(
      isWanted: { [unowned self] in pending[token] != nil },
      { [self] in serve(lane, token, mayBeRefused, apply, fate) })
    if !sent {
      later(.zero) { $0.end(token, .unknown("the outbox is full")) }
    }
  }

  // MARK: At the server

  private func serve(
    _ lane: Lane, _ token: UInt64, _ mayBeRefused: Bool, _ apply: @escaping () -> AppendResult,
    _ fate: Fate
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
    if random.chance(faults.writeLate) || isHeldBack(lane) {
      world.count("fault.write late")
      let time = world.now + random.span(.milliseconds(20), faults.writeLateLongest)
      lateUntil[lane] = max(lateUntil[lane] ?? time, time)
    }
    guard let late = lateUntil[lane], late > world.now else { return carryOut(token, apply, fate) }
    world.schedule(at: late) { [self] in carryOut(token, apply, fate) }
  }

  private func isHeldBack(_ lane: Lane) -> Bool {
    if case .bucket(let name) = lane { nats.tamper.holdsPutBack(name) } else { false }
  }

  private func carryOut(_ token: UInt64, _ apply: () -> AppendResult, _ fate: Fate) {
    let result = apply()
    if case .appended(let sequence) = result { fate.sequence = sequence }
    if random.chance(nats.faults.writeAnswerLost) { return world.count("fault.write answer lost") }
    answer(token, result)
  }

  private func answer(_ token: UInt64, _ result: AppendResult) {
    link.reply { [self] in end(token, result) }
  }

  // MARK: At the node

  private func end(_ token: UInt64, _ result: AppendResult) {
    guard let write = pending.removeValue(forKey: token) else { return }
    write.timer.cancel()
    // A dead process gives nothing up.
    if case .unknown = result, link.node.state != .dead { write.fate.isGivenUp = true }
    write.completion(result)
  }

  private func endAll(_ reason: String) {
    for token in pending.keys.sorted() { end(token, .unknown(reason)) }
  }
}
