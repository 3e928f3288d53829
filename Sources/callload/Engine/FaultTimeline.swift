package import CallCore
import CallJudge

/// When what was disturbed by a fault, and by which: all that the judge may put down to chaos.
///
/// A fault of a coordinator disturbs the shards that it served until they answer again; one of an
/// edge disturbs the devices that it carried until they are attached elsewhere, or it is well
/// again; one of NATS disturbs all shards. Times are the loop's.
package struct FaultTimeline: Sendable {
  struct Course: Sendable {
    let fault: Fault
    let beganAt: Timestamp
    var liftedAt: Timestamp?
    /// Of a nats-server that is away: the shards that answer all the same.
    var answeredEarly: Set<Int> = []

    /// Whether it lasts at a time, or ended at most `span` before it.
    func lasts(at moment: Timestamp, andFor span: Span) -> Bool {
      beganAt <= moment && liftedAt.map { moment <= $0 + span } ?? true
    }
  }

  let shardCount: Int
  private let app: String
  private let roster: Roster
  var shards: [Int: FaultCalendar] = [:]
  var devices: [Int: FaultCalendar] = [:]
  private(set) var faults: [Int: Course] = [:]
  /// Shards of users, by user.
  private var shardOfUser: [Int32]

  package init(roster: Roster, app: String, shardCount: Int) {
    self.roster = roster
    self.app = app
    self.shardCount = shardCount
    self.shardOfUser = (0..<(shardCount > 0 ? roster.users : 0)).map {
      Int32(ShardHash.shard(of: UserKey(app: app, user: roster.userName($0)), count: shardCount))
    }
  }

  /// Without faults nothing is explained by one.
  package var isEmpty: Bool { faults.isEmpty }

  func shard(ofUser user: Int) -> Int { user < shardOfUser.count ? Int(shardOfUser[user]) : -1 }
  func shard(ofDevice device: Int) -> Int { shard(ofUser: roster.user(of: device)) }

  func windows(shard: Int) -> [FaultCalendar.Window] { shards[shard]?.windows ?? [] }
  func windows(device: Int) -> [FaultCalendar.Window] { devices[device]?.windows ?? [] }

  // MARK: What happens

  /// - Parameter carried: the devices that were connected to the edge concerned.
  package mutating func begin(_ fault: Fault, carried: [Int], at now: Timestamp) {
    faults[fault.id] = Course(fault: fault, beganAt: now)
    let window = Self.window(fault, from: now)
    for shard in fault.shards { shards[shard, default: FaultCalendar()].add(window) }
    for device in carried { devices[device, default: FaultCalendar()].add(window) }
    forget(before: now)
  }

  package mutating func widen(_ fault: Fault, by more: [Int], since: Timestamp) {
    let window = Self.window(fault, from: since)
    for shard in more {
      let isKnown = shards[shard]?.isUnderWay(fault.id) ?? false
      if !isKnown { shards[shard, default: FaultCalendar()].add(window) }
    }
  }

  private static func window(
    _ fault: Fault, from begin: Timestamp, until end: Timestamp? = nil
  ) -> FaultCalendar.Window {
    FaultCalendar.Window(
      fault: fault.id, from: begin, until: end,
      afterglow: Span(microseconds: fault.afterglowMicroseconds))
  }

  /// A shard answered again.
  ///
  /// While a nats-server is away that shows no more than that one stream has a leader: what a take-over, a
  /// hand-over or the next append needs may have lost its own, and those that come back move leaders again.
  package mutating func answered(shard: Int, fault: Int, at now: Timestamp) {
    if let course = faults[fault], course.fault.kind.isOfNATS, course.liftedAt == nil {
      faults[fault]?.answeredEarly.insert(shard)
    } else {
      shards[shard]?.end(fault, at: now)
    }
  }

  /// A device has a new session.
  /// - Parameter edge: where. One that has just thawed, or has its way to NATS again, had kept the device
  ///   waiting, and with it what was said to it.
  package mutating func attached(device: Int, through edge: Int? = nil, at now: Timestamp) {
    for window in windows(device: device) where window.until == nil {
      devices[device]?.end(window.fault, at: now)
    }
    for course in faults.values where edge.map(course.fault.edges.contains) == true {
      guard course.fault.kind.keepsDevicesWaiting, course.lasts(at: now, andFor: Self.keptWaiting)
      else { continue }
      devices[device, default: FaultCalendar()]
        .add(Self.window(course.fault, from: course.beganAt, until: now))
    }
  }

  /// How long after its end a frozen edge may need to pass on what waited.
  static let keptWaiting: Span = .seconds(2)

  /// The node is well again. Devices that kept their connections to it are no longer disturbed;
  /// those that lost them are, until they have new ones.
  /// - Parameter isWell: whether a device has a session, or wants none.
  package mutating func lifted(
    fault: Int, at now: Timestamp, isWell: (_ device: Int) -> Bool = { _ in false }
  ) {
    guard let course = faults[fault] else { return }
    faults[fault]?.liftedAt = now
    for shard in course.answeredEarly { shards[shard]?.end(fault, at: now) }
    let kind = course.fault.kind
    for device in devices.keys where kind.keepsDevicesWaiting || isWell(device) {
      devices[device]?.end(fault, at: now)
    }
  }

  /// No more is to be found out about the shards of a fault.
  package mutating func end(shardsOf fault: Int, at now: Timestamp) {
    for shard in Array(shards.keys) { answered(shard: shard, fault: fault, at: now) }
  }

  /// No call is judged by what was minutes ago: the longest rings for three.
  private mutating func forget(before now: Timestamp) {
    let kept = now + .seconds(-600)
    func prune(_ calendars: inout [Int: FaultCalendar]) {
      for key in calendars.keys {
        calendars[key]?.forget(before: kept)
        if calendars[key]?.isEmpty == true { calendars[key] = nil }
      }
    }
    prune(&shards)
    prune(&devices)
  }
}

extension Timestamp {
  /// Later, where there is a later: the far future stays.
  func later(by span: Span) -> Timestamp { self == .distantFuture ? self : self + span }
}

extension FaultTimeline {
  /// When the edges that had a device were in trouble, in the half minute before a moment. Seconds count from a moment.
  func story(device: Int, around moment: Timestamp) -> [String] {
    let before = moment + Span(microseconds: -30_000_000)
    return windows(device: device).compactMap { window in
      guard let fault = faults[window.fault]?.fault, window.touches(before, moment) else {
        return nil
      }
      return "its edge: \(fault.kind.rawValue) \(fault.node), "
        + "\(Self.seconds(window.from, from: moment)) to \(Self.seconds(window.until, from: moment)) s"
    }
  }

  private static func seconds(_ at: Timestamp?, from moment: Timestamp) -> String {
    guard let at else { return "…" }
    let tenths = (at - moment).microseconds / 100_000
    return "\(tenths < 0 ? "-" : "+")\(abs(tenths) / 10).\(abs(tenths) % 10)"
  }

  /// The faults of the cluster, and when a shard was back, from 30 s before to 10 s after a moment, in seconds.
  package func story(shard: Int, around moment: Timestamp) -> [String] {
    func seconds(_ at: Timestamp?) -> String { Self.seconds(at, from: moment) }
    let before = moment + Span(microseconds: -30_000_000)
    return faults.keys.sorted().compactMap { id in
      guard let course = faults[id], course.beganAt <= moment + .seconds(10),
        course.liftedAt.map({ before <= $0 }) ?? true
      else { return nil }
      var line =
        "\(course.fault.kind.rawValue) \(course.fault.node), \(seconds(course.beganAt)) to "
        + "\(seconds(course.liftedAt)) s"
      if let window = windows(shard: shard).first(where: { $0.fault == id }) {
        line += "; shard \(shard) was back at \(seconds(window.until)) s"
      }
      return line
    }
  }
}
