package import CallCore
package import CallJudge
import CallWire

/// A record of a shard's journal, as a reader got it.
package struct ReadRecord: Sendable {
  package var shard: Int
  package var record: JournalRecord
  /// Its place in the order of the run; no earlier than that of the shard's record before it.
  package var at: Timestamp
  /// The place of the record before those that were purged while their reader was away; nil: none is missing.
  package var missingSince: Timestamp?

  package init(
    shard: Int, _ record: JournalRecord, after former: Timestamp? = nil, isBehindGap: Bool = false
  ) {
    self.shard = shard
    self.record = record
    if isBehindGap { missingSince = former ?? .zero }
    let steps = record.entries.map(\.change.stepsBehindOthers).max() ?? 0
    let own = record.at + Span(microseconds: Int64(steps) * RunJudge.clockSlack.microseconds)
    at = max(own, former ?? own)
  }
}

/// Judges a run by what its devices sent and received together with the journal, by the rules of histories. Pure.
///
/// *Order.* A device acts, then a shard decides, then its record is stored, and only then anybody is notified. A reader
/// gets the record later than a device its notification, so a record takes its place by the time at which it was decided.
/// Each process reads the machine's clock once, not quite at the same moment, so what follows from an event of another
/// process takes its place by `clockSlack` later: a record after the acts of devices, one that refers to another call
/// after the records of that, and what devices receive after them all.
package struct RunJudge: Sendable {
  private let roster: Roster
  private let apps: [String]
  private var checkers: [String: HistoryChecker] = [:]
  private var appOf: [CallID: (app: String, at: Timestamp)] = [:]
  private var appOfLink: [Int: String] = [:]
  private var pending: [Pending] = []
  private var added = 0
  private var story = RunStory()
  private var eventsReached = Timestamp.zero
  private var recordsReached = Timestamp.zero
  /// The time of the last event that was judged.
  private var judgedUntil = Timestamp.zero
  private var lookedAt = Timestamp.zero
  private var forgotAt = Timestamp.zero
  package private(set) var findings = JournalFindings()

  /// A fault is known a while after it began. A leader of a stream that is cut off or was stopped gives what the others
  /// have stored since only after it has noticed that.
  private static let lag: Span = .seconds(20)
  private static let lookInterval: Span = .seconds(1)
  private static let forgetInterval: Span = .seconds(10)
  /// A client retransmits for 42 s, and a call that waits for its sides ends within a minute.
  static let callMemory: Span = .seconds(90)
  /// The clocks of processes are set by the machine's once each.
  static let clockSlack: Span = .milliseconds(200)

  private static let newsSlack = Span(microseconds: 3 * clockSlack.microseconds)

  enum Item: Sendable {
    case event(HistoryEvent)
    case record(ReadRecord)
    /// What a shard stored from here on is missing, until its next record.
    case gap(shard: Int)
  }

  private struct Pending: Sendable {
    var at: Timestamp
    var order: Int
    var item: Item
  }

  /// - Parameters:
  ///   - keepsHistory: whether the devices' apps have histories.
  ///   - hasHook: whether they have a hook.
  package init(
    app: String, roster: Roster, shardCount: Int, keepsHistory: Bool = false, hasHook: Bool = false
  ) {
    self.roster = roster
    apps = roster.hasStrictApp ? [app, Roster.strictApp] : [app]
    let limits = CallLimits()
    var bounds = HistoryChecker.Bounds()
    bounds.skew = Self.clockSlack
    bounds.waitForDevices = min(limits.reattachGrace, limits.resumeGraceRinging)
    for name in apps {
      let judged = JudgedApp(
        name: name, onlyPlaces: { _ in false }, nameInToken: { _ in nil }, pushData: { _ in "" },
        signal: { [roster] body in
          NumberedCandidate(body: body).map { (Who(roster.party($0.sender)), $0.number) }
        })
      var checker = HistoryChecker(judged, bounds: bounds)
      checker.sight = [.journal, .rules, .apps]
      checker.shardCount = shardCount
      checker.keepsHistory = keepsHistory
      checker.hasHook = hasHook
      checker.busyWhileInCall = name == Roster.strictApp
      checkers[name] = checker
    }
  }

  // MARK: Evidence

  /// - Parameter reached: the devices' next events are later.
  package mutating func add(_ events: [SeenEvent], reached: Timestamp) {
    for seen in events {
      let isAct =
        switch seen.event {
        // Decided before it was confirmed.
        case .decided, .opened, .sent, .push(.asked): true
        default: false
        }
      add(.event(seen.event), at: isAct ? seen.at - Self.clockSlack : seen.at + Self.newsSlack)
    }
    eventsReached = max(eventsReached, reached)
  }

  /// - Parameter reached: everything that was stored before this time has been read.
  package mutating func add(_ records: [ReadRecord], reached: Timestamp) {
    findings.records += records.count
    for read in records {
      if let since = read.missingSince { add(.gap(shard: read.shard), at: since) }
      add(.record(read), at: read.at)
    }
    recordsReached = max(recordsReached, reached)
  }

  private mutating func add(_ item: Item, at time: Timestamp) {
    pending.append(Pending(at: time, order: added, item: item))
    added += 1
  }

  /// Judges all that is complete.
  package mutating func judge() { judge(until: min(eventsReached, recordsReached) - Self.lag) }

  /// Judges the rest. All calls are over.
  package mutating func finish() {
    judge(until: .distantFuture)
    if findings.records == 0 { findings.problem = "it has no records" }
    for name in apps {
      for violation in checkers[name]?.finish([]) ?? [] { found(violation, name) }
      for (rule, count) in checkers[name]?.judged ?? [:] where count > 0 {
        findings.judged[rule, default: 0] += count
      }
    }
  }

  /// A record that was stored late comes after what was judged meanwhile: no device can have been notified of it.
  private mutating func judge(until end: Timestamp) {
    pending.sort { ($0.at, $0.order) < ($1.at, $1.order) }
    let complete = pending.prefix { $0.at <= end }
    for next in complete {
      judgedUntil = max(judgedUntil, next.at)
      look(at: judgedUntil)
      story.note(next.item, at: judgedUntil)
      switch next.item {
      case .event(let event): judge(event)
      case .record(let read): judge(read)
      case .gap(let shard):
        findings.gaps += 1
        for name in apps { checkers[name]?.missesRecords(of: shard, now: judgedUntil) }
      }
    }
    pending.removeFirst(complete.count)
  }

  private mutating func judge(_ read: ReadRecord) {
    let at = judgedUntil
    if read.missingSince != nil {
      for name in apps { checkers[name]?.findsRecords(of: read.shard, now: at) }
    }
    for entry in read.record.entries {
      if case .placed(let placed) = entry.change { appOf[entry.call] = (placed.callee.app, at) }
    }
    for name in apps {
      var own = read.record
      own.entries = own.entries.filter { appOf[$0.call]?.app == name }
      note(.journalled(shard: read.shard, own), at: at, name)
    }
  }

  private mutating func judge(_ event: HistoryEvent) {
    switch event {
    case .trouble(_, let from, let until):
      for name in apps {
        checkers[name]?.calendar.add(from: from, until: until)
        note(event, at: judgedUntil, name)
      }
    case .opened(let who, let link, _):
      appOfLink[link] = app(of: who)
      note(event, at: judgedUntil, app(of: who))
    case .closed(let link):
      if let app = appOfLink.removeValue(forKey: link) { note(event, at: judgedUntil, app) }
    case .disturbed(let link), .broken(let link):
      if let app = appOfLink[link] { note(event, at: judgedUntil, app) }
    case .decided(let user, _): note(event, at: judgedUntil, app(of: Who(user, "")))
    case .sent(let who, _, _), .received(let who, _, _), .push(.asked(let who, _, _)),
      .heard(let who, _):
      note(event, at: judgedUntil, app(of: who))
    default: break
    }
  }

  private func app(of who: Who) -> String { roster.app(ofUser: who.user) ?? apps[0] }

  private mutating func note(_ event: HistoryEvent, at time: Timestamp, _ app: String) {
    if let violation = checkers[app]?.note(event, at: time) { found(violation, app) }
  }

  // MARK: Time

  private mutating func look(at time: Timestamp) {
    if lookedAt + Self.lookInterval <= time {
      lookedAt = time
      for name in apps {
        // After a violation the others of that second are looked for, too.
        for _ in 0..<Self.violationsAtOnce {
          guard let violation = checkers[name]?.lateness(at: time) else { break }
          found(violation, name)
        }
      }
    }
    guard forgotAt + Self.forgetInterval <= time else { return }
    forgotAt = time
    for name in apps {
      for violation in checkers[name]?.forget(after: Self.callMemory, now: time) ?? [] {
        found(violation, name)
      }
    }
    appOf = appOf.filter { time < $0.value.at + Self.appMemory }
  }

  private static let violationsAtOnce = 20
  /// Longer than any call of a load and its memory.
  private static let appMemory: Span = .seconds(900)

  /// Each call breaks one rule: those that follow from it are not judged.
  private mutating func found(_ violation: HistoryViolation, _ app: String) {
    if let call = violation.call { checkers[app]?.forget(call) }
    findings.add(violation) { violation.call.map(story.lines) ?? [] }
  }

  /// The calls of which something is kept.
  package var callsKept: Int { checkers.values.reduce(0) { $0 + $1.callCount } }
}

extension JournalEntry.Change {
  /// How many records of other shards one that holds it may follow from: a call gives way to another one, and that one is
  /// merged with it then.
  fileprivate var stepsBehindOthers: Int {
    switch self {
    case .ended(let end) where end.survivor != nil: 1
    case .answered(let answer) where answer.merged != nil: 2
    default: 0
    }
  }
}
