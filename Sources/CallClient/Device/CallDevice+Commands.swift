public import CallCore
public import CallWire

/// Commands. Each waits for its reply and throws `CallError`: the cluster's refusal, `tryAgain` if no
/// reply came after all retransmissions, `rateLimited` if too many commands wait, or `notAttached` if the
/// device is stopped.
extension CallDevice {
  /// Stores the device's push tokens, its name and its capabilities. Call this at each start of the app
  /// and when a token changes. If another device registers one of the tokens later, a notice says
  /// `tokenTaken`.
  /// - Returns: the registration as stored.
  /// - Throws: `CallError`.
  @discardableResult
  public func register(_ request: RegistrationRequest) async throws(CallError) -> RegisteredInfo {
    if case .registered(let info) = try await send(.register(request)) { return info }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  /// Removes a registration. The device can still be rung while it is attached.
  /// - Parameter device: another device of this user; nil: this one.
  /// - Throws: `CallError`.
  public func unregister(_ device: DeviceID? = nil) async throws(CallError) {
    _ = try await send(.unregister(device))
  }

  /// Calls a user. The call's progress comes as events.
  /// - Returns: the call's state; it is ended if no device could be rung.
  /// - Throws: `CallError`.
  @discardableResult
  public func place(_ request: PlaceRequest, to callee: String) async throws(CallError) -> CallState
  {
    try await state(.place(CallAddress(callee: callee, call: request.call), request))
  }

  /// Reports that this device alerts its user. The caller's device gets `ringing`.
  /// - Throws: `CallError`.
  public func alerting(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .alerting) }
  }

  /// Answers a call.
  /// - Parameter description: the session description (SDP) for the caller.
  /// - Returns: whether this device won the call. If not, another device answered first or the call is
  ///   over.
  /// - Throws: `CallError`.
  public func answer(_ call: CallID, description: String = "") async throws(CallError) -> Bool {
    switch try await send(call, { .call($0, .answer(description: description)) }) {
    case .answer(let won, _): won
    case .error, .done, .attached, .registered, .call, .calls, .history, .rules: false
    }
  }

  /// Declines a call: for the user, which ends it, or for this device alone.
  /// - Throws: `CallError`.
  public func decline(_ call: CallID, _ scope: DeclineScope = .everywhere) async throws(CallError) {
    _ = try await send(call) { .call($0, .decline(scope)) }
  }

  /// Reports that this device is busy. The user's other devices keep ringing.
  /// - Throws: `CallError`.
  public func busy(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .busy) }
  }

  /// Cancels an unanswered call of this device.
  /// - Throws: `CallError`.
  public func cancel(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .cancel) }
  }

  /// Reports that media flow. An answered call that is never connected ends as `failed`.
  /// - Throws: `CallError`.
  public func connected(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .connected) }
  }

  /// Ends an answered call.
  /// - Throws: `CallError`.
  public func hangUp(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .hangUp) }
  }

  /// Takes an answered call over from another device of this user ("call pull"). That one is stopped as `moved`, and
  /// the other side gets the description.
  /// - Parameters:
  ///   - callee: the user that was called; empty: this device's own.
  ///   - from: the device that has the call.
  ///   - description: a new session description (SDP): an offer.
  /// - Returns: whether this device has the call now. If not, another device took it first, or it is over.
  /// - Throws: `CallError`.
  public func pull(
    _ call: CallID, callee: String = "", from: DeviceID, description: String = ""
  ) async throws(CallError) -> Bool {
    let request = PullRequest(from: from, description: description)
    switch try await send(.call(CallAddress(callee: callee, call: call), .pull(request))) {
    case .answer(let won, _): return won
    case .error, .done, .attached, .registered, .call, .calls, .history, .rules: return false
    }
  }

  /// Hands this device's side of an answered call over to another user. This device has the call, and may speak on,
  /// until a device answers; then it is stopped as `transferred`. If none does, the event `transfer` says why, and
  /// nothing has changed.
  /// - Parameters:
  ///   - user: the user who is to take the call. Not one of the two who are in it.
  ///   - device: the only one of that user's devices that is to ring; nil: all.
  ///   - consulted: the answered call in which this device has asked `device`. It ends with the transfer.
  /// - Throws: `CallError`; `transferring` if another transfer is under way.
  public func transfer(
    _ call: CallID, to user: String, device: DeviceID? = nil, consulted: ConsultedCall? = nil
  ) async throws(CallError) {
    let request = TransferRequest(to: user, device: device, consulted: consulted)
    _ = try await send(call) { .call($0, .transfer(request)) }
  }

  /// Cancels an unanswered transfer. The device keeps the call.
  /// - Throws: `CallError`.
  public func cancelTransfer(_ call: CallID) async throws(CallError) {
    _ = try await send(call) { .call($0, .cancelTransfer) }
  }

  /// Sends the other side a session description, an ICE candidate or, in an answered call, an information of
  /// the app. Signals of one call arrive in order.
  /// - Throws: `CallError`.
  public func signal(_ call: CallID, _ kind: SignalKind, _ body: String) async throws(CallError) {
    _ = try await send(call) { .call($0, .signal(kind, body: body)) }
  }

  /// Asks for a call's state.
  /// - Parameter callee: the callee's user id; empty: this device's own user.
  /// - Throws: `CallError`.
  public func query(_ call: CallID, callee: String = "") async throws(CallError) -> CallState {
    try await state(.call(CallAddress(callee: callee, call: call), .query))
  }

  /// Asks for the live calls that this device placed, and for those to its user: after a restart the app
  /// resumes (`resume`) or ends (`end`) the calls of its former run. The cluster answers once in 10 s; a
  /// second request waits for that long.
  /// - Throws: `CallError`.
  public func calls() async throws(CallError) -> LiveCalls {
    if case .calls(let live) = try await send(.calls) { return live }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  /// Asks for ended calls of the user, the newest first, and for how many missed ones are unread.
  /// - Parameters:
  ///   - before: older ones than this, as in a page's `next`; nil: the newest.
  ///   - limit: at most so many, 1 to 100.
  /// - Throws: `CallError`; `forbidden` if the app has no history.
  public func history(
    before: HistoryCursor? = nil, limit: Int = 50
  ) async throws(CallError) -> HistoryPage {
    try await history(.list(before: before, limit: UInt32(clamping: max(1, limit))))
  }

  /// The user has read the history up to a cursor, on all of its devices. Less than before changes nothing.
  /// - Returns: the history's state, without entries.
  /// - Throws: `CallError`; `forbidden` if the app has no history.
  @discardableResult
  public func markHistoryRead(upTo cursor: HistoryCursor) async throws(CallError) -> HistoryPage {
    try await history(.markRead(upTo: cursor))
  }

  private func history(_ command: HistoryCommand) async throws(CallError) -> HistoryPage {
    if case .history(let page) = try await send(.history(command)) { return page }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  /// Asks for what the user, or the app's server, has decided in advance about calls to the user.
  /// - Returns: empty rules if nothing is decided.
  /// - Throws: `CallError`.
  public func rules() async throws(CallError) -> UserRules {
    try await rules(.read)
  }

  /// Replaces the user's rules. The last one who sets them wins, be it another device or the app's server. Empty rules
  /// remove them.
  /// - Returns: the rules as stored.
  /// - Throws: `CallError`: `invalidRules`, among others.
  @discardableResult
  public func setRules(_ rules: UserRules) async throws(CallError) -> UserRules {
    try await self.rules(.write(rules))
  }

  private func rules(_ request: RulesRequest) async throws(CallError) -> UserRules {
    if case .rules(let rules) = try await send(.rules(request)) { return rules }
    throw CallError(.internalError, "The reply is of another kind than expected.")
  }

  /// Resumes a call that this device placed in a former run of the app. Its progress comes as events.
  /// - Throws: `CallError`.
  @discardableResult
  public func resume(_ call: CallID, callee: String) async throws(CallError) -> CallState {
    try await state(.call(CallAddress(callee: callee, call: call), .resume))
  }

  /// Ends a call that this device placed in a former run of the app, instead of resuming it.
  /// - Throws: `CallError`.
  @discardableResult
  public func end(_ call: CallID, callee: String) async throws(CallError) -> CallState {
    try await state(.call(CallAddress(callee: callee, call: call), .hangUp))
  }
}
