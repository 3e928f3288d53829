internal import CallCore

/// One node's connection to NATS. It keeps the order of messages in both directions until it
/// breaks.
final class SimLink: SimActor, @unchecked Sendable {
  /// One of a link's successive connections. What is in flight when it breaks is lost.
  final class Connection {
    let up = Direction()
    let down = Direction()
  }

  final class Direction {
    /// Messages that arrive after this time are lost.
    var cut = Timestamp.distantFuture
    /// Messages that arrived during a stall, in order; nil: the line is not stalled.
    var held: [() -> Void]?
    /// When the latest message arrives that keeps the order.
    private var last = Timestamp(microseconds: 0)

    /// When a message arrives that takes as long as `hop`, unless it has to wait for earlier ones.
    func arrival(_ hop: Span, from now: Timestamp) -> Timestamp {
      last = max(last, now + hop)
      return last
    }

    func receive(_ body: @escaping () -> Void, at now: Timestamp) {
      if now >= cut { return }
      if held != nil { held!.append(body) } else { body() }
    }

    func release(at now: Timestamp) {
      guard let waiting = held.take(), now < cut else { return }
      for body in waiting { body() }
    }
  }

  struct Lane: Hashable {
    var publisher: Int
    var subject: String
  }

  let node: SimNode
  unowned let nats: SimNATS
  let number: Int
  private(set) var connection: Connection?
  private var stragglers: [Lane: Timestamp] = [:]
  /// Messages without a connection, to be sent over the next one.
  private var outbox: [(isWanted: () -> Bool, serve: () -> Void)] = []
  /// Limit of the outbox. Policy at the limit: refuse, and count.
  private static let outboxMax = 65_536
  private(set) var reconnects = 0
  /// When the line was last cut; `until` is nil while it is.
  private(set) var absence: (from: Timestamp, until: Timestamp?)?
  var dropped: UInt64 = 0
  /// Called when the connection breaks, and when there is a new one.
  var onBreak: [() -> Void] = []
  var onReconnect: [() -> Void] = []
  var onClose: [() -> Void] = []
  /// The server accepts no connection before this time.
  private var blockedUntil = Timestamp(microseconds: 0)
  private var random: SimRandom

  var world: SimWorld { node.world }

  init(_ nats: SimNATS, _ node: SimNode, number: Int) {
    self.nats = nats
    self.node = node
    self.number = number
    random = nats.world.fork("link.\(number)")
    connection = Connection()
    node.onDeath { [unowned self] in died() }
  }

  var isUp: Bool { connection != nil }
  private(set) var isClosed = false

  // MARK: To the server

  /// Sends a message to the server, where `serve` runs on arrival. A message that waited for a
  /// connection is sent only if it is still wanted. Returns false if the outbox is full or the link
  /// closed.
  @discardableResult
  func send(
    isWanted: @escaping () -> Bool = { true }, _ serve: @escaping () -> Void
  ) -> Bool {
    if isClosed { return false }
    guard let connection else {
      guard outbox.count < Self.outboxMax else {
        dropped += 1
        return false
      }
      outbox.append((isWanted, serve))
      return true
    }
    world.schedule(at: connection.up.arrival(nats.hop(), from: world.now)) { [world] in
      connection.up.receive(serve, at: world.now)
    }
    return true
  }

  // MARK: To the node

  func reply(_ body: @escaping () -> Void) {
    guard let connection else { return }
    arrive(at: connection.down.arrival(nats.hop(), from: world.now), connection, body)
  }

  /// Delivers a published message to the node. Faults may lose, delay or duplicate it.
  func deliver(_ lane: @autoclosure () -> Lane, _ body: @escaping () -> Void) {
    guard let connection else { return }
    let faults = nats.faults
    if random.chance(faults.lose) { return world.count("fault.message lost") }
    if faults.delay > 0 || !stragglers.isEmpty {
      let lane = lane()
      if random.chance(faults.delay) {
        world.count("fault.message delayed")
        let extra = random.span(.milliseconds(1), faults.delayLongest)
        stragglers[lane] = max(stragglers[lane] ?? world.now, world.now + extra)
      }
      if let behind = stragglers[lane] {
        if behind <= world.now {
          stragglers[lane] = nil
        } else {
          return arrive(at: behind + nats.hop(), connection, body)
        }
      }
    }
    if random.chance(faults.reorder) {
      world.count("fault.message reordered")
      let extra = random.span(.milliseconds(1), faults.delayLongest)
      return arrive(at: world.now + extra, connection, body)
    }
    if random.chance(faults.duplicate) {
      world.count("fault.message repeated")
      let again = world.now + nats.hop() + random.span(.zero, faults.delayLongest)
      arrive(at: again, connection, body)
    }
    arrive(at: connection.down.arrival(nats.hop(), from: world.now), connection, body)
  }

  private func arrive(at time: Timestamp, _ connection: Connection, _ body: @escaping () -> Void) {
    world.schedule(at: time) { [node, world] in
      connection.down.receive({ node.arrive(body) }, at: world.now)
    }
  }

  // MARK: Faults

  /// Cuts the line. Messages in flight may still arrive for up to one hop. The node detects the cut
  /// after `notice` and reconnects once nothing blocks it.
  func cut(until end: Timestamp, notice: Span) {
    blockedUntil = max(blockedUntil, end)
    if absence == nil || absence?.until != nil { absence = (world.now, nil) }
    guard let connection else { return }
    for direction in [connection.up, connection.down] {
      direction.cut = min(direction.cut, world.now + random.span(.zero, nats.hop()))
    }
    later(notice) { link in link.node.arrive { link.breakDown(connection) } }
  }

  /// Stalls the line until `end`; then all messages in flight arrive late. Only silence shows it.
  func stall(until end: Timestamp) {
    guard let connection, connection.up.held == nil else { return }
    connection.up.held = []
    connection.down.held = []
    later(end - world.now) { $0.release(connection) }
  }

  private func release(_ connection: Connection) {
    connection.up.release(at: world.now)
    connection.down.release(at: world.now)
  }

  /// Ends a stall or a cut. A node that is cut off reconnects after a moment.
  func heal() {
    blockedUntil = world.now
    if let connection {
      release(connection)
      if connection.up.cut != .distantFuture { node.arrive { self.breakDown(connection) } }
    } else if !isClosed {
      connectLater()
    }
  }

  private func breakDown(_ broken: Connection) {
    guard connection === broken else { return }
    connection = nil
    stragglers.removeAll()
    nats.forget(watchesOf: self)
    for body in onBreak { body() }
    connectLater()
  }

  private func connectLater() {
    let wait = random.span(.milliseconds(2), .milliseconds(250))
    later(max(blockedUntil, world.now) + wait - world.now) { link in
      link.node.arrive { link.connect() }
    }
  }

  private func connect() {
    guard connection == nil, !isClosed else { return }
    if blockedUntil > world.now || nats.isDown { return connectLater() }
    connection = Connection()
    absence?.until = world.now
    reconnects += 1
    for body in onReconnect { body() }
    let waiting = outbox
    outbox.removeAll()
    for unsent in waiting where unsent.isWanted() { send(unsent.serve) }
  }

  /// The process died. The kernel still sends some of its messages.
  private func died() {
    connection?.up.cut = world.now + random.span(.zero, nats.hop())
    close()
  }

  func close() {
    guard !isClosed else { return }
    isClosed = true
    outbox.removeAll()
    nats.forget(watchesOf: self)
    nats.forget(subscriptionsOf: self)
    for body in onBreak { body() }
    onBreak.removeAll()
    onReconnect.removeAll()
    for body in onClose { body() }
    onClose.removeAll()
    connection = nil
  }
}
