internal import CallClient
internal import CallCore
internal import CallJudge
internal import CallWire

/// Counts the races, transitions and faults of a world. Each race has a precise sign; the checker
/// judges its outcome.
final class SimCoverage {
  struct Seen {
    var callee: String
    var caller: Party
    var epoch: UInt64
    var deadline: Timestamp
    var answeredBy: Party?
    var connectDeadline: Timestamp?
    var isEnded = false
    var isConnected = false
    var diversions = 0
    /// How often a device stopped ringing by itself.
    var refusals = 0
    var transfers = 0
    var transferEpoch: UInt64 = 0
    var answers: [(at: Timestamp, who: Who)] = []
    var cancelAt: Timestamp?
    var hangUps: [(at: Timestamp, who: Who)] = []
    var pulls: [(at: Timestamp, who: Who)] = []
    var invited: Set<Who> = []
    var counted: Set<String> = []
    /// Devices with a decided push to wake them that were not invited over a session since.
    var pushed: Set<String> = []
    /// Those of them whose push is with a dead provider.
    var pushedInVain: Set<String> = []
    /// Devices that a push reached after the call's end or answer.
    var pushedLate: Set<String> = []
    var stage = "placed"
    var isRinging: Bool { !isEnded && answeredBy == nil }
  }

  let world: SimWorld
  private let options: SimOptions
  var calls: [CallID: Seen] = [:]
  private var latestEpoch: [Int: UInt64] = [:]
  private var frames: [Who: Set<UInt64>] = [:]
  var sent: Set<PushHistory.Key> = []
  var owners: [String: Who] = [:]
  /// The users' rules, as the store has them.
  var rules: [UserKey: UserRules] = [:]

  init(_ world: SimWorld, _ options: SimOptions) {
    self.world = world
    self.options = options
  }

  func race(_ name: String, _ call: CallID) {
    guard calls[call]?.counted.insert(name).inserted ?? false else { return }
    world.count("race.\(name)")
  }

  func near(_ one: Timestamp, _ other: Timestamp, milliseconds: Int64) -> Bool {
    abs((one - other).microseconds) <= milliseconds * 1000
  }

  // MARK: The journal

  func journalled(_ shard: Int, _ record: JournalRecord) {
    latestEpoch[shard] = max(latestEpoch[shard] ?? 0, record.epoch)
    for entry in record.entries { journalled(entry, record) }
    if record.released {
      for (call, seen) in calls where seen.isRinging && seen.epoch == record.epoch {
        race("R20", call)
      }
    }
  }

  private func journalled(_ entry: JournalEntry, _ record: JournalRecord) {
    let call = entry.call
    if case .placed(let facts) = entry.change {
      calls[call] = Seen(
        callee: facts.callee.user, caller: facts.caller, epoch: record.epoch,
        deadline: record.at + (facts.deadline - facts.placedAt))
      placed(facts, call)
      return
    }
    guard let seen = calls[call] else { return }
    if record.epoch > seen.epoch, seen.isRinging {
      race("R10", call)
      if !seen.pushed.isEmpty { race("R10 pushed", call) }
    }
    switch entry.change {
    case .alerting(let device):
      if !seen.pushedInVain.isEmpty, !seen.pushedInVain.contains(device.text) { race("R14", call) }
      world.count("transition.leg \(device.text.isEmpty ? "?" : "live") → alerting")
      if seen.stage == "placed" { step(call, to: "ringing") }
    case .answered(let facts):
      calls[call]?.answeredBy = facts.by
      if !facts.by.user.hasBytes(of: seen.callee) { race("R25 answered", call) }
      if facts.merged != nil { race("R8 merged", call) }
      if facts.merged != nil, seen.refusals + seen.diversions > 0 { race("R8 called back", call) }
      calls[call]?.connectDeadline = world.now + options.limits.connectGrace
      step(call, to: "answered")
    case .diverted(let facts) where facts.reason == .transferred && facts.from.isEmpty:
      race("R28 answered", call)
      calls[call]?.transferEpoch = record.epoch
    case .diverted(let facts) where facts.reason == .transferred:
      race("R26", call)
      calls[call]?.transfers += 1
      if calls[call]?.transfers == 2 { race("R26 again", call) }
      calls[call]?.transferEpoch = record.epoch
    case .diverted where seen.stage == "answered": race("R26 goes on", call)
    case .transferEnded(let end) where seen.caller.device.text.isEmpty:
      race("R28 \(end.reason.name)", call)
      if record.epoch > seen.transferEpoch { race("R28 new owner", call) }
    case .transferEnded(let end):
      race("R26 \(end.reason.name)", call)
      if record.epoch > seen.transferEpoch { race("R26 new owner", call) }
    case .diverted(let facts):
      if !facts.to.isEmpty { race("R25", call) } else { race("R25 declined by one", call) }
      if facts.reason == .ringSlotOver { race("R25 turn", call) }
      sentOn(facts, seen, record, call)
      if facts.reason == .group { race(facts.queue.isEmpty ? "R25 group" : "R25 queue", call) }
      calls[call]?.diversions += 1
      calls[call]?.deadline = record.at + (facts.deadline - facts.at)
    case .moved(let facts) where facts.from.device.text.isEmpty:
      race("R28 taken", call)
      calls[call]?.caller = facts.to
      if record.epoch > seen.transferEpoch { race("R28 new owner", call) }
    case .moved(let facts) where !facts.to.user.hasBytes(of: facts.from.user):
      race("R26 of the \(facts.ofCaller ? "caller" : "callee")", call)
      if record.epoch > seen.transferEpoch { race("R26 new owner", call) }
    case .moved(let facts):
      race("R24 of the \(facts.ofCaller ? "caller" : "callee")", call)
      if record.epoch > seen.epoch { race("R24 new owner", call) }
    case .legEnded(_, let end, _):
      world.count("transition.leg → \(end)")
      calls[call]?.refusals += 1
    case .legJoined(let party):
      world.count("transition.leg joins")
      joined(party, seen, call)
    case .connected: calls[call]?.isConnected = true
    case .callerLost(until: nil): race("R22", call)
    case .ended(let facts):
      if seen.diversions > 0, record.epoch > seen.epoch { race("R25 new owner", call) }
      if facts.reason == .transferred { race("R26 consulted", call) }
      ended(call, seen, facts, record)
    case .pushed(let device, let purpose):
      world.count("push.\(purpose.name)")
      if purpose == .ring { calls[call]?.pushed.insert(device.text) }
    case .placed, .signal, .callerLost, .winnerLost, .settled, .recorded: break
    }
  }

  private func step(_ call: CallID, to stage: String) {
    world.count("transition.call \(calls[call]?.stage ?? "?") → \(stage)")
    calls[call]?.stage = stage
  }

  private func ended(_ call: CallID, _ seen: Seen, _ facts: EndedFacts, _ record: JournalRecord) {
    calls[call]?.isEnded = true
    step(call, to: "ended: \(facts.reason.name)")
    switch facts.reason {
    case .failed: race("R15", call)
    case .unreachable:
      if seen.invited.isEmpty { race("R19", call) }
      if seen.invited.isEmpty, !seen.pushed.isEmpty { race("R19 pushed", call) }
    case .unanswered:
      if record.epoch > seen.epoch { race("R10 deadline", call) }
      if !near(facts.at, world.now, milliseconds: 200) { race("R18", call) }
      if seen.answers.contains(where: { near($0.at, world.now, milliseconds: 30) }) {
        race("R2 timeout", call)
      }
    case .glare:
      race("R8", call)
      if facts.survivor.map({ calls[$0]?.stage == "ringing" }) ?? false {
        race("R8 in mid-ring", call)
      }
      if record.epoch > seen.epoch { race("R8 moved", call) }
    case .answeredElsewhere, .declined, .cancelled, .busy, .hungUp, .moved, .transferred: break
    }
  }

  func appends(_ shard: Int, _ record: JournalRecord) {
    if record.epoch < latestEpoch[shard] ?? 0 { world.count("race.R23") }
  }

  // MARK: At devices

  func sent(_ frame: ClientFrame, on line: SimLine) {
    guard frame.id > 0 else { return }
    if !frames[line.who, default: []].insert(frame.id).inserted, let call = frame.command.address {
      race("R9", call.call)
    }
  }

  func restarted(_ who: Who) { frames[who] = nil }

  /// During an outage of NATS or of all edges.
  func sentInOutage(_ frame: ClientFrame) {
    switch frame.command {
    case .place, .call(_, .answer), .call(_, .signal):
      world.count("in outage.\(frame.command.kind)")
    default: break
    }
  }

  func received(_ frame: ServerFrame, on line: SimLine) {
    switch frame {
    case .delivery(let delivery):
      if case .invite(let invite) = delivery.event {
        invited(invite, delivery.call)
        calls[delivery.call]?.invited.insert(line.who)
        calls[delivery.call]?.pushed.remove(line.who.device)
      }
    case .ongoing(let ongoing): shown(ongoing, to: line.who)
    case .reply(_, .attached(let info)):
      if let ongoing = info.ongoing { shown(ongoing, to: line.who) }
      guard let state = info.forCall else { return }
      let answer = state.reason?.name ?? state.phase.name
      world.count("race.R5")
      world.count("late attach.\(answer)")
      attached(line.who, state)
    case .reply, .notice, .history, .relays: break
    }
  }

  private func shown(_ ongoing: OngoingCalls, to who: Who) {
    for entry in ongoing.calls where entry.device.text != who.device { race("R21", entry.call) }
  }

  // MARK: Edges

  /// The live calls of an edge's devices meet a race.
  func race(_ name: String, at edge: SimEdge, of devices: [SimDevice]) {
    for device in devices where device.line?.edge === edge {
      for view in device.calls.values where !view.isEnded { race(name, view.call) }
    }
  }
}
