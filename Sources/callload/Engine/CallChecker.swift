import CallClient
package import CallCore
import CallJudge
package import CallWire
import NIOCore

/// Judges what devices were told, from the raw frames, independently of what the client's machine
/// makes of them.
///
/// It is told of each call, of everything that a device says and hears in it, and when to judge. It
/// does no I/O and reads no clock. Memory is bounded by the calls that are not judged yet, and by
/// `memory` for what is remembered of judged ones.
package struct CallChecker: Sendable {
  struct Sent: Sendable {
    var call: CallID
    var what: TraceLine.What
    var at: Timestamp
    var candidate: NumberedCandidate?
    /// What the cluster said last to an attempt.
    var refusal: CallError.Code?
  }

  /// How much later than another edge's a message of one edge may arrive here, clocks' resolution included.
  static let skew: Span = .seconds(2)
  /// An end may be told this much before the deadline as we count it.
  static let early: Span = .seconds(1)
  /// Judged calls that are remembered, so that a device that is told to ring later is noticed.
  static let rememberedMax = 20_000
  static let examplesMax = 3

  package let roster: Roster
  package let seed: UInt64
  /// What the judge may put down to faults.
  package var timeline: FaultTimeline
  /// From a command's first sending to its reply, in microseconds.
  package private(set) var waits = LatencyBook.histogram()
  package private(set) var repeatedCommands = 0
  package private(set) var counts: [CorrectnessRule: Int] = [:]
  package private(set) var examples: [CorrectnessRule: [String]] = [:]
  private struct Example: Hashable {
    var rule: CorrectnessRule
    var call: CallID
  }
  private var exampleCalls: Set<Example> = []
  var records: [CallID: CallRecord] = [:]
  /// By device and request.
  var sent: [UInt64: Sent] = [:]
  /// Judged: the caller of each call, and the calls, oldest first.
  private var remembered: [CallID: Int] = [:]
  private var rememberedOrder = CircularBuffer<CallID>()
  /// The call that a push woke a device for last.
  private var wokenFor: [Int: CallID] = [:]

  package init(roster: Roster, seed: UInt64, timeline: FaultTimeline? = nil) {
    self.timeline = timeline ?? FaultTimeline(roster: roster, app: "", shardCount: 0)
    self.roster = roster
    self.seed = seed
    for rule in CorrectnessRule.allCases { counts[rule] = 0 }
  }

  package var openCount: Int { records.count }

  package mutating func planned(_ facts: Facts) {
    records[facts.call] = CallRecord(
      facts: facts, roster: roster, shard: timeline.shard(ofDevice: facts.callees.lowerBound))
  }

  /// Whether everybody in the call knows that it is over and no command waits for its reply.
  package func isSettled(_ call: CallID) -> Bool { records[call]?.isSettled ?? true }

  // MARK: What devices do

  /// A device's command goes out, for the first time or again.
  package mutating func said(device: Int, _ frame: ClientFrame, at now: Timestamp) {
    guard let address = frame.command.address, let what = TraceLine.What.of(frame.command) else {
      return
    }
    let key = Self.key(device, frame.id)
    let again = sent[key] != nil
    if !again {
      sent[key] = Sent(
        call: address.call, what: what, at: now, candidate: Self.candidate(frame.command))
    }
    if again { repeatedCommands += 1 }
    change(address.call) { record in
      if !again { record.outstanding += 1 }
      var line = TraceLine(at: now, device: Int32(device), what: what)
      line.detail = UInt8(clamping: Self.candidate(frame.command)?.number ?? 0)
      record.note(line)
      guard case .call(_, let verb) = frame.command else { return }
      let act = CallActs(verb)
      if !act.isEmpty { record.change(device) { $0.act(act, at: now) } }
    }
  }

  /// The device gave a command up: no reply came, however often it asked.
  package mutating func gaveUp(device: Int, request: UInt64, at now: Timestamp) {
    guard let command = sent[Self.key(device, request)] else { return }
    // The last of several attempts; those before it were refused, so its app knows what to think.
    if let refusal = command.refusal {
      return refused(device: device, request: request, refusal, at: now)
    }
    sent[Self.key(device, request)] = nil
    ChaosResult.record(now - command.at, in: &waits)
    change(command.call) { record in
      record.outstanding -= 1
      record.note(TraceLine(at: now, device: Int32(device), what: .gaveUp))
      record.violate(.commandLost, "no reply to \(command.what)")
    }
  }

  /// The cluster asked for another attempt until the device had no more.
  package mutating func refused(
    device: Int, request: UInt64, _ code: CallError.Code, at now: Timestamp
  ) {
    guard let command = sent.removeValue(forKey: Self.key(device, request)) else { return }
    ChaosResult.record(now - command.at, in: &waits)
    change(command.call) { record in
      record.outstanding -= 1
      record.refusal = code
      record.note(TraceLine(at: now, device: Int32(device), what: .error, code: code.rawValue))
      // Who was told that it rings knows better.
      if command.what == .place, !record.caller.isTold { record.caller.left = true }
    }
  }

  package mutating func detached(device: Int, from calls: some Sequence<CallID>, at now: Timestamp)
  {
    for call in calls {
      change(call) { record in
        record.change(device) { part in
          part.wasAway = true
          // An attempt that fails is no session lost.
          let wasBack = part.awaySince.map { since in part.attachedAt.map { since <= $0 } ?? false }
          if wasBack ?? true { part.awaySince = now }
        }
        record.note(TraceLine(at: now, device: Int32(device), what: .detached))
      }
    }
  }

  package mutating func woken(_ device: Int, for call: CallID) {
    wokenFor[device] = call
    change(call) { record in record.change(device) { $0.wasWoken = true } }
  }

  package mutating func attached(device: Int, in calls: some Sequence<CallID>, at now: Timestamp) {
    for call in calls {
      change(call) { record in
        record.change(device) { $0.attachedAt = now }
        record.note(TraceLine(at: now, device: Int32(device), what: .attached))
      }
    }
  }

  // MARK: What devices are told

  package mutating func told(device: Int, _ frame: ServerFrame, at now: Timestamp) {
    switch frame {
    case .delivery(let delivery): delivered(device, delivery, at: now)
    case .reply(let id, let reply): replied(device, id, reply, at: now)
    case .notice: break
    }
  }

  private mutating func delivered(_ device: Int, _ delivery: Delivery, at now: Timestamp) {
    guard records[delivery.call] != nil else { return late(device, delivery, at: now) }
    change(delivery.call) { $0.receive(device, delivery, at: now) }
  }

  private mutating func replied(
    _ device: Int, _ id: UInt64, _ reply: ServerReply, at now: Timestamp
  ) {
    let key = Self.key(device, id)
    guard let command = sent[key] else { return }
    // The device will ask again; `refused` or a later reply tells how it ends.
    if case .error(let error) = reply, error.code.asksForRetry {
      sent[key]?.refusal = error.code
      change(command.call) {
        $0.note(TraceLine(at: now, device: Int32(device), what: .error, code: error.code.rawValue))
      }
      return
    }
    sent[key] = nil
    ChaosResult.record(now - command.at, in: &waits)
    change(command.call) { record in
      record.outstanding -= 1
      record.receive(device, command.what, reply, at: now)
      if let candidate = command.candidate, !reply.isError {
        record.signals.accepted(candidate, at: now)
      }
    }
  }

  package mutating func received(device: Int, in call: CallID, _ signal: Signal) {
    guard let candidate = NumberedCandidate(body: signal.body) else { return }
    change(call) { $0.receiveCandidate(candidate, by: device) }
  }

  /// Whether no command of a call waits for its reply, and each of two devices has what the other sent.
  func haveAll(_ one: Int, _ other: Int, in call: CallID) -> Bool {
    guard let record = records[call] else { return true }
    let signals = record.signals
    return record.outstanding == 0 && signals.missingCount(from: one, to: other) == 0
      && signals.missingCount(from: other, to: one) == 0
  }

  /// About a call that was judged already.
  private mutating func late(_ device: Int, _ delivery: Delivery, at now: Timestamp) {
    guard case .invite = delivery.event, let caller = remembered[delivery.call] else { return }
    guard !timeline.mayComeLate(to: device, at: now) else { return }
    let (seed, roster) = (seed, roster)
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
    let seed = seed
    record.examine(at: now, timeline, isAttached: isAttached)
    for violation in record.violations {
      broken(violation.rule, of: call, record.story(violation.reason, seed: seed))
    }
    remember(call, caller: record.facts.caller)
    let outcome = record.outcome
    var verdict = Verdict(outcome: outcome, violations: record.violations, refusal: record.refusal)
    if !allowed.contains(outcome) {
      verdict.explainedBy = record.explanation(of: outcome, timeline)?.kind
      verdict.story = verdict.explainedBy == nil ? record.story(seed: seed, timeline) : nil
    }
    return verdict
  }

  /// A rule that is about the cluster as a whole was broken so many times.
  package mutating func broken(_ rule: CorrectnessRule, count: Int, _ story: String) {
    guard count > 0 else { return }
    counts[rule, default: 0] += count
    examples[rule, default: []].append(story)
  }

  /// A call's pushes broke a rule.
  mutating func pushesBroke(_ violation: Violation<CorrectnessRule>, of call: CallID) {
    let seed = seed
    broken(violation.rule, of: call, "call \(call), seed \(seed): \(violation.reason)")
  }

  private mutating func broken(
    _ rule: CorrectnessRule, of call: CallID, _ story: @autoclosure () -> String
  ) {
    counts[rule, default: 0] += 1
    // Three stories of one call say less than one each of three.
    guard examples[rule, default: []].count < Self.examplesMax,
      exampleCalls.insert(Example(rule: rule, call: call)).inserted
    else { return }
    examples[rule, default: []].append(story())
  }

  private mutating func remember(_ call: CallID, caller: Int) {
    remembered[call] = caller
    rememberedOrder.append(call)
    if rememberedOrder.count > Self.rememberedMax {
      remembered[rememberedOrder.removeFirst()] = nil
    }
  }

  // MARK: Small parts

  /// In place, so that the record's arrays are not copied.
  private mutating func change(_ call: CallID, _ body: (inout CallRecord) -> Void) {
    guard let index = records.index(forKey: call) else { return }
    body(&records.values[index])
  }

  private static func key(_ device: Int, _ request: UInt64) -> UInt64 {
    UInt64(device) << 36 | request & 0xF_FFFF_FFFF
  }

  private static func candidate(_ command: ClientCommand) -> NumberedCandidate? {
    guard case .call(_, .signal(.candidate, let body)) = command else { return nil }
    return NumberedCandidate(body: body)
  }
}
