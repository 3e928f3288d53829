/// The record of a call that is kept after its end: who called whom, what became of the call, and what happened on each
/// device and when.
///
/// The facts are taken from the journal. Times of deliveries and events are as the owner observed them that wrote the
/// record: a new owner knows only what the journal has.
public struct CallRecord: Sendable, Equatable {
  public var call: CallID
  public var callee: UserKey
  public var caller: Party
  public var video: Bool
  public var placedAt: Timestamp
  /// The device that answered, and when; nil: none did.
  public var answer: Answer?
  /// nil only in lists of calls, for a call that goes on.
  public var end: EndedFacts?
  public var legs: [Leg]
  /// The diversions to others, followed by the transfers of its sides.
  public var diversions: [Diversion] = []
  public var events: [Event]
  /// How many events were dropped because the call had no room for them.
  public var eventsDropped: Int
  public init(
    call: CallID, callee: UserKey, caller: Party, video: Bool = false, placedAt: Timestamp,
    answer: Answer? = nil, end: EndedFacts? = nil, legs: [Leg] = [], events: [Event] = [],
    eventsDropped: Int = 0
  ) {
    self.call = call
    self.callee = callee
    self.caller = caller
    self.video = video
    self.placedAt = placedAt
    self.answer = answer
    self.end = end
    self.legs = legs
    self.events = events
    self.eventsDropped = eventsDropped
  }

  public struct Answer: Sendable, Equatable {
    public var by: Party
    public var at: Timestamp
    /// The call that the device had placed, which crossed this one and gave way; nil: the device answered itself.
    public var merged: CallID?
    public init(by: Party, at: Timestamp, merged: CallID? = nil) {
      self.by = by
      self.at = at
      self.merged = merged
    }
  }

  /// How the call left a user, or how a side of it was handed over.
  public struct Diversion: Sendable, Equatable {
    /// The user that it left, or whose device hands its side over.
    public var from: String
    /// Users of the same app; empty: it left the user and rang on for others.
    public var to: [String]
    public var reason: DivertReason
    /// The device that declined, or that hands its side over.
    public var by: Party?
    public var at: Timestamp
    /// For a transfer: the device that took the side; nil: none did.
    public var takenBy: Party?
    /// For a transfer: why no device took the side.
    public var failed: EndReason?
    public init(
      from: String, to: [String], reason: DivertReason, by: Party? = nil, at: Timestamp
    ) {
      self.from = from
      self.to = to
      self.reason = reason
      self.by = by
      self.at = at
    }
  }

  /// A device of the callee. A time is nil where it did not happen, or the writer did not see it.
  public struct Leg: Sendable, Equatable {
    public var party: Party
    public var fate: LegFate
    /// When a push was decided that makes it ring.
    public var pushedAt: Timestamp?
    /// When the invite was first sent to it.
    public var invitedAt: Timestamp?
    /// When it first acknowledged a delivery, as a rule the invite.
    public var deliveredAt: Timestamp?
    public var alertedAt: Timestamp?
    /// When it was over for this device.
    public var endedAt: Timestamp?
    public init(party: Party, fate: LegFate, endedAt: Timestamp? = nil) {
      self.party = party
      self.fate = fate
      self.endedAt = endedAt
    }
  }

  public struct Event: Sendable, Equatable {
    public var kind: CallEventKind
    /// Microseconds since the placing.
    public var offset: UInt32
    public var who: Who
    /// The push's purpose, in events about a push.
    public var purpose: PushPurpose?
    /// Why a push was rejected or failed.
    public var reason: String
    public init(
      _ kind: CallEventKind, offset: UInt32, who: Who, purpose: PushPurpose? = nil,
      reason: String = ""
    ) {
      self.kind = kind
      self.offset = offset
      self.who = who
      self.purpose = purpose
      self.reason = reason
    }
  }

  /// The part of a call to which an event belongs.
  public enum Who: Sendable, Equatable {
    case call
    case caller
    /// The index in `legs`.
    case leg(Int)
    /// A device of the callee without a leg.
    case device(DeviceID)
  }
}

extension [CallRecord.Diversion] {
  /// The text for operators that says where an event took the call; nil: the event is of another kind.
  package func target(of kind: CallEventKind, at time: Timestamp) -> String? {
    let isTransfer = kind == .transferring
    guard isTransfer || kind == .diverted,
      let one = first(where: { $0.at == time && ($0.reason == .transferred) == isTransfer })
    else { return nil }
    let to = one.to.isEmpty ? "nobody" : one.to.joined(separator: ", ")
    return isTransfer ? "to \(to)" : "from \(one.from) to \(to) (\(one.reason.name))"
  }
}

/// How a call ended for one device. Raw values are the record's.
public enum LegFate: UInt8, Sendable, CaseIterable {
  /// It answered.
  case won = 1
  case declined = 2
  case busy = 3
  /// It left, and nothing could wake it.
  case gone = 4
  /// The call ended, or another device won, before it did anything.
  case stopped = 5
  /// It had the call until another device of the user took it over.
  case moved = 6
  /// The call went on to other users before an answer.
  case diverted = 7

  public var name: String { "\(self)" }
}

/// The parts of an ended call that are stored outside its journal, each in a stream of its own. Once all wanted parts
/// of a call are stored, its journal says so (`JournalEntry.Change.recorded`), and no later owner stores them again.
public struct StoredParts: OptionSet, Sendable, Hashable {
  public let rawValue: UInt8
  public init(rawValue: UInt8) { self.rawValue = rawValue }

  /// Its record, for operators.
  public static let record = StoredParts(rawValue: 1)
  /// Its events, for the app's webhooks.
  public static let events = StoredParts(rawValue: 2)
  /// Its entries in the users' histories.
  public static let history = StoredParts(rawValue: 4)
}
