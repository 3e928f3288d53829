/// Two calls cross if two users call each other (R8, "glare"). One of the calls goes on, and the other one gives way.
///
/// An edge notices it: a device that has placed a call is invited to one from the user whom it calls. The shard of the
/// call that gives way decides first, and ends it. Then it asks the other shard to connect the device that had placed
/// it. So neither shard waits for the other, and both calls go on only if people answer both before an edge reports.
public enum Crossing {
  /// Whether a call goes on that crosses another one. The call with the lower id does. If the ids are equal, it is the
  /// call of the caller whose user id comes first in the order of its bytes.
  public static func survives(
    _ call: CallID, caller: String, over other: CallID, caller otherCaller: String
  ) -> Bool {
    if call != other { return (call.high, call.low) < (other.high, other.low) }
    return caller.utf8.lexicographicallyPrecedes(otherCaller.utf8)
  }
}

/// A call gives way to one that crosses it.
public struct CrossedCall: Sendable, Equatable {
  /// The call that gives way.
  public var call: CallID
  /// The user who placed it, of the same app.
  public var caller: String
  /// The call that goes on, from the callee to the caller.
  public var survivor: CallID
  /// The callee's device that placed the survivor.
  public var by: DeviceID
  /// A device answered the survivor, so the order of the ids does not count. Only the survivor's shard sets this.
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
  /// The call that goes on.
  public var call: CallID
  /// The call that gave way.
  public var merged: CallID
  /// The user who placed the call that goes on, of the same app.
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
  /// The reason of a call's end, as a device that has not answered sees it. If two calls crossed, the callee's other
  /// devices stop because the callee is on the phone, with the device that placed the crossing call.
  /// - Parameters:
  ///   - device: the call's name for a device, of the callee or of a user to whom it went on; nil: the caller's.
  ///   - cause: the party that caused the end.
  func seen(by device: DeviceID?, cause: Party?) -> EndReason {
    guard self == .glare, let device, device != cause?.device else { return self }
    return .answeredElsewhere
  }
}

extension EndedFacts {
  /// The stop by which a device learns the end.
  /// - Parameter device: the call's name for a device that has not answered; nil: the caller's, or the one that answered.
  func stop(for device: DeviceID?) -> Stop {
    let reason = reason.seen(by: device, cause: by)
    return Stop(
      reason: reason, by: by, missed: device != nil && missed,
      survivor: reason == .glare || reason == .transferred ? survivor : nil,
      unreachable: device == nil ? unreachable : nil)
  }
}
