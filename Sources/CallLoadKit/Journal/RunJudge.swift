package import CallCore
package import CallJudge
import CallWire

/// Judges a run by what its devices sent and received together with the journal, by the rules of histories. Pure.
///
/// *Order.* A device acts, then a shard decides, then its record is stored, and only then anybody is notified. A reader
/// gets the record later than a device its notification, so a record takes its place by the time at which it was decided.
/// Each process reads the machine's clock once, not quite at the same moment, so what follows from an event of another
/// process takes its place by `clockSlack` later: a record after the acts of devices, and what devices receive after both.
/// A record that refers to another call comes after the records of that, wherever those have their places.
package struct RunJudge: Sendable {
  private let roster: Roster
  private let apps: [String]
  private let shardCount: Int
  private let readsJournal: Bool
  private var checkers: [String: HistoryChecker] = [:]
  private var homes: [CallID: Home] = [:]
  private var appOfLink: [Int: String] = [:]
  private var pending: [Pending] = []
  private var added = 0
  private var story = RunStory()
  private var unconfirmed = UnconfirmedFindings()
  /// The shards of the records that are judged now: each keeps its order.
  private var underWay: Set<Int> = []
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

  /// A shard's records keep their order, so one may have its place later than it was decided, by this much at most.
  private static let causesWithin: Span = .seconds(5)

  private static let newsSlack = Span(microseconds: 3 * clockSlack.microseconds)

  /// Where a call belongs.
  private struct Home: Sendable {
    var app: String
    var shard: Int
    var at: Timestamp
    /// The journal has it; else a device has asked for it.
    var isPlaced = true
  }

  /// Indirect, since thousands are moved and sorted.
  indirect enum Item: Sendable {
    case event(HistoryEvent)
    case record(ReadRecord)
    /// Records of a shard are missing from here on, until its next one.
    case gap(shard: Int)
  }

  private struct Pending: Sendable {
    var at: Timestamp
    var order: Int
    var item: Item
    var isJudged = false
  }

  /// - Parameters:
  ///   - readsJournal: whether the cluster's journal is read; else the run is judged by devices alone.
  ///   - keepsHistory: whether the devices' apps have histories.
  ///   - hasHook: whether they have a hook.
  package init(
    app: String, roster: Roster, shardCount: Int = 1, readsJournal: Bool = true,
    keepsHistory: Bool = false, hasHook: Bool = false
  ) {
    self.roster = roster
    self.shardCount = shardCount
    self.readsJournal = readsJournal
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
      checker.sight = readsJournal ? [.journal, .rules, .apps] : [.rules, .apps]
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
      for finding in unconfirmed.settle(by: read) { report(finding) }
      if let since = read.missingSince { add(.gap(shard: read.shard), at: since) }
      for part in read.parts { add(.record(part), at: read.at) }
    }
    recordsReached = max(recordsReached, reached)
  }

  private mutating func add(_ item: Item, at time: Timestamp) {
    pending.append(Pending(at: time, order: added, item: item))
    added += 1
  }

  /// Judges all that is complete.
  package mutating func judge() {
    judge(until: (readsJournal ? min(eventsReached, recordsReached) : eventsReached) - Self.lag)
  }

  /// Judges the rest. All calls are over.
  package mutating func finish() {
    judge(until: .distantFuture)
    if readsJournal, findings.records == 0 { findings.problem = "it has no records" }
    for name in apps {
      for violation in checkers[name]?.finish([]) ?? [] { found(violation, name) }
      for (rule, count) in checkers[name]?.judged ?? [:] where count > 0 {
        findings.judged[rule, default: 0] += count
      }
    }
    for finding in unconfirmed.takeAll() { report(finding) }
  }

  /// A record that was stored late comes after what was judged meanwhile: no device can have been notified of it.
  private mutating func judge(until end: Timestamp) {
    pending.sort { ($0.at, $0.order) < ($1.at, $1.order) }
    let complete = pending.prefix { $0.at <= end }.count
    for index in 0..<complete where !pending[index].isJudged {
      judgedUntil = max(judgedUntil, pending[index].at)
      look(at: judgedUntil)
      judge(at: index)
    }
    pending.removeFirst(complete)
    pending.removeAll { $0.isJudged }
  }

  private mutating func judge(at index: Int) {
    pending[index].isJudged = true
    let item = pending[index].item
    story.note(item, at: judgedUntil)
    switch item {
    case .event(let event): judge(event)
    case .record(let read): judge(read)
    case .gap(let shard):
      findings.gaps += 1
      for name in apps { checkers[name]?.missesRecords(of: shard, now: judgedUntil) }
    }
  }

  /// Entry by entry, each behind what it follows from in other shards.
  private mutating func judge(_ read: ReadRecord) {
    let at = judgedUntil
    underWay.insert(read.shard)
    defer { underWay.remove(read.shard) }
    if read.missingSince != nil {
      for name in apps { checkers[name]?.findsRecords(of: read.shard, now: at) }
    }
    var record = read.record
    record.entries = []
    for name in apps { note(.journalled(shard: read.shard, record), at: at, name) }
    for entry in read.record.entries {
      if case .placed(let placed) = entry.change {
        homes[entry.call] = Home(app: placed.callee.app, shard: read.shard, at: at)
      }
      guard let home = homes[entry.call], home.isPlaced else { continue }
      judgeCause(of: entry, read)
      record.entries = [entry]
      note(.journalled(shard: read.shard, record), at: at, home.app)
    }
  }

  /// Judges the records of another shard first that an entry follows from: they were decided before it, by clocks that
  /// differ.
  private mutating func judgeCause(of entry: JournalEntry, _ read: ReadRecord) {
    guard let cause = entry.change.cause, let shard = homes[cause]?.shard,
      !underWay.contains(shard)
    else { return }
    let latest = read.record.at + Self.clockSlack
    for index in items(about: cause, in: shard, before: latest, effect: entry) {
      if !pending[index].isJudged { judge(at: index) }
    }
  }

  /// The items of a shard up to the last one about a call, of those that were decided before a time and before what follows
  /// from an entry.
  private func items(
    about call: CallID, in shard: Int, before latest: Timestamp, effect entry: JournalEntry
  ) -> [Int] {
    var found: [Int] = []
    var needed = 0
    for index in pending.indices where !pending[index].isJudged {
      if latest + Self.causesWithin < pending[index].at { break }
      switch pending[index].item {
      case .gap(shard): found.append(index)
      case .record(let other) where other.shard == shard:
        let isLater = other.record.entries.contains { $0.change.follows(entry) }
        if isLater || latest < other.record.at { return Array(found[..<needed]) }
        found.append(index)
        if other.record.entries.contains(where: { $0.call == call }) { needed = found.count }
      default: break
      }
    }
    return Array(found[..<needed])
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
    case .sent(let who, _, let frame):
      if case .place(let address, _) = frame.command { placed(address, by: who) }
      note(event, at: judgedUntil, app(of: who))
    case .decided(let user, _): note(event, at: judgedUntil, app(of: Who(user, "")))
    case .received(let who, _, _), .push(.asked(let who, _, _)), .heard(let who, _):
      note(event, at: judgedUntil, app(of: who))
    default: break
    }
  }

  private mutating func placed(_ address: CallAddress, by who: Who) {
    let (app, at) = (app(of: who), judgedUntil)
    let shard = ShardHash.shard(of: UserKey(app: app, user: address.callee), count: shardCount)
    homes[address.call] =
      homes[address.call] ?? Home(app: app, shard: shard, at: at, isPlaced: false)
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
    homes = homes.filter { time < $0.value.at + Self.homeMemory }
  }

  private static let violationsAtOnce = 20
  /// Longer than any call of a load and its memory.
  private static let homeMemory: Span = .seconds(900)

  /// Each call breaks one rule: those that follow from it are not judged.
  private mutating func found(_ violation: HistoryViolation, _ app: String) {
    if let call = violation.call { checkers[app]?.forget(call) }
    let finding = UnconfirmedFindings.Finding(
      violation: violation, story: violation.call.map(story.lines) ?? [])
    let next = violation.call.flatMap { homes[$0]?.shard }.map { ($0, nextRecord(of: $0)) }
    guard readsJournal, let (shard, read) = next else { return report(finding) }
    unconfirmed.add(finding, shard: shard, at: judgedUntil - Self.newsSlack)
    guard let read else { return }
    for finding in unconfirmed.settle(by: read) { report(finding) }
  }

  private func nextRecord(of shard: Int) -> ReadRecord? {
    pending.lazy.compactMap { next in
      if case .record(let read) = next.item, !next.isJudged { read } else { nil }
    }.first { $0.shard == shard }
  }

  private mutating func report(_ finding: UnconfirmedFindings.Finding) {
    findings.add(finding.violation, story: finding.story)
  }

  /// The calls of which something is kept.
  package var callsKept: Int { checkers.values.reduce(0) { $0 + $1.callCount } }
}
