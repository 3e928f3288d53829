/// Another device of the same user takes over a side of an answered call.
public struct PullRequest: Sendable, Equatable {
  /// The device that has the call. Where it has it no longer, nothing happens: of two devices that pull at once
  /// one gets the call.
  public var from: DeviceID
  /// For the other side; may be empty.
  public var description: String
  /// The name of the device that pulls, as in its session.
  public var deviceName: String
  public init(from: DeviceID, description: String = "", deviceName: String = "") {
    self.from = from
    self.description = description
    self.deviceName = deviceName
  }
}

/// A side of an answered call moved to another device of its user.
public struct MovedFacts: Sendable, Equatable {
  /// The caller's side; else the callee's.
  public var ofCaller: Bool
  public var from: Party
  public var to: Party
  public var at: Timestamp
  /// The description of the device that has the side now. Kept until that device has given the side up.
  public var description: String
  /// Until when the device has to report that it is connected.
  public var connectDeadline: Timestamp
  public init(
    ofCaller: Bool, from: Party, to: Party, at: Timestamp, description: String,
    connectDeadline: Timestamp
  ) {
    self.ofCaller = ofCaller
    self.from = from
    self.to = to
    self.at = at
    self.description = description
    self.connectDeadline = connectDeadline
  }

  /// Whether another user has the side now, or somebody has it at last (`Call.isCallerVacant`).
  var isTransfer: Bool { fillsVacancy || !to.user.hasBytes(of: from.user) }

  /// Whether nobody had the side.
  var fillsVacancy: Bool { from.device.text.isEmpty }

  /// The stop for the device that had the side.
  var stop: Stop { Stop(reason: isTransfer ? .transferred : .moved, by: to) }
}

/// News of a move for the other side.
public struct Moved: Sendable, Equatable {
  /// The device that has the call now; of another user where the call was transferred.
  public var to: Party
  /// The description of that device.
  public var description: String
  /// Counts the moves of a call, of both sides, from 1. One that is not above the last one is a repetition.
  public var number: UInt32
  public init(to: Party, description: String = "", number: UInt32) {
    self.to = to
    self.description = description
    self.number = number
  }
}

/// A device that had the caller's side until another one took it over.
struct FormerCaller: Sendable {
  let party: Party
  var endpoint: Endpoint
}
