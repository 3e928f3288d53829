/// Two calls cross where each of two users has called the other one (R8, "glare"). One of them goes on, and the other
/// one gives way to it.
///
/// An edge notices it: a device that has placed a call is invited to one from the user whom it calls. The shard of the
/// call that gives way decides first, and ends it. Then it asks the other shard to connect the device that had placed
/// it. So neither shard waits for the other, and both calls go on only if people answer both before an edge reports.
public enum Crossing {
  /// Which of two crossing calls goes on: the one with the lower id. Of calls with one id it is that of the caller
  /// whose user id has the lower bytes, or the longer beginning of the other.
  public static func survives(
    _ call: CallID, caller: String, over other: CallID, caller otherCaller: String
  ) -> Bool {
    if call != other { return (call.high, call.low) < (other.high, other.low) }
    return caller.utf8.lexicographicallyPrecedes(otherCaller.utf8)
  }
}

/// A call gives way to one that crosses it.
public struct CrossedCall: Sendable, Equatable {
  /// The one that gives way.
  public var call: CallID
  /// Who placed it; a user of the same app.
  public var caller: String
  /// The one that goes on: a call of the callee to the caller.
  public var survivor: CallID
  /// The callee's device that placed the survivor.
  public var by: DeviceID
  /// A device answered the survivor, so its id does not count. Only its shard says so.
  public var isSurvivorAnswered: Bool
  public init(
    call: CallID, caller: String, survivor: CallID, by: DeviceID, isSurvivorAnswered: Bool = false
  ) {
    self.call = call
    self.caller = caller
    self.survivor = survivor
    self.by = by
    self.isSurvivorAnswered = isSurvivorAnswered
  }
}

/// A call gave way: the device that had placed it takes the call that goes on.
public struct MergeRequest: Sendable, Equatable {
  /// The one that goes on.
  public var call: CallID
  /// The one that gave way.
  public var merged: CallID
  /// Who placed the one that goes on; a user of the same app.
  public var caller: String
  /// The name of the device that takes it.
  public var deviceName: String
  public init(call: CallID, merged: CallID, caller: String, deviceName: String = "") {
    self.call = call
    self.merged = merged
    self.caller = caller
    self.deviceName = deviceName
  }
}

extension EndReason {
  /// The reason of a call's end, as a device that has not answered sees it. Where two calls crossed, the callee's other
  /// devices stop because the callee is on the phone now, with the device that placed the crossing call.
  /// - Parameters:
  ///   - device: one of the callee's; nil: the caller's.
  ///   - cause: who caused the end.
  func seen(by device: DeviceID?, cause: Party?) -> EndReason {
    guard self == .glare, let device, device != cause?.device else { return self }
    return .answeredElsewhere
  }
}

extension EndedFacts {
  /// The stop that tells a device of the end.
  /// - Parameter device: one of the callee's that has not answered; nil: the caller's, or the one that answered.
  func stop(for device: DeviceID?) -> Stop {
    let reason = reason.seen(by: device, cause: by)
    return Stop(
      reason: reason, by: by, missed: device != nil && missed,
      survivor: reason == .glare || reason == .transferred ? survivor : nil,
      unreachable: device == nil ? unreachable : nil)
  }
}
