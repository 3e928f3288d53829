/// The live calls that concern a device, for an app that was started again and has lost them.
extension ShardMachine {
  /// Replies with the live calls of this shard that the sender's device placed, and with those to its user.
  func liveCalls(_ command: Command, _ turn: inout Turn) {
    var live = LiveCalls()
    for id in placedCalls.calls(by: command.user, command.device) {
      guard let slot = calls.slot(of: id) else { continue }
      live.placed.append(calls[slot].state(for: .caller))
    }
    for id in users[command.user]?.calls ?? [] {
      guard let slot = calls.slot(of: id) else { continue }
      let role = calls[slot].role(of: command.user, command.device)
      if case .caller = role { continue }
      let state = calls[slot].state(for: role)
      if state.phase != .ended { live.received.append(state) }
    }
    live.placed = Array(live.placed.prefix(LiveCalls.countMaximum))
    live.received = Array(live.received.prefix(LiveCalls.countMaximum))
    // A person who opens an app does not notice a tenth of a second, and all questions of that time
    // share one append.
    turn.reply(command, .calls(live), command.body.urgency)
  }
}

extension LiveCalls {
  /// Calls of each kind that an answer lists. Policy: the first ones of each shard.
  public static let countMaximum = 64
}

/// Live calls by the user who placed them, and the device, so that they are found without looking at all calls.
struct PlacedCalls: Sendable {
  private struct Placed {
    var device: DeviceID
    var call: CallID
  }

  private var calls: [UserKey: [Placed]] = [:]

  /// In the order of their placing.
  func calls(by user: UserKey, _ device: DeviceID) -> [CallID] {
    (calls[user] ?? []).compactMap { $0.device == device ? $0.call : nil }
  }

  /// The calls of all devices of the user.
  func calls(by user: UserKey) -> [CallID] { (calls[user] ?? []).map(\.call) }

  mutating func add(_ call: Call) {
    let placed = Placed(device: call.facts.caller.device, call: call.id)
    calls[call.callerKey, default: []].append(placed)
  }

  mutating func remove(_ id: CallID, by user: UserKey) {
    guard let index = calls.index(forKey: user) else { return }
    calls.values[index].removeAll { $0.call == id }
    if calls.values[index].isEmpty { calls.remove(at: index) }
  }
}
