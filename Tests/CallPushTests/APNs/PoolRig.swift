import CallCore
import CallPush
import Testing

/// Drives an `APNsPoolMachine` and records its effects. It is also a model of the peer, and records an issue if the
/// machine violates the protocol.
struct PoolRig {
  struct Sent: Equatable {
    var connection: APNsConnectionID
    var stream: UInt32
    var push: APNsPushKey
    var attempt: Int
    var token: UInt32
  }

  static let start = Timestamp(microseconds: 1_700_000_000_000_000)

  var machine: APNsPoolMachine
  var now = Self.start
  var sent: [Sent] = []
  var connected: [APNsConnectionID] = []
  var disconnected: [APNsConnectionID: String] = [:]
  var pinged: [APNsConnectionID] = []
  var results: [APNsPushKey: APNsResult] = [:]
  var notes: [APNsNote] = []
  var isFinished = false
  private var keys: APNsPushKey = 0
  /// As the peer sees it.
  private(set) var open: [APNsConnectionID: Set<UInt32>] = [:]
  private(set) var allowed: [APNsConnectionID: Int] = [:]
  private var accepted: Set<APNsConnectionID> = []
  private var lastStream: [APNsConnectionID: UInt32] = [:]

  init(
    connections: Int = 1, inFlight: Int = 10, queued: Int = 100, seed: UInt64 = 1,
    _ change: (inout APNsLimits) -> Void = { _ in }
  ) {
    var limits = APNsLimits()
    limits.connections = connections
    limits.inFlightPerConnection = inFlight
    limits.queued = queued
    change(&limits)
    machine = APNsPoolMachine(limits: limits, seed: seed, now: Self.start)
    run { $0.start(now: $1) }
  }

  mutating func run(_ event: (inout APNsPoolMachine, Timestamp) -> Void) {
    event(&machine, now)
    for effect in machine.effects { absorb(effect) }
    machine.effects = []
  }

  private mutating func absorb(_ effect: APNsEffect) {
    switch effect {
    case .connect(let id):
      #expect(!connected.contains(id), "a connection's number was used twice")
      connected.append(id)
    case .send(let id, let stream, let push, let token, let attempt):
      #expect(disconnected[id] == nil, "sent on a connection that is gone")
      #expect(results[push] == nil, "sent after it was over")
      #expect(stream > lastStream[id] ?? 0 && stream % 2 == 1, "stream ids must grow and be odd")
      lastStream[id] = stream
      open[id, default: []].insert(stream)
      let limit = accepted.contains(id) ? allowed[id] ?? 0 : min(1, allowed[id] ?? 0)
      #expect(open[id, default: []].count <= limit, "more streams than allowed on \(id)")
      sent.append(
        Sent(
          connection: id, stream: stream, push: push, attempt: attempt, token: token.serial))
    case .ping(let id): pinged.append(id)
    case .disconnect(let id, let reason):
      #expect(disconnected.updateValue(reason, forKey: id) == nil)
      open[id] = nil
    case .complete(let key, let result):
      #expect(results.updateValue(result, forKey: key) == nil, "push \(key) was completed twice")
    case .note(let note): notes.append(note)
    case .finished:
      #expect(!isFinished)
      isFinished = true
    }
  }

  // MARK: Events

  @discardableResult
  mutating func submit(
    urgent: Bool = true, for span: Span = .seconds(20), cancellation: PushCancellation? = nil
  ) -> APNsPushKey {
    keys += 1
    let key = keys
    let deadline = now + span
    run {
      $0.submit(key, isUrgent: urgent, deadline: deadline, cancellation: cancellation, now: $1)
    }
    return key
  }

  mutating func settings(_ id: APNsConnectionID, _ maxStreams: Int?) {
    if disconnected[id] == nil {
      allowed[id] = maxStreams ?? allowed[id] ?? .max
    }
    run { $0.settings(id, maxStreams: maxStreams, now: $1) }
  }

  /// TCP, TLS, and the first SETTINGS frame.
  mutating func up(_ id: APNsConnectionID, maxStreams: Int? = 1000) {
    run { $0.connected(id, now: $1) }
    settings(id, maxStreams)
  }

  /// All connections that do not take pushes yet.
  mutating func upAll() {
    for id in machine.connectionIDs where machine.connection(id)?.isUsable == false { up(id) }
  }

  mutating func answer(_ sent: Sent, _ status: Int, _ reason: String = "") {
    open[sent.connection]?.remove(sent.stream)
    if status == 200 { accepted.insert(sent.connection) }
    run {
      $0.answered(
        sent.connection, stream: sent.stream, APNsResponse(status: status, reason: reason),
        now: $1)
    }
  }

  mutating func answerAll(_ status: Int, _ reason: String = "") {
    for id in machine.connectionIDs {
      for sent in openSends(id) { answer(sent, status, reason) }
    }
  }

  mutating func reset(_ sent: Sent, refused: Bool) {
    open[sent.connection]?.remove(sent.stream)
    run {
      $0.reset(sent.connection, stream: sent.stream, isRefused: refused, now: $1)
    }
  }

  mutating func goAway(
    _ id: APNsConnectionID, last: UInt32, error: Bool = false, reason: String = ""
  ) {
    for stream in open[id] ?? [] where stream > last { open[id]?.remove(stream) }
    run { $0.goAway(id, last: last, isError: error, reason: reason, now: $1) }
  }

  mutating func lose(_ id: APNsConnectionID) {
    open[id] = []
    run { $0.ended(id, "the connection was closed", now: $1) }
  }

  mutating func read(_ id: APNsConnectionID) { run { $0.read(id, now: $1) } }

  mutating func pass(_ span: Span) {
    now = now + span
    run { $0.tick(now: $1) }
  }

  /// Ticks in small steps.
  mutating func wait(_ span: Span, step: Span = .milliseconds(50)) {
    let end = now + span
    while now < end { pass(min(step, end - now)) }
  }

  // MARK: Questions

  /// The open streams of a connection, in order.
  func openSends(_ id: APNsConnectionID) -> [Sent] {
    sent.filter { $0.connection == id && open[id]?.contains($0.stream) == true }
  }

  func outcome(_ key: APNsPushKey) -> PushOutcome? {
    guard case .outcome(let outcome)? = results[key] else { return nil }
    return outcome
  }

  /// Connections that have accepted a push.
  static func proven(
    connections: Int = 1, inFlight: Int = 10, maxStreams: Int = 1000,
    _ change: (inout APNsLimits) -> Void = { _ in }
  ) -> (PoolRig, [APNsConnectionID]) {
    var rig = PoolRig(connections: connections, inFlight: inFlight, change)
    let ids = rig.connected
    for id in ids { rig.up(id, maxStreams: maxStreams) }
    for _ in ids { _ = rig.submit() }
    for sent in rig.sent { rig.answer(sent, 200) }
    #expect(rig.results.count == ids.count)
    rig.sent = []
    rig.notes = []
    return (rig, ids)
  }
}
