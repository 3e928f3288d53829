import CallClient
package import CallCore
import CallJudge
package import CallWire
import NIOCore

/// Judges what devices received, from the raw frames, independently of the client's own machine.
///
/// It is given each call, all frames that a device sends and receives in it, and the time to judge. It
/// does no I/O and reads no clock. Memory is bounded by the calls that are not judged yet, and by
/// `rememberedMax` for judged ones.
package struct CallChecker: Sendable {
  private struct Waiting: Sendable {
    var call: CallID
    var command: ClientCommand
    var at: Timestamp
    /// The last reply that asked for a retry.
    var refusal: CallError.Code?
  }

  /// Messages of different edges may arrive out of order by this much, clocks' resolution included.
  static let skew: Span = .seconds(2)
  /// An end may come this much before the deadline as we count it.
  static let early: Span = .seconds(1)
  /// Judged calls that are remembered, so that a later invite is noticed.
  static let rememberedMax = 20_000
  static let examplesMax = 3

  package let roster: Roster
  package let seed: UInt64
  /// The faults that the judge may excuse something with.
  package var timeline: FaultTimeline
  /// From a command's first sending to its reply, in microseconds.
  package private(set) var waits = LatencyHistogram()
  package private(set) var repeatedCommands = 0
  package private(set) var counts: [CorrectnessRule: Int] = [:]
  package private(set) var examples: [CorrectnessRule: [String]] = [:]
  private var exampleCalls: [CorrectnessRule: Set<CallID>] = [:]
  private var records: [CallID: CallRecord] = [:]
  private var waiting: [UInt64: Waiting] = [:]
  /// Judged calls: the caller of each, and the calls, oldest first.
  private var remembered: [CallID: Int] = [:]
  private var rememberedOrder = CircularBuffer<CallID>()
  private var crossings = CrossingJudge()
  /// The last call that a push woke a device for.
  private var wokenFor: [Int: CallID] = [:]

  package init(roster: Roster, seed: UInt64, timeline: FaultTimeline? = nil) {
    self.timeline = timeline ?? FaultTimeline(roster: roster, app: "", shardCount: 0)
    self.roster = roster
    self.seed = seed
    for rule in CorrectnessRule.allCases { counts[rule] = 0 }
  }

  package mutating func planned(_ facts: Facts) {
    let called = facts.forwarder.map { roster.devices(of: $0) } ?? facts.callees
    records[facts.call] = CallRecord(
      facts: facts, roster: roster, shard: timeline.shard(ofDevice: called.lowerBound))
  }

  /// Whether all devices in the call were notified of its end and no command waits for its reply.
  package func isSettled(_ call: CallID) -> Bool { records[call]?.isSettled ?? true }

  // MARK: Devices' commands and sessions

  /// A device sends a command, for the first time or again.
  package mutating func sent(device: Int, _ frame: ClientFrame, at now: Timestamp) {
    guard let call = frame.command.address?.call else { return }
    let key = Self.key(device, frame.id)
    let isRepeated = waiting[key] != nil
    if isRepeated {
      repeatedCommands += 1
    } else {
      waiting[key] = Waiting(call: call, command: frame.command, at: now)
    }
    change(call) { record in
      if !isRepeated { record.outstanding += 1 }
      record.note(.sent(frame.command), of: device, at: now)
      guard case .call(_, let verb) = frame.command else { return }
      if case .pull = verb { record.change(device) { $0.pulls = true } }
      let act = CallActs(verb)
      if !act.isEmpty { record.change(device) { $0.act(act, at: now) } }
    }
  }

  /// The device gave a command up: none of its attempts got a final reply.
  package mutating func gaveUp(device: Int, request: UInt64, at now: Timestamp) {
    // Where an earlier attempt was refused, the app has that as the command's result.
    if let refusal = waiting[Self.key(device, request)]?.refusal {
      return refused(device: device, request: request, refusal, at: now)
    }
    guard let waited = finish(device, request, at: now) else { return }
    change(waited.call) { record in
      record.note(.gaveUp, of: device, at: now)
      record.violate(.commandLost, "no reply to \(waited.command.name)")
    }
  }

  /// The cluster asked for a retry until the device had no attempt left.
  package mutating func refused(
    device: Int, request: UInt64, _ code: CallError.Code, at now: Timestamp
  ) {
    guard let waited = finish(device, request, at: now) else { return }
    change(waited.call) { record in
      record.refusal = code
      record.note(.replied(.error(CallError(code))), of: device, at: now)
      // A caller that was notified of ringing is in the call all the same.
      if case .place = waited.command, !record.caller.wasNotified { record.caller.left = true }
    }
  }

  package mutating func detached(device: Int, from calls: [CallID], at now: Timestamp) {
    note(.detached, of: device, in: calls, at: now) { $0.detached(at: now) }
  }

  package mutating func attached(device: Int, in calls: [CallID], at now: Timestamp) {
    note(.attached, of: device, in: calls, at: now) { $0.attachedAt = now }
  }

  private mutating func note(
    _ event: TraceLine.Event, of device: Int, in calls: [CallID], at now: Timestamp,
    _ change: (inout DeviceRecord) -> Void
  ) {
    for call in calls {
      self.change(call) { record in
        record.change(device, change)
        record.note(event, of: device, at: now)
      }
    }
  }

  package mutating func woken(_ device: Int, for call: CallID) {
    wokenFor[device] = call
    change(call) { record in record.change(device) { $0.wasWoken = true } }
  }

  // MARK: What devices receive

  package mutating func received(device: Int, _ frame: ServerFrame, at now: Timestamp) {
    switch frame {
    case .delivery(let delivery):
      guard records[delivery.call] != nil else { return late(device, delivery, at: now) }
      change(delivery.call) { $0.receive(device, delivery, at: now) }
    case .reply(let id, let reply): replied(device, id, reply, at: now)
    case .notice, .ongoing, .history: break
    }
  }

  private mutating func replied(
    _ device: Int, _ id: UInt64, _ reply: ServerReply, at now: Timestamp
  ) {
    // The device retries after these errors; `refused` or a later reply has the result.
    if case .error(let error) = reply, error.code.asksForRetry {
      let key = Self.key(device, id)
      guard let call = waiting[key]?.call else { return }
      waiting[key]?.refusal = error.code
      return change(call) { $0.note(.replied(reply), of: device, at: now) }
    }
    guard let waited = finish(device, id, at: now) else { return }
    change(waited.call) { record in
      record.receive(device, waited.command, reply, at: now)
      if !reply.isError, let candidate = NumberedCandidate(waited.command) {
        record.signals.accepted(candidate, at: now)
      }
    }
  }

  /// The device's app gets a signal from its client.
  package mutating func appReceived(device: Int, in call: CallID, _ signal: Signal) {
    guard let candidate = NumberedCandidate(body: signal.body) else { return }
    change(call) { $0.receiveCandidate(candidate, by: device) }
  }

  /// Whether no command of a call waits for its reply, and each of two devices has what the other sent.
  func haveAll(_ one: Int, _ other: Int, in call: CallID) -> Bool {
    guard let record = records[call] else { return true }
    return record.outstanding == 0
      && SignalLedger.Stream.bothWays(one, other).allSatisfy {
        record.signals.missing(in: $0).isEmpty
      }
  }

  private mutating func late(_ device: Int, _ delivery: Delivery, at now: Timestamp) {
    guard case .invite = delivery.event, let caller = remembered[delivery.call],
      !timeline.mayComeLate(to: device, at: now)
    else { return }
    let isWoken = wokenFor[device] == delivery.call
    broken(
      isWoken ? .wokenRangAfterEnd : .toldToRingAfterEnd, of: delivery.call,
      "call \(delivery.call), seed \(seed): \(roster.party(device).text) was told to ring long "
        + "after the call of \(roster.party(caller).text) had ended")
  }

  // MARK: Judging

  /// Judges a call and forgets its history.
  /// - Parameter isAttached: whether a device is connected now; one that is not may lack news.
  package mutating func judge(
    _ call: CallID, at now: Timestamp, allowed: [CallOutcome] = [], isAttached: (Int) -> Bool
  ) -> Verdict? {
    guard var record = records.removeValue(forKey: call) else { return nil }
    record.examine(at: now, timeline, isAttached: isAttached)
    for violation in record.violations {
      broken(violation.rule, of: call, record.story(violation.reason, seed: seed))
    }
    remember(call, caller: record.facts.caller)
    let outcome = record.outcome
    if let other = record.facts.crosses,
      let what = crossings.judged(call, crosses: other, outcome)
    {
      record.violate(.twoCallsOfGlare, what)
      broken(.twoCallsOfGlare, of: call, record.story(what, seed: seed))
    }
    var verdict = Verdict(
      outcome: outcome, violations: record.violations, fate: record.fate)
    if !allowed.contains(outcome) {
      verdict.explainedBy = record.explanation(of: outcome, timeline)?.kind
      verdict.story = verdict.explainedBy == nil ? record.story(seed: seed, timeline) : nil
    }
    return verdict
  }

  /// A rule about the cluster as a whole was broken this many times.
  package mutating func broken(_ rule: CorrectnessRule, count: Int, _ story: String) {
    guard count > 0 else { return }
    counts[rule, default: 0] += count
    examples[rule, default: []].append(story)
  }

  mutating func pushesBroke(_ violation: Violation<CorrectnessRule>, of call: CallID) {
    broken(violation.rule, of: call, "call \(call), seed \(seed): \(violation.reason)")
  }

  private mutating func broken(
    _ rule: CorrectnessRule, of call: CallID, _ story: String
  ) {
    counts[rule, default: 0] += 1
    // One example of each of three calls tells more than three of one call.
    guard examples[rule, default: []].count < Self.examplesMax,
      exampleCalls[rule, default: []].insert(call).inserted
    else { return }
    examples[rule, default: []].append(story)
  }

  private mutating func remember(_ call: CallID, caller: Int) {
    remembered[call] = caller
    rememberedOrder.append(call)
    if rememberedOrder.count > Self.rememberedMax {
      remembered[rememberedOrder.removeFirst()] = nil
    }
  }

  // MARK: Records

  /// Removes a command that waits no longer, and counts its wait.
  private mutating func finish(_ device: Int, _ request: UInt64, at now: Timestamp) -> Waiting? {
    guard let waited = waiting.removeValue(forKey: Self.key(device, request)) else { return nil }
    waits.record(now - waited.at)
    change(waited.call) { $0.outstanding -= 1 }
    return waited
  }

  /// In place, so that the record's arrays are not copied.
  private mutating func change(_ call: CallID, _ body: (inout CallRecord) -> Void) {
    guard let index = records.index(forKey: call) else { return }
    body(&records.values[index])
  }

  private static func key(_ device: Int, _ request: UInt64) -> UInt64 {
    UInt64(device) << 36 | request & 0xF_FFFF_FFFF
  }
}
