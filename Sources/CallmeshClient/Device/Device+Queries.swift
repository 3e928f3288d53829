internal import CallCore
internal import CallMachine
internal import CallWire

// Data that the cluster keeps about the user and its devices.
extension Device {
  /// Stores push tokens, the device's name and its capabilities. Call it at each start of the app, and when a token changes.
  @discardableResult
  public func register(_ registration: Registration) async throws(CallmeshError) -> Registered {
    if case .registered(let info) = try await engine.send(.register(registration)) { return info }
    throw .strangeReply
  }

  /// Removes a registration. The device can still be rung while it is attached.
  /// - Parameter device: another device of this user; nil: this one.
  public func unregister(_ device: String? = nil) async throws(CallmeshError) {
    _ = try await engine.send(.unregister(device.map { DeviceID($0) }))
  }

  /// The live calls that this device placed, and those to its user. The cluster answers once in 10 s.
  public func liveCalls() async throws(CallmeshError) -> (
    placed: [Call.Reported], received: [Call.Reported]
  ) {
    guard case .calls(let live) = try await engine.send(.calls) else { throw .strangeReply }
    return (live.placed.map { Call.Reported($0) }, live.received.map { Call.Reported($0) })
  }

  /// The state of any call of the user.
  public func query(_ address: Address) async throws(CallmeshError) -> Call.Reported {
    Call.Reported(try await engine.state(.call(address, .query)))
  }

  /// Ended calls of the user, the newest first.
  /// - Parameters:
  ///   - before: older ones than this, as in a page's `next`; nil: the newest.
  ///   - limit: at most so many, 1 to 100.
  /// - Throws: `forbidden` if the app has no history, among others.
  public func history(
    before: HistoryCursor? = nil, limit: Int = 50
  ) async throws(CallmeshError) -> HistoryPage {
    let limit = UInt32(clamping: max(1, limit))
    return try await history(.list(before: before, limit: limit))
  }

  /// The user has read the history up to here, on all devices. Less than before changes nothing.
  /// - Returns: the history's state, without entries.
  @discardableResult
  public func markHistoryRead(upTo cursor: HistoryCursor) async throws(CallmeshError)
    -> HistoryPage
  {
    try await history(.markRead(upTo: cursor))
  }

  private func history(_ command: HistoryCommand) async throws(CallmeshError) -> HistoryPage {
    if case .history(let page) = try await engine.send(.history(command)) { return page }
    throw .strangeReply
  }

  /// Reads the user's rules: decisions that are made in advance about calls to the user.
  public func rules() async throws(CallmeshError) -> Rules { try await rules(.read) }

  /// Replaces all of the user's rules. Empty ones remove them.
  /// - Returns: the rules as stored.
  /// - Throws: `invalidRules`, among others.
  @discardableResult
  public func setRules(_ rules: Rules) async throws(CallmeshError) -> Rules {
    try await self.rules(.write(rules))
  }

  private func rules(_ request: RulesRequest) async throws(CallmeshError) -> Rules {
    if case .rules(let rules) = try await engine.send(.rules(request)) { return rules }
    throw .strangeReply
  }
}
