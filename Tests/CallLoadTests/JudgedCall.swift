import CallCore
import CallLoadKit
import CallWire
import Testing

/// A call of device 0 to devices 3 to 5, from 10 s to its ring timeout at 40 s.
struct JudgedCall {
  static let shardCount = 12

  let id = CallID(high: 1, low: 2)
  let roster = Roster(devices: 9, devicesPerUser: 3)
  /// From whom it comes, as invites say; empty: it was placed to the user of the devices.
  let divertedBy: String
  var checker: CallChecker
  private var version: UInt64 = 1
  /// The number of the last command.
  private(set) var request: UInt64 = 0

  init(
    attached: Set<Int>, callees: Range<Int> = 3..<6, route: CallRoute = .direct,
    transfer: TransferTerms? = nil, hook: CallChecker.HookFacts? = nil
  ) {
    divertedBy =
      switch route {
      case .direct: ""
      case .forwarded(let user): roster.userName(user)
      case .group(let terms): terms.name
      }
    checker = CallChecker(
      roster: roster, seed: 1,
      timeline: FaultTimeline(roster: roster, app: "load", shardCount: Self.shardCount))
    checker.planned(
      CallChecker.Facts(
        call: id, part: .answered, caller: 0, callees: callees, placedAt: at(10),
        ringTimeout: .seconds(30), attached: attached, route: route, transfer: transfer,
        hook: hook))
  }

  var address: CallAddress { CallAddress(call: id) }
  var invite: Invite {
    Invite(caller: roster.party(0), deadline: at(40), divertedBy: divertedBy)
  }

  mutating func outage(
    _ kind: ChaosKind, from: Double, to: Double, carried: [Int] = [], shards: [Int] = [],
    number: Int = 1
  ) {
    let shards = kind.isOfNATS ? Array(0..<Self.shardCount) : shards
    var fault = ChaosFault.test(number, kind, shards: shards)
    if !carried.isEmpty { fault.edges = [0] }
    checker.timeline.begin(fault, carried: carried, at: at(from))
    checker.timeline.lifted(fault: number, at: at(to))
    checker.timeline.end(shardsOf: number, at: at(to))
  }

  mutating func say(_ device: Int, _ command: ClientCommand, _ time: Double) {
    request += 1
    checker.sent(device: device, ClientFrame(id: request, command: command), at: at(time))
  }

  /// Replies to the last command.
  mutating func reply(_ device: Int, _ reply: ServerReply, _ time: Double) {
    checker.received(device: device, .reply(id: request, reply), at: at(time))
  }

  mutating func reply(_ device: Int, to request: UInt64, _ reply: ServerReply, _ time: Double) {
    checker.received(device: device, .reply(id: request, reply), at: at(time))
  }

  /// The state of the call after its end.
  func ended(_ reason: EndReason, by party: Party?) -> CallState {
    CallState(
      call: id, callee: "u1", phase: .ended, version: version, reason: reason, by: party)
  }

  mutating func tell(_ device: Int, _ event: Delivery.Event, _ time: Double) {
    version += 1
    checker.received(
      device: device,
      .delivery(Delivery(call: id, callee: "u1", version: version, at: at(time), event: event)),
      at: at(time))
  }

  mutating func accept() {
    say(0, .place(address, PlaceRequest(call: id)), 10)
    reply(0, .call(CallState(call: id, callee: "u1", phase: .ringing, at: at(10))), 10.05)
  }

  /// Device 3 takes the call at 11 s.
  /// - Parameter isReplied: else a fault keeps the reply from it, until it tries no more.
  mutating func answer(isInvited: Bool = true, isReplied: Bool = true) {
    accept()
    if isInvited { tell(3, .invite(invite), 10.1) }
    say(3, .call(address, .answer(description: "")), 11)
    let state = CallState(call: id, callee: "u1", phase: .answered, by: roster.party(3))
    if isReplied {
      reply(3, .answer(won: true, state), 11.05)
    } else {
      checker.refused(device: 3, request: request, .tryAgain, at: at(11.05))
    }
    tell(0, .answered(Answered(by: roster.party(3))), 11.05)
  }

  mutating func accepts(_ number: Int, from sender: Int, _ time: Double) {
    let body = NumberedCandidate(sender: sender, number: number).body
    say(sender, .call(address, .signal(.candidate, body: body)), time)
    reply(sender, .done, time)
  }

  mutating func arrives(_ number: Int, from sender: Int, at receiver: Int) {
    let body = NumberedCandidate(sender: sender, number: number).body
    checker.appReceived(
      device: receiver, in: id, Signal(index: UInt64(number), kind: .candidate, body: body))
  }

  mutating func judge() throws -> CallChecker.Verdict {
    let verdict = checker.judge(id, at: at(60), allowed: [.answered]) { _ in true }
    return try #require(verdict)
  }

  mutating func count(_ rule: CorrectnessRule) throws -> Int {
    _ = try judge()
    return try #require(checker.counts[rule])
  }
}

/// The deliveries of one call of device 0 to devices 3 to 5, from 10 s to its ring timeout at 40 s.
struct History {
  let call = CallID(high: 1, low: 2)
  var checker: CallChecker

  init(
    _ roster: Roster, _ timeline: FaultTimeline, _ part: Scenario.Kind, crosses: CallID? = nil
  ) {
    checker = CallChecker(roster: roster, seed: 1, timeline: timeline)
    checker.planned(
      CallChecker.Facts(
        call: call, part: part, caller: 0, callees: 3..<6, placedAt: at(10),
        ringTimeout: .seconds(30), crosses: crosses))
  }

  mutating func tell(
    _ device: Int, _ version: UInt64, _ event: Delivery.Event, _ time: Double
  ) {
    checker.received(
      device: device,
      .delivery(
        Delivery(call: call, callee: "", version: version, at: at(time), event: event)),
      at: at(time))
  }

  /// How often the rule is broken by it.
  mutating func count(
    _ rule: CorrectnessRule, isAttached: (Int) -> Bool
  ) throws -> Int {
    let verdict = checker.judge(call, at: at(60), isAttached: isAttached)
    _ = try #require(verdict)
    return try #require(checker.counts[rule])
  }
}

/// The edge of device 4 is frozen for a while.
func frozenEdge(_ roster: Roster, from: Double, to: Double) -> FaultTimeline {
  var timeline = FaultTimeline(roster: roster, app: "load", shardCount: 12)
  var frozen = ChaosFault.test(1, .freezeEdge, shards: [])
  frozen.edges = [0]
  timeline.begin(frozen, carried: [4], at: at(from))
  timeline.lifted(fault: 1, at: at(to))
  return timeline
}
