import CallClient
import CallCore
import CallJudge
import CallWire

/// The record of what one device did in a call, and of what it received.
struct DeviceRecord: Sendable {
  /// An end that a delivery or a reply notified the device of.
  struct End: Sendable, Equatable {
    /// `by` is -1 for a device outside of the load.
    var callEnd: CallEnd<Int>
    var missed: Bool
    var version: UInt64
    var at: Timestamp

    var reason: EndReason { callEnd.reason }
    var by: Int? { callEnd.by }

    /// Whether `other` repeats this end. A retransmission has the same version. A new session may be notified
    /// with a new version, and so may all devices by a shard's new owner, which cannot know who was notified;
    /// its epoch is in the version's high bits.
    func isRepeated(by other: Self, acrossSessions: Bool) -> Bool {
      callEnd == other.callEnd
        && (version == other.version || acrossSessions || other.version >> 20 > version >> 20)
    }
  }

  let device: Int
  /// The device's commands that end the call or its part in it.
  private(set) var acts: CallActs = []
  private var actedAt: [CallActs: Timestamp] = [:]
  var invitedAt: Timestamp?
  /// When the first invite was sent, by the cluster's clock.
  var inviteSentAt: Timestamp?
  var wonAt: Timestamp?
  /// The first end that a delivery notified of.
  var stop: End?
  /// The first end that a reply notified of: the device lost, its own command ended the call, or it asked.
  var replied: End?
  /// The cluster accepted the command that ended this device's part.
  var left = false
  /// Its connection was gone at some time since the call was placed.
  var wasAway = false
  /// When it last lost its session. It was away until `attachedAt`, where that is later.
  var awaySince: Timestamp?
  /// When it began its newest session, where that was after the call was placed.
  var attachedAt: Timestamp?
  var wasWoken = false
  var wasNotified = false
  /// It had a session before the call was placed.
  var wasThere = false
  /// When it first asked to take the answered call over.
  var pulledAt: Timestamp?
  /// When it learned that it has taken the call over, and the version at that time.
  var tookOver: (at: Timestamp, version: UInt64)?
  /// The first end of an answered call that it received after it had asked to take that over, and had no reply.
  /// Others' deliveries decide what it means.
  var endAfterPull: End?
  /// It was notified that a device of another user has its side.
  var handedOver: End?
  /// The devices that the other side goes on with, as far as it knows.
  var moves: [Int] = []

  init(device: Int) { self.device = device }

  /// By its own view: one socket, from before the call was placed until now.
  var stayedAttached: Bool { wasThere && keptConnection }
  /// Its connection never broke in this call.
  var keptConnection: Bool { !wasAway && attachedAt == nil }
  var isOver: Bool {
    stop != nil || replied != nil || left || endAfterPull != nil || handedOver != nil
  }
  var end: End? { stop ?? replied }
  var pulls: Bool { pulledAt != nil }
  /// It asked to take the call over, and does not know whether it has.
  var mayHaveTakenOver: Bool { pulls && tookOver == nil && wonAt == nil }

  mutating func act(_ act: CallActs, at now: Timestamp) {
    if acts.insert(act).inserted { actedAt[act] = now }
  }

  /// When the device first did something; of one act only.
  func time(of act: CallActs) -> Timestamp? { actedAt[act] }

  /// It has the call, so what it knew of its part before is over.
  mutating func tookOver(at now: Timestamp, version: UInt64) {
    guard tookOver == nil else { return }
    tookOver = (now, version)
    (stop, replied, left) = (nil, nil, false)
  }

  mutating func detached(at now: Timestamp) {
    wasAway = true
    // A failed attempt to connect loses no session.
    let wasBack = awaySince.map { since in attachedAt.map { since <= $0 } ?? false }
    if wasBack ?? true { awaySince = now }
  }
}

/// One call as the checker keeps it until it is judged.
struct CallRecord: Sendable {
  let facts: CallChecker.Facts
  let roster: Roster
  /// The shard that owns the call: that of the user who was called.
  let shard: Int
  /// Those of the users to whom the call goes on. The call's shard asks them for these users' devices.
  let guestShards: [Int]
  var caller: DeviceRecord
  var callees: [DeviceRecord]
  /// The transfer of a call that is to be handed over.
  var transfer: TransferRecord?
  var trace: [TraceLine] = []
  var outstanding = 0
  var acceptedAt: Timestamp?
  var refusal: CallError.Code?
  /// The winner by the first delivery to the caller, and when that came.
  var answeredBy: Int?
  var answeredToldAt: Timestamp?
  /// The caller was notified that a device alerts its user.
  var hasRungAtCaller = false
  /// From this time on no device may get an invite.
  var ringOverAt: Timestamp?
  /// The end of ringing that the cluster stated, by this machine's clock.
  var ringsOutAt: Timestamp?
  /// Invites and ends that look wrong, unless a fault explains them.
  var oddities: [Oddity] = []
  /// A device that got the answer that there is no such call, after the call was accepted.
  var forgottenBy: Int?
  /// Violations found while the call was under way; `examine` adds those of the call as a whole.
  var violations: [Violation<CorrectnessRule>] = []
  var errors: [(device: Int, command: ClientCommand, code: CallError.Code, at: Timestamp)] = []
  var signals = SignalLedger()
  /// The call that goes on, since this one gave way, as devices know.
  var survivor: CallID?
  /// An error of the app's hook that it did not cause.
  var hookOddity: CallError.Code?
  /// When it was answered, by the cluster's clock.
  var answerSentAt: Timestamp?
  /// Views of it as an ongoing call that devices were shown.
  var sights: [OngoingSight] = []
  /// The state of the user who is called, when the call was placed.
  var talk = UserTalk()

  static let traceMax = 200
  /// Candidates take at most this many lines, so that the call's end has room.
  static let signalTraceMax = 100

  init(
    facts: CallChecker.Facts, roster: Roster, shard: Int, guestShards: [Int] = [],
    thirdShard: Int = -1
  ) {
    self.facts = facts
    self.roster = roster
    self.shard = shard
    self.guestShards = guestShards
    self.caller = DeviceRecord(device: facts.caller)
    self.callees = facts.callees.map {
      var device = DeviceRecord(device: $0)
      device.wasThere = facts.attached.contains($0)
      return device
    }
    transfer = facts.transfer.map {
      TransferRecord($0, roster, attached: facts.attached, shard: thirdShard)
    }
  }

  /// All who may have a side of the call.
  var users: Set<Int> {
    Set((facts.devices + thirdDevices.map(\.device)).map(roster.user))
  }

  func name(of device: Int) -> String { roster.party(device).text }
  /// -1 for a device outside of the load.
  func number(of party: Party) -> Int { roster.device(party) ?? -1 }

  /// All shards that the call needs while it rings.
  var shards: [Int] { [shard] + guestShards }
  var accepted: Bool { acceptedAt != nil }
  var deadline: Timestamp { facts.placedAt + facts.ringTimeout }

  /// The caller, and every device that got an invite, were notified of the end.
  var isSettled: Bool {
    outstanding == 0 && caller.isOver
      && (callees + thirdDevices).allSatisfy { $0.invitedAt == nil || $0.isOver }
  }

  var thirdDevices: [DeviceRecord] { transfer?.devices ?? [] }
  /// All but those to whom the call is handed over.
  var everybody: [DeviceRecord] { [caller] + callees }
  /// The call's end. For a device that refused, or that the call left, its own part ends earlier, so its end does not
  /// count.
  var firstEndAt: Timestamp? {
    everybody.filter { $0.acts.isDisjoint(with: .refusal) && !hasOwnEnd($0) }
      .compactMap { $0.end?.at }.min()
  }
  var winners: [DeviceRecord] { callees.filter { $0.wonAt != nil } }
  /// The device that took the call over last.
  var puller: Int? {
    callees.compactMap { callee in callee.tookOver.map { (callee.device, $0.at) } }
      .max { $0.1 < $1.1 }?.0
  }

  func record(of device: Int) -> DeviceRecord? {
    if device == facts.caller { return caller }
    guard facts.callees.contains(device) else {
      return transfer.flatMap { transfer in
        transfer.index(of: device).map { transfer.devices[$0] }
      }
    }
    return callees[device - facts.callees.lowerBound]
  }

  /// Changes nothing where the device has no part in the call.
  mutating func change(_ device: Int, _ change: (inout DeviceRecord) -> Void) {
    if device == facts.caller {
      change(&caller)
    } else if facts.callees.contains(device) {
      change(&callees[device - facts.callees.lowerBound])
    } else if let index = transfer?.index(of: device) {
      transfer?.change(index, change)
    }
  }

  mutating func refusePlace(_ code: CallError.Code) {
    refusal = code
    // A caller that was notified of ringing is in the call all the same.
    if !caller.wasNotified { caller.left = true }
  }

  mutating func note(_ event: TraceLine.Event, of device: Int, at now: Timestamp) {
    guard trace.count < (event.isSignal ? Self.signalTraceMax : Self.traceMax) else { return }
    trace.append(TraceLine(at: now, device: device, event: event))
  }

  mutating func violate(_ rule: CorrectnessRule, _ what: String) {
    violations.append(Violation(rule, what, call: facts.call))
  }
}

/// A delivery that breaks a rule, unless a fault explains it.
struct Oddity: Sendable {
  var rule: CorrectnessRule
  var device: Int
  var at: Timestamp
  /// Whether it was sent long ago: the device had a greater version before, or its own time is over.
  var isOld: Bool
  /// Whether it came right after a new session began: messages of two edges arrive in either order.
  var isOvertaken = false
  var what: String
}
