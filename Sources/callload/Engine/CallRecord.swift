import CallClient
import CallCore
import CallJudge
import CallWire

/// What one device did in a call and was told of it, as the checker keeps it.
struct DeviceRecord: Sendable {
  struct End: Sendable, Equatable {
    var reason: EndReason
    /// nil: nobody was named. -1: somebody who is none of ours.
    var by: Int?
    var missed: Bool
    var version: UInt64
    var at: Timestamp

    var callEnd: CallEnd<Int> { CallEnd(reason: reason, by: by) }
  }

  let device: Int
  /// What the device said that ends the call or its part in it, and when it said each first.
  private(set) var acts: CallActs = []
  private var actedAt: [CallActs: Timestamp] = [:]
  var invitedAt: Timestamp?
  var wonAt: Timestamp?
  /// A delivery said so.
  var stop: End?
  /// A reply said so: it lost, its own command ended it, or it asked.
  var replied: End?
  /// The cluster accepted what ended this device's part.
  var left = false
  /// Its connection was gone at some time since the call was placed.
  var wasAway = false
  /// When it lost its session the last time: it was away until `attachedAt`, where that is later.
  var awaySince: Timestamp?
  /// When it began its newest session, where that was after the call was placed.
  var attachedAt: Timestamp?
  var wasWoken = false
  var isTold = false
  var wasThere = false

  init(device: Int) { self.device = device }

  /// By its own view: one socket, from before the call was placed until now.
  var stayedAttached: Bool { wasThere && !wasAway && attachedAt == nil }

  /// The device knows that it is over.
  var isOver: Bool { stop != nil || replied != nil || left }
  var end: End? { stop ?? replied }

  mutating func act(_ act: CallActs, at now: Timestamp) {
    if acts.insert(act).inserted { actedAt[act] = now }
  }

  /// When the device first did something; of one act only.
  func time(of act: CallActs) -> Timestamp? { actedAt[act] }
}

/// One line of a call's history, small: there are tens of thousands at a time.
struct TraceLine: Sendable {
  enum What: UInt8, Sendable {
    case place, alerting, answer, declineEverywhere, declineHere, busy, cancel, connected, hangUp
    case signal, resume, query
    case invite, ringing, answered, stop, signalled
    case done, state, won, lost, error, gaveUp, detached, attached
  }
  var at: Timestamp
  var device: Int32
  /// Who is named; -1: nobody.
  var by: Int32 = -1
  var version: UInt64 = 0
  var what: What
  /// An end reason's or phase's raw value, or a candidate's number.
  var detail: UInt8 = 0
  var code: UInt16 = 0
}

/// One call as the checker keeps it until it is judged.
struct CallRecord: Sendable {
  let facts: CallChecker.Facts
  let roster: Roster
  /// The shard that owns the call: the callee's.
  let shard: Int
  var caller: DeviceRecord
  var callees: [DeviceRecord]
  var trace: [TraceLine] = []
  /// Commands that have no reply.
  var outstanding = 0
  /// The cluster took the place command.
  var accepted = false
  var acceptedAt: Timestamp?
  var refusal: CallError.Code?
  /// Whom the caller was told to be talking to.
  var answeredBy: Int?
  var answeredToldAt: Timestamp?
  /// Since when nobody may be told to ring.
  var ringOverAt: Timestamp?
  /// When it rings out by the cluster's word, by this machine's clock.
  var ringsOutAt: Timestamp?
  /// Invites and ends that look wrong; a fault may explain them.
  var oddities: [Oddity] = []
  /// Somebody was told that there is no such call, though it had been taken.
  var forgottenBy: Int?
  /// Found while it happened; the rest is found by looking at the whole.
  var violations: [Violation<CorrectnessRule>] = []
  var errors: [(device: Int, what: TraceLine.What, code: CallError.Code, at: Timestamp)] = []

  var signals = SignalLedger()

  static let traceMax = 200
  /// Candidates take no more lines than these, so that the call's end has room.
  static let signalTraceMax = 100

  init(facts: CallChecker.Facts, roster: Roster, shard: Int) {
    self.facts = facts
    self.roster = roster
    self.shard = shard
    self.caller = DeviceRecord(device: facts.caller)
    self.callees = facts.callees.map {
      var device = DeviceRecord(device: $0)
      device.wasThere = facts.attached.contains($0)
      return device
    }
  }

  func name(of device: Int) -> String { roster.party(device).text }

  var deadline: Timestamp { facts.placedAt + facts.ringTimeout }

  /// Every device that was told to ring, and the caller, knows that it is over.
  var isSettled: Bool {
    outstanding == 0 && caller.isOver && callees.allSatisfy { $0.invitedAt == nil || $0.isOver }
  }

  var everybody: [DeviceRecord] { [caller] + callees }
  /// When the first device was told of an end.
  var firstEndAt: Timestamp? { everybody.compactMap { $0.end?.at }.min() }
  var winners: [DeviceRecord] { callees.filter { $0.wonAt != nil } }

  func record(of device: Int) -> DeviceRecord? {
    if device == facts.caller { return caller }
    guard facts.callees.contains(device) else { return nil }
    return callees[device - facts.callees.lowerBound]
  }

  /// Changes nothing where the device has no part in the call.
  mutating func change(_ device: Int, _ change: (inout DeviceRecord) -> Void) {
    if device == facts.caller {
      change(&caller)
    } else if facts.callees.contains(device) {
      change(&callees[device - facts.callees.lowerBound])
    }
  }

  mutating func note(_ line: TraceLine) {
    if line.what == .signal || line.what == .signalled, trace.count >= Self.signalTraceMax {
      return
    }
    if trace.count < Self.traceMax { trace.append(line) }
  }

  mutating func violate(_ rule: CorrectnessRule, _ what: String) {
    violations.append(Violation(rule, what, call: facts.call))
  }
}

/// What looks wrong until it is known which faults there were.
struct Oddity: Sendable {
  var rule: CorrectnessRule
  var device: Int
  var at: Timestamp
  /// Whether it was said long ago: the device had a greater version before, or its own time is over.
  var isOld: Bool
  /// Whether it came with a session newer than the other news: two edges' messages come in either order.
  var isOvertaken = false
  var what: String
}

extension TraceLine.What {
  /// nil for a command that is about no call.
  static func of(_ command: ClientCommand) -> Self? {
    switch command {
    case .place: .place
    case .call(_, let verb):
      switch verb {
      case .alerting: .alerting
      case .answer: .answer
      case .decline(.everywhere): .declineEverywhere
      case .decline(.here): .declineHere
      case .busy: .busy
      case .cancel: .cancel
      case .connected: .connected
      case .hangUp: .hangUp
      case .signal: .signal
      case .resume: .resume
      case .query: .query
      }
    case .attach, .detach, .register, .unregister, .ack, .ping, .calls, .renew: nil
    }
  }
}
