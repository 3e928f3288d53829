internal import CallCore
internal import CallMachine
internal import CallWire
internal import Synchronization

// Commands. Each waits for the cluster's reply, over a reconnect if need be, and throws a `CallmeshError`.
extension Call {
  /// Waits until the cluster has the call, if this device places or resumes it. For others it returns at once.
  /// - Throws: why the cluster does not take the call.
  public func placed() async throws(CallmeshError) {
    if role == .caller, state == .placing || end?.error != nil { try await placing.wait() }
  }

  // MARK: A callee's

  /// Says that this device alerts its user.
  public func alerting() async throws(CallmeshError) { _ = try await send(.alerting) }

  /// Answers.
  /// - Parameter description: the session description for the caller; at most 65,536 bytes.
  /// - Returns: whether this device has the call. If not, another one was faster, or it is over. Connect media only
  ///   then.
  /// - Throws: `wrongState` for a call that does not ring here, among others.
  public func answer(_ description: String = "") async throws(CallmeshError) -> Bool {
    try TextRules.check(description, 65_536, .descriptionTooLarge)
    let begun = engine.run { core in
      Result { () throws(CallmeshError) in try core.answer(self) }
    }
    try begun.get()
    guard case .answer(let won, _) = try await send(.answer(description: description)) else {
      throw .strangeReply
    }
    return won
  }

  /// Declines for the user: all of the user's devices stop.
  public func decline() async throws(CallmeshError) { _ = try await send(.decline(.everywhere)) }

  /// Declines on this device alone: the others ring on.
  public func declineHere() async throws(CallmeshError) { _ = try await send(.decline(.here)) }

  /// This device cannot take the call. The user's others ring on.
  public func busy() async throws(CallmeshError) { _ = try await send(.busy) }

  // MARK: A caller's

  /// Gives up before an answer.
  /// - Returns: the call's state; it may say that an answer was faster: `answered`. Then hang up.
  @discardableResult
  public func cancel() async throws(CallmeshError) -> Reported { try await state(.cancel) }

  /// Takes the call up again after a restart of the app. The device does it by itself after a reconnect. It waits for
  /// as long as the cluster does not answer.
  @discardableResult
  public func resume() async throws(CallmeshError) -> Reported { try await state(.resume) }

  // MARK: Either side's

  /// Says that media flow. A call that one side does not report within 15 s ends as `failed`.
  public func connected() async throws(CallmeshError) { _ = try await send(.connected) }

  /// Ends an answered call.
  public func hangUp() async throws(CallmeshError) { _ = try await send(.hangUp) }

  /// Ends the call in whatever state it is: cancels, declines or hangs up. Where it gave way to a crossing call, that one
  /// ends, at once or when it comes.
  public func finish() async throws(CallmeshError) {
    if !isOver { try await leave() }
    guard role == .caller, let end, end.reason == .glare, let survivor = end.survivor else {
      return
    }
    try await engine.run { $0.refuse(survivor) }?.finish()
  }

  private func leave() async throws(CallmeshError) {
    if progress.isTalking {
      try await hangUp()
    } else if role == .callee {
      try await refuse()
    } else if try await cancel().phase == .answered {
      try await hangUp()
    }
  }

  /// Declines. Where an answer of this device was faster, it has the call: hangs up.
  private func refuse() async throws(CallmeshError) {
    do throws(CallmeshError) {
      try await decline()
    } catch {
      guard error.code == .wrongState, !isOver else { throw error }
      try await hangUp()
    }
  }

  /// - Parameter body: at most 65,536 bytes.
  public func sendDescription(_ body: String) async throws(CallmeshError) {
    try TextRules.check(body, 65_536, .descriptionTooLarge)
    _ = try await send(.signal(.description, body: body))
  }

  /// - Parameter body: at most 16,384 bytes.
  public func sendCandidate(_ body: String) async throws(CallmeshError) {
    try TextRules.check(body, 16_384, .descriptionTooLarge)
    _ = try await send(.signal(.candidate, body: body))
  }

  /// Sends a text of the app's own to the other side of an answered call: a hold, a hand that is raised.
  /// - Parameter body: at most 4096 bytes.
  public func sendInformation(_ body: String) async throws(CallmeshError) {
    try TextRules.check(body, 4096, .informationTooLarge)
    _ = try await send(.signal(.information, body: body))
  }

  /// Hands this side over to another user. This device has the call until a device answers; then it ends as
  /// `transferred`. If none does, the event `transfer` says why, and nothing has changed.
  /// - Parameters:
  ///   - to: the user who takes it.
  ///   - device: only this one rings; nil: all of the user's.
  ///   - consulted: the answered call with that device, in which it was asked. It ends with the transfer.
  public func transfer(
    _ to: String, device: String? = nil, consulted: Address? = nil
  ) async throws(CallmeshError) {
    guard IdentifierRules.isUser(to) else { throw CallmeshError(.invalidCallee) }
    let request = TransferRequest(
      to: to, device: device.map { DeviceID($0) },
      consulted: consulted.map { ConsultedCall(call: $0.call, callee: $0.callee) })
    _ = try await send(.transfer(request))
  }

  /// Cancels an unanswered transfer.
  public func cancelTransfer() async throws(CallmeshError) { _ = try await send(.cancelTransfer) }

  /// Asks for the call's state.
  public func query() async throws(CallmeshError) -> Reported { try await state(.query) }

  private func send(_ verb: CallVerb) async throws(CallmeshError) -> ServerReply {
    try await engine.send(.call(address, verb), of: self)
  }

  private func state(_ verb: CallVerb) async throws(CallmeshError) -> Reported {
    Reported(try await engine.state(.call(address, verb), of: self))
  }
}

extension DeviceCore {
  /// The user answers. The command follows.
  func answer(_ call: Call) throws(CallmeshError) {
    announce(call, try call.change { progress throws(CallmeshError) in try progress.answer() })
  }
}

extension Call {
  /// A call's state from a reply of the cluster.
  public struct Reported: Sendable, Hashable {
    public enum Phase: String, Sendable { case unknown, placed, ringing, answered, ended }
    public var call: Address
    public var phase: Phase
    /// The reason of a call that has ended.
    public var reason: EndReason?
    /// The party that has the call, or caused its end.
    public var by: Party?
    /// When it stops ringing, by the cluster's clock.
    public var deadline: Timestamp?
    public var missed: Bool

    init(_ state: CallState) {
      call = Address(callee: state.callee, call: state.call)
      phase = Phase(state.phase)
      (reason, by, deadline, missed) = (state.reason, state.by, state.deadline, state.missed)
    }
  }
}

extension Call.Reported.Phase {
  init(_ phase: CallPhase) {
    switch phase {
    case .unknown: self = .unknown
    case .placed: self = .placed
    case .ringing: self = .ringing
    case .answered: self = .answered
    case .ended: self = .ended
    }
  }
}

/// The outcome of a call's placing, for everybody who waits for it.
final class Placing: Sendable {
  private struct State {
    var result: Result<Void, CallmeshError>?
    var waiters: [CheckedContinuation<Result<Void, CallmeshError>, Never>] = []
  }

  private let state = Mutex(State())

  func settle(_ reply: Result<ServerReply, CallmeshError>) {
    let result = reply.map { _ in }
    let waiters = state.withLock { state in
      state.result = result
      defer { state.waiters = [] }
      return state.waiters
    }
    for waiter in waiters { waiter.resume(returning: result) }
  }

  func wait() async throws(CallmeshError) {
    let result = await withCheckedContinuation { continuation in
      let known = state.withLock { state in
        if state.result == nil { state.waiters.append(continuation) }
        return state.result
      }
      if let known { continuation.resume(returning: known) }
    }
    try result.get()
  }
}
