/// An effect that a shard asks its driver to carry out, once the journal has the decision. Large and rare effects are
/// indirect.
public enum Effect: Sendable, Equatable {
  case reply(SessionRef, request: UInt64, Reply)
  case deliver(SessionRef, Delivery)
  /// Show a device which calls its user is in.
  indirect case showOngoing(SessionRef, OngoingCalls)
  /// Give a session its user's stored name; empty: there is none. Best effort.
  case showName(SessionRef, String)
  case notice(SessionRef, Notice)
  /// Say why, then close the session.
  case close(SessionRef, Notice)
  /// Write a registration; answer with `registrationStored`.
  indirect case store(Registration, token: UInt64)
  /// Remove a registration; answer with `registrationStored`.
  indirect case remove(UserKey, DeviceID, token: UInt64)
  /// Write a user's rules, or remove them (nil); answer with `registrationStored`.
  indirect case storeRules(UserKey, UserRules?, token: UInt64)
  /// Add a push to the work queue; where that cannot be done, answer with `pushNotQueued`.
  indirect case push(PushJob)
  /// The call has stopped ringing: drop its ring pushes that no provider has yet. Best effort, not answered.
  case withdrawPushes(PushRinging)
  /// A step of a registration's way to its tokens; answer with `tokenStepDone`.
  indirect case token(TokenStep, token: UInt64)
  /// Send a command in the name of a device to its user's shard, until that confirms it or the time is over. Not
  /// answered.
  indirect case tell(UserKey, DeviceID, Command.Body, until: Timestamp)
  /// Ask a user's shard for the user's devices; answer with `visited`. Best effort: it is asked again.
  indirect case visit(UserKey, VisitRequest)
  /// Answer such a question.
  indirect case visitAnswer(SessionRef, request: UInt64, VisitAnswer)
  /// The call's end is in the journal: store its record (`ShardMachine.record(of:)`), then report `stored`.
  case record(CallID)
  /// About the histories of users.
  indirect case history(HistoryEffect)
  /// These events of the call are in the journal, and its app has webhooks: store them (`ShardMachine.events(of:)`),
  /// then report the ends among them as `stored`.
  case events(CallID, AppEventKinds)
  /// Store an event of a device for its app's webhooks, however long that takes; answer with `appEventStored`.
  indirect case deviceEvent(AppEvent, token: UInt64)
  /// Delete the claim of a token, if it is still this owner's and not newer. Not answered.
  indirect case releaseToken(fingerprint: String, TokenOwner)
}

/// A step that a shard needs of the cluster before it stores a registration: each token has one owner in each app.
public enum TokenStep: Sendable, Equatable {
  /// Read which device of the app has claimed it.
  case read(fingerprint: String, app: String)
  /// Notify the former owner's shard until it confirms, for some seconds.
  case notify(former: TokenOwner, TokenTaken)
  /// Write the claim, if the key is still at that revision; 0: there is none.
  case claim(fingerprint: String, TokenOwner, expecting: UInt64)
}

public enum TokenStepResult: Sendable, Equatable {
  case read(TokenOwner?, revision: UInt64)
  case notified
  case claimed
  /// Another node wrote the key, or the write's result is unknown: it must be read again.
  case changed
  case failed
}

/// A fact of a shard's history. Applying a shard's entries in order rebuilds its calls.
public struct JournalEntry: Sendable, Equatable {
  public var call: CallID
  public var change: Change
  public init(call: CallID, change: Change) {
    self.call = call
    self.change = change
  }

  public enum Change: Sendable, Equatable {
    indirect case placed(PlacedFacts)
    /// A device joined while it rang.
    indirect case legJoined(Party)
    case alerting(DeviceID)
    indirect case answered(AnsweredFacts)
    /// The ringing call goes on to other users.
    indirect case diverted(DivertedFacts)
    /// A side of the answered call moved to another device.
    indirect case moved(MovedFacts)
    /// A transfer failed: the side stays with the device that had it.
    indirect case transferEnded(TransferEnd)
    /// `at` is nil in records of versions that did not store it.
    case legEnded(DeviceID, LegEnd, at: Timestamp?)
    case connected(caller: Bool)
    indirect case ended(EndedFacts)
    indirect case signal(fromCaller: Bool, DeviceID, Signal)
    /// A side's session broke: until when it may come back; nil once it is back.
    case callerLost(until: Timestamp?)
    case winnerLost(until: Timestamp?)
    /// Every device acknowledged the end: a new owner need not retransmit it.
    case settled
    /// A push was decided: none of this purpose to this device follows for this call.
    case pushed(DeviceID, PushPurpose)
    /// All that is to be stored of the ended call is stored (`StoredParts`): a new owner need not store it.
    case recorded
  }
}

extension JournalEntry {
  /// Counts what can be large; the rest is an allowance.
  var approximateBytes: Int {
    switch change {
    case .placed(let facts):
      facts.headers.reduce(
        256 + facts.description.utf8.count + facts.pushData.utf8.count + 256 * facts.legs.count
      ) {
        $0 + $1.name.utf8.count + $1.value.utf8.count + 8
      }
    case .answered(let facts): 256 + facts.description.utf8.count
    case .moved(let facts): 384 + facts.description.utf8.count
    case .diverted(let facts): facts.to.reduce(128) { $0 + 8 + $1.utf8.count }
    case .signal(_, _, let signal): 128 + signal.body.utf8.count
    case .legJoined, .alerting, .legEnded, .connected, .ended, .callerLost, .winnerLost, .settled,
      .pushed, .recorded, .transferEnded:
      128
    }
  }
}

public struct PlacedFacts: Sendable, Equatable {
  public var callee: UserKey
  public var caller: Party
  public var placedAt: Timestamp
  public var deadline: Timestamp
  public var video: Bool
  public var description: String
  public var headers: [CustomHeader]
  public var legs: [Party]
  /// Data that the caller's app gives to the callee's apps; opaque.
  public var pushData = ""
  /// Tells a repeated `place` from another call with the same id.
  public var fingerprint: UInt64
  /// The callee was in an answered call when it was placed.
  public var isCalleeInCall = false
  /// In a checkpoint, of a call that goes on and stands there before: the newest descriptions and
  /// candidates, also those that were acknowledged.
  public var signalsTaken: [SignalMark] = []
  /// The information that the app wants about the call.
  public var subscriptions: Subscriptions = []
  /// In a checkpoint, of a call with webhooks: the first device that alerted.
  public var firstAlerting: FirstAlerting?
  /// The app's server placed the call: `caller` names a user and no device, so the caller's side is vacant. Once the call
  /// is answered, that user's devices ring for so long. nil: a device placed it.
  public var callerRings: Span?
  /// The only device of the callee that rings, as the app's server chose; nil: all do. Such a call does not go on to
  /// others.
  public var onlyDevice: DeviceID?
  /// The caller chose how long the call rings, and that holds for all users together to whom it goes on.
  public var isRingFixed = false
  public init(
    callee: UserKey, caller: Party, placedAt: Timestamp, deadline: Timestamp, video: Bool,
    description: String, headers: [CustomHeader], legs: [Party], fingerprint: UInt64
  ) {
    self.callee = callee
    self.caller = caller
    self.placedAt = placedAt
    self.deadline = deadline
    self.video = video
    self.description = description
    self.headers = headers
    self.legs = legs
    self.fingerprint = fingerprint
  }
}

/// The first device of a call that alerted.
public struct FirstAlerting: Sendable, Equatable {
  /// The index of its leg.
  public var leg: UInt8
  public var at: Timestamp
  public init(leg: UInt8, at: Timestamp) {
    self.leg = leg
    self.at = at
  }
}

/// A description or candidate that was taken, as its repetition is recognised.
public struct SignalMark: Sendable, Equatable {
  public var fromCaller: Bool
  public var device: DeviceID
  /// The sender's number for the command.
  public var request: UInt64
  /// A hash of kind and body.
  public var content: UInt64
  public init(fromCaller: Bool, device: DeviceID, request: UInt64, content: UInt64) {
    self.fromCaller = fromCaller
    self.device = device
    self.request = request
    self.content = content
  }
}

public struct AnsweredFacts: Sendable, Equatable {
  public var by: Party
  public var at: Timestamp
  public var description: String
  public var connectDeadline: Timestamp
  /// The device did not answer itself: it had placed this call, which crossed and gave way.
  public var merged: CallID?
  public init(
    by: Party, at: Timestamp, description: String, connectDeadline: Timestamp,
    merged: CallID? = nil
  ) {
    self.by = by
    self.at = at
    self.description = description
    self.connectDeadline = connectDeadline
    self.merged = merged
  }
}

public struct EndedFacts: Sendable, Equatable {
  public var reason: EndReason
  public var by: Party?
  public var at: Timestamp
  public var missed: Bool
  /// The crossing call to which this one gave way, or the one for which it was asked (`transferred`).
  public var survivor: CallID?
  /// Why it ended as unreachable; nil where it did not, and in records of versions that did not store it.
  public var unreachable: UnreachableCause?
  /// The app's server ended it; then `by` is nil.
  public var byApp: Bool
  public init(
    reason: EndReason, by: Party?, at: Timestamp, missed: Bool, survivor: CallID? = nil,
    unreachable: UnreachableCause? = nil, byApp: Bool = false
  ) {
    self.byApp = byApp
    self.unreachable = unreachable
    self.reason = reason
    self.by = by
    self.at = at
    self.missed = missed
    self.survivor = survivor
  }
}

/// How a leg ended before its call did. Raw values are the journal's.
public enum LegEnd: UInt8, Sendable, CaseIterable {
  case declinedHere = 1
  case busy = 2
  /// Its session went and nothing can wake it.
  case gone = 3
}

/// The journal's unit: what one append holds.
public struct JournalRecord: Sendable, Equatable {
  public var epoch: UInt64
  /// Counts the writer's records in this epoch, from 1.
  public var number: UInt64
  /// The run of a node that wrote it. By it a writer that lost an acknowledgement recognises its own record.
  public var writer: String
  public var at: Timestamp
  /// Empty for a fence, after which the effects of earlier decisions may leave.
  public var entries: [JournalEntry]
  /// The writer gives the shard up.
  public var released: Bool
  /// The sequence of the record before it, by which a reader notices a gap; 0: it is the shard's first. nil in
  /// records of early versions.
  public var previous: UInt64?
  public init(
    epoch: UInt64, number: UInt64, writer: String, at: Timestamp, entries: [JournalEntry],
    released: Bool = false, previous: UInt64? = nil
  ) {
    self.epoch = epoch
    self.number = number
    self.writer = writer
    self.at = at
    self.entries = entries
    self.released = released
    self.previous = previous
  }
}

/// A shard's calls, as the fewest entries that rebuild them.
public struct Checkpoint: Sendable, Equatable {
  /// The last journal sequence that it includes.
  public var sequence: UInt64
  public var epoch: UInt64
  public var entries: [JournalEntry]
  public init(sequence: UInt64, epoch: UInt64, entries: [JournalEntry]) {
    self.sequence = sequence
    self.epoch = epoch
    self.entries = entries
  }
}
