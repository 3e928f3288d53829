/// A shard's data about one of its users.
struct User: Sendable {
  struct Device: Sendable {
    var id: DeviceID
    var name = ""
    var client = ""
    /// nil: not attached.
    var session: SessionRef?
    var attachedAt = Timestamp(microseconds: 0)
    /// Its session, or the last one, only places calls: it is no leg.
    var onlyPlaces = false
    /// The answered calls that it has placed, by the last report of its edge.
    var talking: Talking?
    /// Since when the report is of a former session.
    var talkingStaleSince: Timestamp?
    /// When this session took the place of another; nil where it did not.
    var replacedAt: Timestamp?
    /// When its last session ended, however.
    var leftAt = Timestamp(microseconds: 0)
    /// When its session broke; nil while it is attached, and where it ended the session itself. A registered
    /// device comes back soon: a call waits for it.
    var brokeAt: Timestamp?
    var registration: Registration? {
      didSet { wakes = registration?.ringToken != nil }
    }
    /// Whether a push can make it ring.
    private(set) var wakes = false
    /// The store has another registration than this one, which could not be written.
    var isUnwritten = false

    init(id: DeviceID) { self.id = id }

    /// Whether it is in an answered call that it has placed. For as long as a caller may stay away, the call goes on
    /// although the session is gone.
    func isTalking(at now: Timestamp, _ limits: CallLimits) -> Bool {
      guard let talking, !talking.calls.isEmpty else { return false }
      return talkingStaleSince.map { now < $0 + limits.resumeGraceAnswered } ?? true
    }

    mutating func sessionEnded(graceful: Bool, at now: Timestamp) {
      if graceful { talking = nil }
      if talking != nil, talkingStaleSince == nil { talkingStaleSince = now }
    }
  }

  private(set) var devices: [Device] = []
  /// The calls to this user that are not settled, in the order of their placing.
  var calls: [CallID] = []
  /// The calls whose end every device acknowledged, kept for late questions.
  var settledCalls = SettledCalls()
  /// For a group whose members ring by idleness: when the last call of each was over.
  var groupTalks: [[UInt8]: Timestamp] = [:]
  private var placings = PairRates()
  /// None, or one: they are large, and most users have none.
  private var keptRules: [UserRules] = []
  /// The rules that were set in advance for calls to the user; nil: none were.
  var rules: UserRules? {
    get { keptRules.first }
    set { keptRules = newValue.map { [$0] } ?? [] }
  }

  private var isEmpty: Bool {
    devices.isEmpty && calls.isEmpty && settledCalls.isEmpty && keptRules.isEmpty
  }

  func device(_ id: DeviceID) -> Device? { devices.first { $0.id == id } }

  func device(of session: SessionRef) -> Device? { devices.first { $0.session == session } }

  mutating func withDevice<R>(_ id: DeviceID, _ body: (inout Device) -> R) -> R {
    if let index = devices.firstIndex(where: { $0.id == id }) { return body(&devices[index]) }
    devices.append(Device(id: id))
    return body(&devices[devices.count - 1])
  }

  /// A new owner cannot tell whose session broke just now. So the sessions of registered devices that are not
  /// attached count as just broken if the devices were seen since `seenSince`.
  mutating func presumeBroken(at now: Timestamp, seenSince: Timestamp) {
    for index in devices.indices where devices[index].session == nil {
      guard let registration = devices[index].registration, registration.seenAt >= seenSince else {
        continue
      }
      devices[index].brokeAt = now
    }
  }

  /// Forgets devices that are neither attached nor registered.
  /// - Returns: whether nothing is left that is worth keeping.
  mutating func prune() -> Bool {
    devices.removeAll { $0.session == nil && $0.registration == nil }
    return isEmpty
  }

  /// A call to this user is settled.
  mutating func settle(_ id: CallID) {
    calls.removeAll { $0 == id }
    settledCalls.append(id)
  }

  /// Ends sessions of this user.
  /// - Parameter graceful: the device ended the session itself; it did not break.
  /// - Returns: the sessions that were ended.
  mutating func dropSessions(at now: Timestamp, graceful: Bool, where matches: (SessionRef) -> Bool)
    -> [SessionRef]
  {
    var dropped: [SessionRef] = []
    for index in devices.indices {
      guard let session = devices[index].session, matches(session) else { continue }
      devices[index].session = nil
      devices[index].brokeAt = graceful ? nil : now
      devices[index].leftAt = now
      devices[index].sessionEnded(graceful: graceful, at: now)
      dropped.append(session)
    }
    return dropped
  }

  /// Counts one more call of a caller to this user.
  /// - Returns: why it is refused: the user has too many calls, or had too many of the caller in the last minute.
  mutating func refusesPlacing(
    by caller: UserKey, now: Timestamp, _ limits: CallLimits
  ) -> CallError? {
    if calls.count >= limits.callsToUser { return limits.tooManyCallsToUser }
    let perMinute = limits.callsPerPairPerMinute
    return admitsPlacing(by: caller, now: now, perMinute: perMinute) ? nil : limits.tooManyCalls
  }

  /// Counts one more call of a caller to this user, unless there were too many in the last minute.
  mutating func admitsPlacing(by caller: UserKey, now: Timestamp, perMinute: Int) -> Bool {
    placings.admits(caller, now: now, perMinute: perMinute)
  }
}

/// The calls of a user whose end every device acknowledged, kept for late questions, in the order in which they
/// were settled. They are forgotten in nearly that order, so one is found near the front.
package struct SettledCalls: Sendable {
  package init() {}

  private var items: [CallID] = []
  /// Before this, all are forgotten.
  private var head = 0
  /// Entries that `remove` has visited.
  package private(set) var visits = 0

  package var isEmpty: Bool { head == items.count }
  package var all: ArraySlice<CallID> { items[head...] }

  package mutating func append(_ id: CallID) { items.append(id) }

  package mutating func remove(_ id: CallID) {
    guard let index = items[head...].firstIndex(of: id) else {
      visits += items.count - head
      return
    }
    visits += index - head + 1
    // The ids before it move up by one: there are few.
    for place in stride(from: index, to: head, by: -1) { items[place] = items[place - 1] }
    head += 1
    if head == items.count {
      items = []
      head = 0
    } else if head > 32, 2 * head > items.count {
      items.removeFirst(head)
      head = 0
    }
  }
}
