internal import CallClient
package import CallCore
package import CallJudge
internal import CallWire

/// Judges a history as it happens: the promises of the product, per call and device. Does no I/O and
/// reads no clock.
///
/// It knows what the journal holds, so whatever a device is told can be held against the facts; and
/// it holds what devices are told against each other, so a lying journal is found as well.
package struct HistoryChecker: Sendable {
  package struct Bounds: Sendable {
    /// Within this time after the last fault every shard is served again, and everybody was told.
    package var takeover: Span = .seconds(8)
    /// How late a timer may be where nothing was wrong for `calmBefore`.
    package var timerLateness: Span = .milliseconds(600)
    package var calmBefore: Span = .seconds(12)
    /// Within this time a session hears of its command, be it "try again".
    package var answer: Span = .milliseconds(6500)
    /// Within this time a push is with its provider, or given up, where nothing was wrong with that
    /// provider, the gateways and the cluster for `calmBefore`.
    package var handOver: Span = .seconds(2)
    /// How far the clocks of two nodes may lie apart.
    package var skew: Span = .milliseconds(0)
    /// For how long at least a call waits for devices of which its shard does not know whether they
    /// are attached.
    package var waitForDevices: Span = .seconds(4)
    /// Within this time an attached device is told to ring, where nothing was wrong on its way for
    /// `takeover`.
    package var ring: Span = .seconds(2)

    package init() {}
  }

  struct Facts: Sendable {
    // In the journal.
    var placed: PlacedFacts?
    var alerting: Set<String> = []
    var answered: AnsweredFacts?
    var connected: (caller: Bool, winner: Bool) = (false, false)
    var legEnds: [String: LegEnd] = [:]
    var lostUntil: (caller: Timestamp?, winner: Timestamp?) = (nil, nil)
    var ended: EndedFacts?
    /// True times.
    var placedAt: Timestamp?
    var endedAt: Timestamp?
    var answeredAt: Timestamp?
    /// Since when it does not ring any more.
    var overAt: Timestamp? { answeredAt ?? endedAt }
    var pushed: [String: Set<PushPurpose>] = [:]

    /// Whose journal has it.
    var shard = 0

    // Told.
    var caller: Who?
    var placeSentAt: Timestamp?
    /// The caller's app was started again since it placed the call: it does not wait for that any more.
    var callerForgot = false
    var accepted = false
    /// Its client told the app before that that the call failed: it had asked often enough. The cluster
    /// may take it all the same (docs/reliability.md).
    var givenUp = false
    var winner: Who?
    var answeredBy: Who?
    var end: CallEnd<Who>?
    var told: [Who: Told] = [:]
    /// What each device ever said that can end the call, or its part in it.
    var acts: [Who: CallActs] = [:]
    /// A side's session broke, or may have: a new owner presumes it without a record.
    var mayBeLost = false
    var epoch: UInt64 = 0

    mutating func note(_ command: ClientCommand, by who: Who) {
      if case .call(_, let verb) = command { acts[who, default: []].formUnion(CallActs(verb)) }
    }
  }

  struct Told: Sendable {
    var events: [UInt64: Delivery.Event] = [:]
    var highest: UInt64 = 0
    var invited = false
    var won = false
    var end: CallEnd<Who>?
    var endVersion: UInt64?
    var signals: [UInt64: String] = [:]
    var app = App()
  }

  struct App: Sendable {
    var invited = false
    var answered = false
    var won = false
    var stopped = false
    /// By sender.
    var signals: [Who: HeardSignals] = [:]
  }

  struct Asked: Sendable {
    var command: ClientCommand
    var at: Timestamp
    var firstReply: ServerReply?
  }

  struct Link: Sendable {
    var who: Who
    var edge = ""
    var waiting: [UInt64: Timestamp] = [:]
    /// Since when the device knows that it is attached here; nil: it is not, or may not be any more.
    var attachedAt: Timestamp?
    var disturbedAt: Timestamp?
  }

  struct Owner: Sendable {
    var epoch: UInt64
    var node: String
    var since: Timestamp
  }

  struct Registered: Sendable {
    var stored = false
    /// It was acknowledged, and nothing has removed it since.
    var acknowledged = false
    /// When somebody asked for the removal, or it gave way.
    var removalAskedAt: Timestamp?

    /// A removal may be retransmitted several times before it is carried out.
    func mayGo(at now: Timestamp) -> Bool {
      removalAskedAt.map { now < $0 + .seconds(40) } ?? false
    }
  }

  package let bounds: Bounds
  package var calendar = FaultCalendar()
  /// Devices that a user may have registered; the next one makes the oldest go.
  package var devicesPerUser = CallLimits().devicesPerUser
  /// A device with so many calls is not told to ring by another one.
  package var liveCallsPerDevice = CallLimits().liveCallsPerDevice
  /// How often a rule had something to judge.
  package internal(set) var judged: [HistoryRule: Int] = [:]

  var calls: [CallID: Facts] = [:]
  var links: [Int: Link] = [:]
  var linksOf: [Who: Set<Int>] = [:]
  var asked: [Who: [UInt64: Asked]] = [:]
  var registrations: [Who: Registered] = [:]
  var history = PushHistory()
  var owners: [Int: Owner] = [:]
  /// When something was wrong with a node; under "": with NATS, or on all lines.
  var nodes: [String: FaultCalendar] = [:]
  /// Links on which a device asked to be attached, and has not heard that it is: its shard may take
  /// any of them for its session.
  var unansweredAttaches: [Who: Set<Int>] = [:]
  var senders = SignalSenders()
  /// Those that a rule of time watches; ended ones leave.
  var live: [CallID] = []
  /// True once a record of the journal was seen: facts are then held against it.
  var knowsJournal = false

  package init(bounds: Bounds = Bounds()) { self.bounds = bounds }

  /// Takes in what happened.
  /// - Returns: what must not be, if this shows it.
  package mutating func note(_ event: HistoryEvent, at now: Timestamp) -> HistoryViolation? {
    do throws(HistoryViolation) {
      switch event {
      case .journalled(let shard, let record):
        knowsJournal = true
        noteOwner(of: shard, record, now)
        for entry in record.entries { try journalled(entry, record, shard, now) }
      case .stored(let who, let present): try stored(who, present, now)
      case .opened(let who, let link, let edge):
        links[link] = Link(who: who, edge: edge)
        unsteady(who, now)
        linksOf[who, default: []].insert(link)
      case .closed(let link):
        if let who = links.removeValue(forKey: link)?.who { linksOf[who]?.remove(link) }
      case .broken(let link): links[link]?.attachedAt = nil
      case .trouble(let node, let from, let until):
        nodes[node ?? "", default: FaultCalendar()].add(from: from, until: until)
      case .disturbed(let link):
        unsteady(links[link]?.who, now)
        links[link]?.disturbedAt = now
        for id in Array(links[link]?.waiting.keys ?? [:].keys) {
          links[link]?.waiting[id] = now
        }
      case .sent(let who, let link, let frame): sent(who, link, frame, now)
      case .received(let who, let link, let frame): try received(who, link, frame, now)
      case .told(let who, let event): try told(who, event, now)
      case .restarted(let who): restarted(who)
      case .push(let event): try push(event, now)
      }
      return nil
    } catch {
      return error
    }
  }

  // MARK: What devices say

  private mutating func sent(_ who: Who, _ link: Int, _ frame: ClientFrame, _ now: Timestamp) {
    switch frame.command {
    case .ack: return
    case .place(let address, _):
      if calls[address.call]?.caller == nil { calls[address.call, default: Facts()].caller = who }
      if calls[address.call]?.caller == who { calls[address.call]?.callerForgot = false }
      if calls[address.call]?.placeSentAt == nil { calls[address.call]?.placeSentAt = now }
    case .attach: unansweredAttaches[who, default: []].insert(link)
    case .detach: links[link]?.attachedAt = nil
    case .call(_, .signal(_, let body)): senders.sent(who, body)
    case .unregister(let device):
      registrations[Who(who.user, device?.text ?? who.device), default: Registered()]
        .removalAskedAt = now
    case .register, .call, .ping, .calls, .renew: break
    }
    guard frame.id > 0 else { return }
    if let call = frame.command.address?.call {
      calls[call, default: Facts()].note(frame.command, by: who)
    }
    if asked[who]?[frame.id] == nil {
      asked[who, default: [:]][frame.id] = Asked(command: frame.command, at: now)
    }
    if case .detach = frame.command { return }
    links[link]?.waiting[frame.id] = now
  }

  private mutating func restarted(_ who: Who) {
    asked[who] = nil
    senders.restarted(who)
    history.woken[who] = nil
    for link in linksOf.removeValue(forKey: who) ?? [] { links[link] = nil }
    for id in calls.keys {
      if calls[id]?.told[who] != nil { calls[id]?.told[who]?.app = App() }
      if calls[id]?.caller == who { calls[id]?.callerForgot = true }
    }
  }

  // MARK: Registrations

  private mutating func stored(
    _ who: Who, _ present: Bool, _ now: Timestamp
  ) throws(HistoryViolation) {
    var entry = registrations[who, default: Registered()]
    defer { registrations[who] = entry }
    if present {
      entry.stored = true
      return
    }
    entry.stored = false
    let siblings = registrations.count { $0.key.user.hasBytes(of: who.user) && $0.value.stored }
    try require(
      entry.mayGo(at: now) || siblings >= devicesPerUser || !entry.acknowledged,
      .registrationKept, nil, "\(who) was removed, and nobody asked for it")
    entry.acknowledged = false
  }

  mutating func registered(_ who: Who, _ now: Timestamp) throws(HistoryViolation) {
    var entry = registrations[who, default: Registered()]
    try require(
      entry.stored || entry.mayGo(at: now) || !knowsJournal, .registrationKept, nil,
      "\(who) was told it is registered, and is not stored")
    if entry.stored { entry.acknowledged = true }
    registrations[who] = entry
  }
}
