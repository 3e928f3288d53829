/// A device hands its side of an answered call over to another user.
///
/// The call goes on while the other user's devices ring, and nothing changes for anybody if none of them answers.
public struct TransferRequest: Sendable, Equatable {
  /// A user of the same app.
  public var to: String
  /// The only one of the user's devices that is to ring; nil: all do.
  public var device: DeviceID?
  /// The call in which the device that transfers has spoken with `device` before; nil: it has not ("blind").
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

/// A transfer came to nothing.
public struct TransferEnd: Sendable, Equatable {
  public var reason: EndReason
  /// Who caused it; nil where nobody did (a timeout).
  public var by: Party?
  public var at: Timestamp
  public init(reason: EndReason, by: Party? = nil, at: Timestamp) {
    self.reason = reason
    self.by = by
    self.at = at
  }
}

/// News of a transfer for the device that transfers the call. Its success is a stop (`transferred`).
public struct TransferNews: Sendable, Equatable {
  /// The user to whom it asked to transfer.
  public var to: String
  /// Counts the transfers of a call, of both sides, from 1.
  public var number: UInt32
  /// Why nobody took the call: the device has it as before. nil: `by` rings.
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

/// Another call's shard says that a device has been joined to that call: this one has served its purpose.
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
  /// Who has the other side, when it begins.
  let stays: Party
  /// How often sides had moved before.
  let movesBefore: Int
  /// How the call went on from user to user, as `Call.diversions` says it of the first ringing. The first one is the
  /// transfer itself.
  var diversions: [DivertedFacts]
  var outcome = Outcome.pending
  /// No leg can be reached: until when one may come back. Not journalled; a new owner counts anew.
  var legsLostUntil: Timestamp?

  var isPending: Bool { outcome == .pending }

  var start: DivertedFacts { diversions[0] }

  /// The user to whom it was to go.
  var target: String { start.to.first ?? "" }

  /// How it came to nothing; nil: it did not.
  var failure: TransferEnd? { if case .failed(let end) = outcome { end } else { nil } }

  /// Users whom it rang.
  func rang(_ user: String) -> Bool {
    diversions.contains { $0.to.contains { $0.hasBytes(of: user) } }
  }
}
