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
  package internal(set) var counts: [CorrectnessRule: Int] = [:]
  package internal(set) var examples: [CorrectnessRule: [String]] = [:]
  var exampleCalls: [CorrectnessRule: Set<CallID>] = [:]
  var records: [CallID: CallRecord] = [:]
  var talks = TalkIndex()
  var ongoing = OngoingBook()
  private var waiting: [UInt64: Waiting] = [:]
  /// Judged calls: the caller of each, and the calls, oldest first.
  var remembered: [CallID: Int] = [:]
  var rememberedOrder = CircularBuffer<CallID>()
  var crossings = CrossingJudge()
  var consultations = ConsultationJudge()
  /// The last call that a push woke a device for.
  private var wokenFor: [Int: CallID] = [:]

  package init(roster: Roster, seed: UInt64, timeline: FaultTimeline? = nil) {
    self.timeline = timeline ?? FaultTimeline(roster: roster, app: "", shardCount: 0)
    self.roster = roster
    self.seed = seed
    for rule in CorrectnessRule.allCases { counts[rule] = 0 }
  }

  package mutating func planned(_ facts: Facts) {
    let shards = shards(of: facts.route, facts.callees)
    var record = CallRecord(
      facts: facts, roster: roster, shard: shards[0], guestShards: Array(shards.dropFirst()),
      thirdShard: facts.transfer.map { timeline.shard(ofUser: roster.userName($0.user)) } ?? -1)
    noteTalks(&record)
    records[facts.call] = record
    for user in record.users { talks.add(facts.call, of: user) }
  }

  /// The shards that a call needs while it rings, its own first.
  /// - Parameter transfer: who is to take a side later.
  func shards(
    of route: CallRoute, _ callees: Range<Int>, _ transfer: TransferTerms? = nil
  ) -> [Int] {
    let users = Set(callees.map(roster.user)).sorted() + (transfer.map { [$0.user] } ?? [])
    let ofDevices = users.map { timeline.shard(ofUser: roster.userName($0)) }
    return (route.called(roster).map { [timeline.shard(ofUser: $0)] } ?? []) + ofDevices
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
      if case .transfer(let request) = verb { record.asksForTransfer(device, request, at: now) }
      if case .pull = verb { record.change(device) { $0.pulledAt = $0.pulledAt ?? now } }
      let act = CallActs(verb)
      if !act.isEmpty { record.change(device) { $0.act(act, at: now) } }
    }
  }

  /// The device gave a command up: none of its attempts got a final reply.
  /// - Parameter isAttached: else it was without a connection for so long that its user has given the call up.
  package mutating func gaveUp(
    device: Int, request: UInt64, _ command: ClientCommand, isAttached: Bool = true,
    at now: Timestamp
  ) {
    // Where an earlier attempt was refused, the app has that as the command's result.
    if let refusal = waiting[Self.key(device, request)]?.refusal {
      return refused(device: device, request: request, refusal, at: now)
    }
    guard let waited = finish(device, request, at: now) else {
      // It was never sent. Without a connection for so long a client gives a call up.
      guard case .place(let address, _) = command else { return }
      return change(address.call) { record in
        record.note(.gaveUp, of: device, at: now)
        record.refusePlace(.notAttached)
      }
    }
    change(waited.call) { record in
      record.note(.gaveUp, of: device, at: now)
      if isAttached {
        record.violate(.commandLost, "no reply to \(waited.command.name)")
      } else if case .place = waited.command {
        record.refusePlace(.tryAgain)
      }
    }
  }

  /// The cluster asked for a retry until the device had no attempt left.
  package mutating func refused(
    device: Int, request: UInt64, _ code: CallError.Code, at now: Timestamp
  ) {
    guard let waited = finish(device, request, at: now) else { return }
    change(waited.call) { record in
      record.note(.replied(.error(CallError(code))), of: device, at: now)
      if case .place = waited.command { record.refusePlace(code) } else { record.refusal = code }
    }
  }

  package mutating func detached(device: Int, from calls: [CallID], at now: Timestamp) {
    endsToWatch(device)
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
      if case .invite(let invite) = delivery.event {
        examineSecond(invite, delivery.call, device, at: now)
      }
    case .reply(_, .attached(let info)):
      if let state = info.ongoing { beginsToWatch(device, state, at: now) }
    case .reply(let id, let reply): replied(device, id, reply, at: now)
    case .ongoing(let state): shown(device, state, at: now)
    case .notice, .history, .relays: break
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

  // MARK: Records

  /// Removes a command that waits no longer, and counts its wait.
  private mutating func finish(_ device: Int, _ request: UInt64, at now: Timestamp) -> Waiting? {
    guard let waited = waiting.removeValue(forKey: Self.key(device, request)) else { return nil }
    waits.record(now - waited.at)
    change(waited.call) { $0.outstanding -= 1 }
    return waited
  }

  /// In place, so that the record's arrays are not copied.
  mutating func change(_ call: CallID, _ body: (inout CallRecord) -> Void) {
    guard let index = records.index(forKey: call) else { return }
    body(&records.values[index])
  }

  private static func key(_ device: Int, _ request: UInt64) -> UInt64 {
    UInt64(device) << 36 | request & 0xF_FFFF_FFFF
  }
}
