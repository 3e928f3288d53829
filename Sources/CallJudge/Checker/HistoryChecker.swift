package import CallCore
internal import CallWire

/// Judges a history as it happens: the promises of the product, per call and device. Does no I/O and
/// reads no clock.
///
/// It compares what devices receive with the journal, and with each other, so a wrong journal is found
/// as well.
package struct HistoryChecker: Sendable {
  package struct Bounds: Sendable {
    /// Within this time after the last fault all shards are served and all devices are notified.
    package var takeover: Span = .seconds(8)
    /// How late a timer may be if there was no fault for `calmBefore`.
    package var timerLateness: Span = .milliseconds(600)
    package var calmBefore: Span = .seconds(12)
    /// Within this time a command is answered, possibly with "try again".
    package var answer: Span = .milliseconds(6500)
    /// Within this time a push is with its provider, or given up, if that provider, the gateways and
    /// the cluster had no fault for `calmBefore`.
    package var handOver: Span = .seconds(2)
    /// How far the clocks of two nodes may lie apart.
    package var skew: Span = .milliseconds(0)
    /// The least time for which a call waits for devices that may be attached without their shard's
    /// knowledge.
    package var waitForDevices: Span = .seconds(4)
    /// Within this time an attached device is invited, if there was no fault on its way for `takeover`.
    package var ring: Span = .seconds(2)
    /// Within this time two calls that cross become one, if there was no fault for `calmBefore`.
    package var merge: Span = .seconds(1)

    package init() {}
  }

  package let app: JudgedApp
  package let bounds: Bounds
  /// The time of the present event.
  var now = Timestamp(microseconds: 0)
  package var calendar = FaultCalendar()
  /// The most registered devices of a user; another one replaces the oldest.
  package var devicesPerUser = CallLimits().devicesPerUser
  /// Whether a user in an answered call is busy.
  package var busyWhileInCall = false
  /// How long a call rings that goes on to others.
  package var forwardedRing = ForwardedRing.anew
  /// How long a call rings whose caller chose nothing.
  package var ringTimeout = CallLimits().ringTimeout
  /// The number of shards of the cluster.
  package var shardCount = 8
  /// Whether ended calls get records.
  package var keepsRecords = false
  /// Whether the app has histories.
  package var keepsHistory = false
  /// Whether the app has webhooks.
  package var hasWebhooks = false
  /// Whether the app has a hook, which may refuse calls.
  package var hasHook = false
  /// For how long a call of a caller that is away goes on.
  package var resumeGrace = CallLimits().resumeGraceAnswered
  /// A device with so many calls gets no further invites.
  package var liveCallsPerDevice = CallLimits().liveCallsPerDevice
  /// How often a rule had something to judge.
  package internal(set) var judged: [HistoryRule: Int] = [:]

  var calls: [CallID: Facts] = [:]
  var links: [Int: Link] = [:]
  /// The links of all devices of a user.
  var linksOf: [UserKey: Set<Int>] = [:]
  var asked: [Who: [UInt64: Asked]] = [:]
  var registrations: [Who: Registered] = [:]
  var history = PushHistory()
  var owners: [Int: Owner] = [:]
  /// Faults of each node; under "": of NATS, or of all lines.
  var nodes: [String: FaultCalendar] = [:]
  /// Links with an attach that was not answered: the shard may take any of them as the session.
  var unansweredAttaches: [Who: Set<Int>] = [:]
  /// When each device sent an attach.
  var attachTimes: [Who: [Timestamp]] = [:]
  var senders = SignalSenders()
  /// Calls under the rules of time; ended ones are removed.
  var live: [CallID] = []
  var crossings: [CrossingPair] = []
  /// Calls that gave way, until their survivors were judged.
  var gaveWay: [CallID] = []
  /// The user's calls as its apps show them.
  var shown: [Who: [OngoingCall]] = [:]
  var decided: [UserKey: Decided] = [:]
  var names: [UserKey: [StoredName]] = [:]
  /// The calls that the app's server asked to place, and the times at which it asked to end calls.
  var serverPlaces: [CallID: HTTPBodies.PlaceCall] = [:]
  var serverEnds: [CallID: Timestamp] = [:]
  /// Devices of which the app has learned that their registration is about to go.
  var endsTold: Set<Who> = []
  /// The history of each user, by the store.
  var histories: [UserKey: [(cursor: HistoryCursor, message: HistoryMessage)]] = [:]
  /// When each message of them was stored.
  var historyTimes: [UserKey: [Timestamp]] = [:]
  /// True once a record of the journal was seen.
  var knowsJournal = false
  package var sight = Sight.all
  var callsOf: [UserKey: [CallID]] = [:]
  /// Calls of which nothing is judged any longer, and since when. `isOver`: they were judged to their end.
  var forgotten: [CallID: (at: Timestamp, isOver: Bool)] = [:]

  /// The shards of whose journals records are missing at this time.
  var unread: Set<Int> = []

  package init(_ app: JudgedApp, bounds: Bounds = Bounds()) {
    self.app = app
    self.bounds = bounds
  }

  /// Takes in an event.
  /// - Returns: the rule that it breaks, if any.
  package mutating func note(_ event: HistoryEvent, at now: Timestamp) -> HistoryViolation? {
    self.now = now
    if !unread.isEmpty { forgetUnread(event) }
    do throws(HistoryViolation) {
      switch event {
      case .journalled(let shard, let record):
        knowsJournal = true
        noteOwner(of: shard, record)
        // The others are no less true where one breaks a rule.
        var broken: HistoryViolation?
        for entry in record.entries where forgotten[entry.call] == nil {
          do throws(HistoryViolation) {
            try journalled(entry, record, shard)
          } catch {
            broken = broken ?? error
          }
        }
        if let broken { throw broken }
      case .stored(let who, let present): try stored(who, present)
      case .opened(let who, let link, let edge):
        links[link] = Link(who: who, edge: edge)
        unsteady(who)
        linksOf[userKey(who.user), default: []].insert(link)
      case .closed(let link):
        remove(link)
      case .broken(let link): links[link]?.attachedAt = nil
      case .trouble(let node, let from, let until):
        nodes[node ?? "", default: FaultCalendar()].add(from: from, until: until)
      case .disturbed(let link):
        unsteady(links[link]?.who)
        links[link]?.disturbedAt = now
        for id in Array(links[link]?.waiting.keys ?? [:].keys) {
          links[link]?.waiting[id] = now
        }
      case .sent(let who, let link, let frame): sent(who, link, frame)
      case .received(let who, let link, let frame): try received(who, link, frame)
      case .heard(let who, let news): try heard(who, news)
      case .restarted(let who): restarted(who)
      case .push(let event): try push(event)
      case .recorded(let records): try recorded(records)
      case .remembered(let user, let number, let message):
        try remembered(user, number, message)
      case .learned(let events): try learned(events)
      case .decided(let user, let rules): decided(user, rules)
      case .server(let event): try server(event)
      }
      return nil
    } catch {
      return error
    }
  }

  // MARK: From devices

  private mutating func sent(_ who: Who, _ link: Int, _ frame: ClientFrame) {
    switch frame.command {
    case .ack: return
    case .place(let address, let request) where forgotten[address.call] == nil:
      var facts = calls[address.call, default: Facts()]
      concerns(address.call, who.user, &facts)
      facts.caller = facts.caller ?? who
      if facts.caller == who { facts.callerForgot = false }
      facts.placeSentAt = facts.placeSentAt ?? now
      facts.placesSent += 1
      facts.ringsChosen.insert(request.setup.ringTimeoutSeconds)
      calls[address.call] = facts
    case .attach:
      unansweredAttaches[who, default: []].insert(link)
      attachTimes[who, default: []].append(now)
    case .detach: links[link]?.attachedAt = nil
    case .call(let address, .answer): noteAnswer(who, link, address.call)
    case .call(let address, .signal(let kind, let body)):
      senders.sent(who, address.call, body)
      noteSignal(who, body, address.call)
      // It is refused; if the refusal is lost, it is sent again, and may be taken behind later ones.
      if kind == .information, calls[address.call]?.answered == nil {
        senders.gaveUp(address.call, body)
      }
    case .unregister(let device):
      registrations[Who(who.user, device?.text ?? who.device), default: Registered()]
        .removalAskedAt = now
    case .place, .register, .call, .ping, .calls, .renew, .history, .rules: break
    }
    guard frame.id > 0 else { return }
    if let call = frame.command.address?.call, forgotten[call] == nil {
      let isRepeated = asked[who]?[frame.id] != nil
      if frame.command.takesCallAway { calls[call, default: Facts()].leftItsDevices = true }
      calls[call, default: Facts()].note(frame.command, by: who, isRepeated: isRepeated)
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
    shown[who] = nil
    for link in links(of: who) { remove(link) }
    for id in calls.keys {
      if calls[id]?.told[who] != nil {
        calls[id]?.told[who]?.app = App()
        calls[id]?.told[who]?.forgot = true
      }
      if calls[id]?.caller == who { calls[id]?.callerForgot = true }
      if calls[id]?.told[who] != nil || calls[id]?.caller == who {
        calls[id]?.restarted.insert(who)
      }
    }
  }

  // MARK: Registrations

  private mutating func stored(_ who: Who, _ present: Bool) throws(HistoryViolation) {
    var entry = registrations[who, default: Registered()]
    defer { registrations[who] = entry }
    try learnsOfEnd(who, present: present, before: entry.stored)
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

  mutating func registered(_ who: Who) throws(HistoryViolation) {
    var entry = registrations[who, default: Registered()]
    try require(
      entry.stored || entry.mayGo(at: now) || !sight.contains(.registrations), .registrationKept,
      nil,
      "\(who) was told it is registered, and is not stored")
    if entry.stored { entry.acknowledged = true }
    registrations[who] = entry
  }
}
