internal import CallCore

/// One node's connection to NATS. It keeps the order of messages in both directions until it
/// breaks.
final class SimLink: @unchecked Sendable {
  /// One of a link's successive connections. What is in flight when it breaks is lost.
  final class Connection {
    /// Messages that arrive at the server, or at the node, after these times are lost.
    var upCut = Timestamp.distantFuture
    var downCut = Timestamp.distantFuture
    /// Messages that arrived during a stall, in order; nil: the line is not stalled.
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
  private var stragglers: [Lane: Timestamp] = [:]
  /// Messages without a connection, to be sent over the next one.
  private var outbox: [Unsent] = []
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

  func reply(_ body: @escaping () -> Void) {
    guard let connection else { return }
    let arrival = max(lastDown, world.now + nats.hop())
    lastDown = arrival
    arrive(at: arrival, connection, body)
  }

  /// Delivers a published message to the node. Faults may lose, delay or duplicate it.
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

  // MARK: Faults

  /// Cuts the line. Messages in flight may still arrive for up to one hop. The node detects the cut
  /// after `notice` and reconnects once nothing blocks it.
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

  /// Stalls the line until `end`; then all messages in flight arrive late. Only silence shows it.
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

  /// Ends a stall or a cut. A node that is cut off reconnects after a moment.
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

  /// The process is gone. The kernel still sends a part of what was written.
  private func died() {
    connection?.upCut = world.now + random.span(.milliseconds(0), nats.hop())
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
