/// A device takes over a side of an answered call from another device of its user.
public struct PullRequest: Sendable, Equatable {
  /// The device that has the call. If it no longer does, the request has no effect: only one of two devices that pull
  /// at once gets the call.
  public var from: DeviceID
  /// The description for the other side; may be empty.
  public var description: String
  /// The name of the device that pulls, as in its session.
  public var deviceName: String
  public init(from: DeviceID, description: String = "", deviceName: String = "") {
    self.from = from
    self.description = description
    self.deviceName = deviceName
  }

  /// Identifies the command, so that a repetition is recognised (R9). An app that is restarted numbers its commands from 1
  /// again, but it describes its media anew.
  /// - Parameter number: the device's own number for the command.
  func fingerprint(_ number: UInt64) -> UInt64 {
    var hash = FNV1a()
    hash.add(String(number), end: 0)
    hash.add(description)
    return hash.value
  }
}

/// A side of an answered call moved to another device of its user.
public struct MovedFacts: Sendable, Equatable {
  /// The caller's side; else the callee's.
  public var ofCaller: Bool
  public var from: Party
  public var to: Party
  public var at: Timestamp
  /// The description of the device that has the side now. It is kept until the side moves again.
  public var description: String
  /// Until when the device has to report that it is connected.
  public var connectDeadline: Timestamp
  /// The fingerprint of the pull; 0: it was a transfer, or an earlier version wrote the journal.
  public var command: UInt64
  public init(
    ofCaller: Bool, from: Party, to: Party, at: Timestamp, description: String,
    connectDeadline: Timestamp, command: UInt64 = 0
  ) {
    self.ofCaller = ofCaller
    self.from = from
    self.to = to
    self.at = at
    self.description = description
    self.connectDeadline = connectDeadline
    self.command = command
  }

  /// Whether another user has the side now, or a vacant side is taken (`Call.isCallerVacant`).
  var isTransfer: Bool { fillsVacancy || !to.user.hasBytes(of: from.user) }

  /// Whether the side was vacant.
  var fillsVacancy: Bool { from.device.text.isEmpty }

  /// The stop for the device that had the side.
  var stop: Stop { Stop(reason: isTransfer ? .transferred : .moved, by: to) }
}

/// News of a move for the other side.
public struct Moved: Sendable, Equatable {
  /// The device that has the side now. After a transfer it belongs to another user.
  public var to: Party
  /// The description of that device.
  public var description: String
  /// Counts the moves of both sides of a call, from 1. A number that is not above the last one is a repetition.
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

/// A device hands its side of an answered call over to another user.
///
/// The call goes on while the other user's devices ring, and stays as it is if none of them answers.
public struct TransferRequest: Sendable, Equatable {
  /// A user of the same app.
  public var to: String
  /// The only one of the user's devices that is to ring; nil: all do.
  public var device: DeviceID?
  /// The call in which the transferring device consulted `device` before; nil: there is none ("blind").
  public var consulted: ConsultedCall?
  public init(to: String, device: DeviceID? = nil, consulted: ConsultedCall? = nil) {
    self.to = to
    self.device = device
    self.consulted = consulted
  }
}

/// A call that a transfer makes superfluous: it ends as soon as the transfer succeeds.
public struct ConsultedCall: Sendable, Hashable {
  public var call: CallID
  /// The callee's user id: with `call` the call's address.
  public var callee: String
  public init(call: CallID, callee: String) {
    self.call = call
    self.callee = callee
  }
}

/// The end of a transfer that no device answered.
public struct TransferEnd: Sendable, Equatable {
  public var reason: EndReason
  /// The party that caused it; nil: a timeout did.
  public var by: Party?
  public var at: Timestamp
  public init(reason: EndReason, by: Party? = nil, at: Timestamp) {
    self.reason = reason
    self.by = by
    self.at = at
  }
}

/// News of a transfer for the device that transfers the call. The news of its success is a stop (`transferred`).
public struct TransferNews: Sendable, Equatable {
  /// The transfer's target.
  public var to: String
  /// Counts the transfers of both sides of a call, from 1.
  public var number: UInt32
  /// Why the transfer failed, so that the device keeps the call; nil: `by` rings.
  public var reason: EndReason?
  /// The device that rings, or that caused the end; nil where none did.
  public var by: Party?
  public init(to: String, number: UInt32, reason: EndReason? = nil, by: Party? = nil) {
    self.to = to
    self.number = number
    self.reason = reason
    self.by = by
  }
}

/// Another call's shard reports that a device has been joined to that call, so this one is superfluous.
public struct ReplacedCall: Sendable, Equatable {
  public var call: CallID
  /// The call that goes on.
  public var survivor: CallID
  /// The user whose device transferred the survivor; a user of the same app.
  public var user: String
  public init(call: CallID, survivor: CallID, user: String) {
    self.call = call
    self.survivor = survivor
    self.user = user
  }
}

/// One attempt to hand a side of a call over, kept until the call is forgotten.
struct Transfer: Sendable {
  enum Outcome: Sendable, Equatable {
    case pending
    case failed(TransferEnd)
    /// The move of this index.
    case moved(Int)
  }

  /// The caller's side; else the callee's.
  let ofCaller: Bool
  /// The party that had the other side when the transfer began.
  let stays: Party
  /// How often sides had moved before.
  let movesBefore: Int
  /// The diversions of this ringing, as `Call.diversions` are those of the first one. It begins with the transfer.
  var diversions: [DivertedFacts]
  var outcome = Outcome.pending
  /// The session on which it was asked for. Not journalled: at a new owner it is not known.
  var session: SessionRef?
  /// No leg can be reached: until when one may come back. Not journalled; a new owner counts anew.
  var legsLostUntil: Timestamp?

  var isPending: Bool { outcome == .pending }

  var start: DivertedFacts { diversions[0] }

  /// The user to whom the side was to go.
  var target: String { start.to.first ?? "" }

  /// How it failed; nil: it did not.
  var failure: TransferEnd? { if case .failed(let end) = outcome { end } else { nil } }

  /// Whether it rang a user.
  func rang(_ user: String) -> Bool {
    diversions.contains { $0.to.contains { $0.hasBytes(of: user) } }
  }
}
