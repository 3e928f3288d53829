package import CallCore
import CallJudge

/// Which fault disturbed which shards and devices, and when: all that the judge may excuse.
///
/// A fault of a coordinator disturbs the shards that it served until they answer again. A fault of an
/// edge disturbs the devices that it carried until they are attached elsewhere, or the edge is well
/// again. A fault of NATS disturbs all shards. Times are the loop's.
package struct FaultTimeline: Sendable {
  package enum Place: Hashable, Sendable {
    case shard(Int)
    case device(Int)
  }

  struct Course: Sendable {
    let fault: ChaosFault
    let beganAt: Timestamp
    var liftedAt: Timestamp?
    /// While a nats-server is away: the shards that answer all the same.
    var answeredEarly: Set<Int> = []

    /// Whether it lasts at a time, or ended at most `span` before it.
    func lasts(at moment: Timestamp, andFor span: Span) -> Bool {
      beganAt <= moment && liftedAt.map { moment <= $0 + span } ?? true
    }
  }

  private let roster: Roster
  private(set) var calendars: [Place: FaultCalendar] = [:]
  /// When the machine's processors had nothing left for anybody.
  private(set) var busy = FaultCalendar()
  private(set) var faults: [Int: Course] = [:]
  private let app: String
  private let shardCount: Int

  /// After its end a frozen edge may need this long to pass on what waited.
  static let keptWaiting: Span = .seconds(2)
  /// Messages that waited for a processor are retransmitted as after a fault that loses messages.
  private static let busyAfterglow: Span = .milliseconds(4_500)
  /// No call is judged by older faults: the longest one rings for three minutes.
  private static let memory: Span = .seconds(600)

  package init(roster: Roster, app: String, shardCount: Int) {
    self.roster = roster
    self.app = app
    self.shardCount = shardCount
  }

  package var isEmpty: Bool { faults.isEmpty }

  func shard(ofDevice device: Int) -> Int {
    shard(ofUser: roster.userName(roster.user(of: device)))
  }

  /// -1 where the cluster's shards are not known.
  func shard(ofUser user: String) -> Int {
    guard shardCount > 0 else { return -1 }
    let app = roster.app(ofUser: user) ?? app
    return ShardHash.shard(of: UserKey(app: app, user: user), count: shardCount)
  }

  func windows(_ place: Place) -> [FaultCalendar.Window] { calendars[place]?.windows ?? [] }

  // MARK: The course of a fault

  /// - Parameter carried: the devices that were connected to the edge concerned.
  package mutating func begin(_ fault: ChaosFault, carried: [Int], at now: Timestamp) {
    faults[fault.id] = Course(fault: fault, beganAt: now)
    for place in fault.shards.map(Place.shard) + carried.map(Place.device) {
      add(fault, to: place, from: now)
    }
    for place in calendars.keys {
      calendars[place]?.forget(before: now - Self.memory)
      if calendars[place]?.isEmpty == true { calendars[place] = nil }
    }
    busy.forget(before: now - Self.memory)
  }

  package mutating func processorsWereBusy(from begin: Timestamp, until end: Timestamp) {
    busy.add(
      FaultCalendar.Window(fault: 0, from: begin, until: end, afterglow: Self.busyAfterglow))
  }

  /// The fault concerns further shards, or the same ones again.
  package mutating func widen(_ fault: ChaosFault, by more: [Int], since: Timestamp) {
    for place in more.map(Place.shard) where calendars[place]?.isUnderWay(fault.id) != true {
      add(fault, to: place, from: since)
    }
  }

  private mutating func add(
    _ fault: ChaosFault, to place: Place, from begin: Timestamp, until end: Timestamp? = nil
  ) {
    calendars[place, default: FaultCalendar()].add(
      FaultCalendar.Window(fault: fault.id, from: begin, until: end, afterglow: fault.afterglow))
  }

  /// A shard answered again.
  ///
  /// While a nats-server is away that shows only that one stream has a leader. A take-over, a hand-over or
  /// the next append may need streams that have none, and servers that come back move leaders again.
  package mutating func answered(shard: Int, fault: Int, at now: Timestamp) {
    if let course = faults[fault], course.fault.kind.isOfNATS, course.liftedAt == nil {
      faults[fault]?.answeredEarly.insert(shard)
    } else {
      calendars[.shard(shard)]?.end(fault, at: now)
    }
  }

  /// A device has a new session.
  /// - Parameter edge: the session's. An edge that has just thawed, or has its connection to NATS again, had
  ///   kept the device waiting, and all deliveries to it.
  package mutating func attached(device: Int, through edge: Int? = nil, at now: Timestamp) {
    for window in windows(.device(device)) where window.until == nil {
      calendars[.device(device)]?.end(window.fault, at: now)
    }
    for course in faults.values where edge.map(course.fault.edges.contains) == true {
      guard course.fault.keepsDevicesWaiting, course.lasts(at: now, andFor: Self.keptWaiting)
      else { continue }
      // One that lasts keeps the device waiting still: it stopped the edge right after this session began.
      let until = course.liftedAt == nil ? nil : now
      add(course.fault, to: .device(device), from: course.beganAt, until: until)
    }
  }

  /// The node is well again. Devices that kept their connections to it are no longer disturbed;
  /// those that lost them are, until they have new ones.
  /// - Parameter isWell: whether a device has a session, or wants none.
  package mutating func lifted(
    fault: Int, at now: Timestamp, isWell: (_ device: Int) -> Bool = { _ in false }
  ) {
    guard let course = faults[fault] else { return }
    faults[fault]?.liftedAt = now
    for shard in course.answeredEarly { calendars[.shard(shard)]?.end(fault, at: now) }
    for case .device(let device) in calendars.keys
    where course.fault.keepsDevicesWaiting || isWell(device) {
      calendars[.device(device)]?.end(fault, at: now)
    }
  }

  /// Stops the probes of the shards of a fault.
  package mutating func end(shardsOf fault: Int, at now: Timestamp) {
    for case .shard(let shard) in Array(calendars.keys) {
      answered(shard: shard, fault: fault, at: now)
    }
  }

  // MARK: Stories

  /// The faults of the edges that had a device, in the half minute before a moment, in seconds from it.
  func story(device: Int, around moment: Timestamp) -> [String] {
    windows(.device(device)).compactMap { window in
      guard let fault = faults[window.fault]?.fault,
        window.touches(moment - .seconds(30), moment)
      else { return nil }
      return "its edge: \(Self.text(fault, window.from, window.until, around: moment))"
    }
  }

  /// The faults of the cluster, and when a shard was back, from 30 s before to 10 s after a moment, in seconds.
  package func story(shard: Int, around moment: Timestamp) -> [String] {
    faults.sorted { $0.key < $1.key }.compactMap { id, course in
      guard course.beganAt <= moment + .seconds(10),
        course.liftedAt.map({ moment - .seconds(30) <= $0 }) ?? true
      else { return nil }
      let line = Self.text(course.fault, course.beganAt, course.liftedAt, around: moment)
      guard let window = windows(.shard(shard)).first(where: { $0.fault == id }) else {
        return line
      }
      return line + "; shard \(shard) was back at \(Self.seconds(window.until, from: moment)) s"
    }
  }

  private static func text(
    _ fault: ChaosFault, _ from: Timestamp, _ until: Timestamp?, around moment: Timestamp
  ) -> String {
    "\(fault.kind.rawValue) \(fault.node), "
      + "\(seconds(from, from: moment)) to \(seconds(until, from: moment)) s"
  }

  private static func seconds(_ at: Timestamp?, from moment: Timestamp) -> String {
    guard let at else { return "…" }
    let tenths = (at - moment).microseconds / 100_000
    return "\(tenths < 0 ? "-" : "+")\(abs(tenths) / 10).\(abs(tenths) % 10)"
  }
}
