internal import CallCore

/// One node's connection to NATS. What it carries keeps its order, both ways, until it breaks.
final class SimLink: @unchecked Sendable {
  /// One connection of the several that a link has in its life: what is under way when it breaks is
  /// lost.
  final class Connection {
    /// What arrives at the server, and at the node, from these times on is lost.
    var upCut = Timestamp.distantFuture
    var downCut = Timestamp.distantFuture
    /// What arrived while the line was held up, in order; nil: it is not.
    var heldUp: [() -> Void]?
    var heldDown: [() -> Void]?
  }

  private struct Unsent {
    var isWanted: () -> Bool
    var serve: () -> Void
  }

  struct Lane: Hashable {
    var publisher: Int
    var subject: String
  }

  let node: SimNode
  unowned let nats: SimNATS
  let number: Int
  private(set) var connection: Connection?
  private var lastUp = Timestamp(microseconds: 0)
  private var lastDown = Timestamp(microseconds: 0)
  /// When what was delayed on a lane is there.
  private var stragglers: [Lane: Timestamp] = [:]
  /// What was said while there was no connection. It is sent when there is one again.
  private var outbox: [Unsent] = []
  /// Policy of a full outbox: refuse, and count.
  private static let outboxMax = 65_536
  private(set) var reconnects = 0
  /// The last time that the line was cut; `until` is nil while it is.
  private(set) var absence: (from: Timestamp, until: Timestamp?)?
  var dropped: UInt64 = 0
  /// Called when the connection broke, and when there is a new one.
  var onBreak: [() -> Void] = []
  var onReconnect: [() -> Void] = []
  var onClose: [() -> Void] = []
  /// The server does not take a connection before.
  private var blockedUntil = Timestamp(microseconds: 0)
  private var random: SimRandom

  private var world: SimWorld { node.world }

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

  /// Says something to the server: `serve` runs there when it has arrived. What waits for a
  /// connection is only sent if it is still wanted then. False when it is refused.
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
      outbox.append(Unsent(isWanted: isWanted, serve: serve))
      return true
    }
    let arrival = max(lastUp, world.now + nats.hop())
    lastUp = arrival
    world.schedule(at: arrival, "to NATS") { [world] in
      if world.now >= connection.upCut { return }
      if connection.heldUp != nil { connection.heldUp!.append(serve) } else { serve() }
    }
    return true
  }

  // MARK: To the node

  /// Says something to the node, in order behind what was said before.
  func reply(_ body: @escaping () -> Void) {
    guard let connection else { return }
    let arrival = max(lastDown, world.now + nats.hop())
    lastDown = arrival
    arrive(at: arrival, connection, body)
  }

  /// Hands a message to the node. Faults may delay it, or let it come again.
  func deliver(_ lane: @autoclosure () -> Lane, _ body: @escaping () -> Void) {
    guard let connection else { return }
    let faults = nats.faults
    if random.chance(faults.lose) { return world.count("fault.message lost") }
    var extra = Span(microseconds: 0)
    if faults.delay > 0 || !stragglers.isEmpty {
      let lane = lane()
      if random.chance(faults.delay) {
        world.count("fault.message delayed")
        extra = random.span(.milliseconds(1), faults.delayLongest)
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
      arrive(
        at: world.now + random.span(.milliseconds(1), faults.delayLongest), connection, body)
      return
    }
    if random.chance(faults.duplicate) {
      world.count("fault.message repeated")
      arrive(
        at: world.now + nats.hop() + random.span(.milliseconds(0), faults.delayLongest),
        connection, body)
    }
    let arrival = max(lastDown, world.now + nats.hop())
    lastDown = arrival
    arrive(at: arrival, connection, body)
  }

  private func arrive(at time: Timestamp, _ connection: Connection, _ body: @escaping () -> Void) {
    world.schedule(at: time, "from NATS") { [node, world] in
      if world.now >= connection.downCut { return }
      if connection.heldDown != nil {
        connection.heldDown!.append { node.arrive(body) }
      } else {
        node.arrive(body)
      }
    }
  }

  // MARK: Fate

  /// The line is cut. What is under way on it arrives while it is before the cut, which is up to a
  /// hop later. The node notices after `notice`, and has a new connection once nothing blocks it.
  func cut(until end: Timestamp, notice: Span) {
    blockedUntil = max(blockedUntil, end)
    if absence == nil || absence?.until != nil { absence = (world.now, nil) }
    guard let connection else { return }
    connection.upCut = min(connection.upCut, world.now + random.span(.milliseconds(0), nats.hop()))
    connection.downCut = min(
      connection.downCut, world.now + random.span(.milliseconds(0), nats.hop()))
    world.schedule(after: notice, "connection breaks") { [weak self] in
      self?.node.arrive { self?.breakDown(connection) }
    }
  }

  /// The line carries nothing until `end`, then all that was under way, late. Nobody notices but by
  /// silence.
  func stall(until end: Timestamp) {
    guard let connection, connection.heldUp == nil else { return }
    connection.heldUp = []
    connection.heldDown = []
    world.schedule(at: end, "line free") { [weak self] in self?.release(connection) }
  }

  private func release(_ connection: Connection) {
    guard let up = connection.heldUp.take(), let down = connection.heldDown.take() else { return }
    if world.now < connection.upCut { for body in up { body() } }
    if world.now < connection.downCut { for body in down { body() } }
  }

  /// Nothing holds the line up any more, and nothing keeps the node from connecting anew. It may
  /// take a moment until it does.
  func heal() {
    blockedUntil = world.now
    if let connection {
      release(connection)
      if connection.upCut != .distantFuture { node.arrive { self.breakDown(connection) } }
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
    world.schedule(at: max(blockedUntil, world.now) + wait, "reconnect") { [weak self] in
      self?.node.arrive { self?.connect() }
    }
  }

  private func connect() {
    guard connection == nil, !isClosed else { return }
    if blockedUntil > world.now || nats.isDown { return connectLater() }
    connection = Connection()
    absence?.until = world.now
    reconnects += 1
    lastUp = world.now
    lastDown = world.now
    for body in onReconnect { body() }
    let waiting = outbox
    outbox.removeAll()
    for unsent in waiting where unsent.isWanted() { send(unsent.serve) }
  }

  /// The process is gone: the kernel still sends what was written, up to a point.
  private func died() {
    connection?.upCut = world.now + random.span(.milliseconds(0), nats.hop())
    close()
  }

  /// Nothing is sent or received any more.
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
