internal import CallCore
internal import CallTelemetry
internal import DequeModule
internal import NIOCore

/// A connection as the edge's limits see it. Lives as long as its channel.
final class Connection {
  /// The device's, as far as it is known: a trusted proxy's until that says whose connection it is.
  fileprivate(set) var address: PeerAddress?
  fileprivate let since: Timestamp
  /// Set while no device has attached.
  fileprivate var channel: (any Channel)?

  fileprivate init(_ address: PeerAddress?, _ channel: any Channel, since: Timestamp) {
    self.address = address
    self.channel = channel
    self.since = since
  }
}

/// The connections of one event loop on which no device has attached, by age.
struct UnattachedConnections {
  private var queue: Deque<Connection> = []
  private(set) var count = 0

  fileprivate mutating func add(_ connection: Connection) {
    queue.append(connection)
    count += 1
  }

  /// - Returns: false where it was removed before.
  fileprivate mutating func remove(_ connection: Connection) -> Bool {
    guard connection.channel != nil else { return false }
    connection.channel = nil
    count -= 1
    while let first = queue.first, first.channel == nil { queue.removeFirst() }
    // What attached stays in the queue behind an older one that did not: not too many of these.
    if queue.count > 2 * count + 64 { queue.removeAll { $0.channel == nil } }
    return true
  }

  fileprivate var oldest: Connection? { queue.first }

  /// Lets go of all, which stay open.
  mutating func abandon() {
    for connection in queue { connection.channel = nil }
    queue = []
    count = 0
  }
}

extension EdgeLoop {
  /// Takes a new connection. It leaves by itself when its channel closes.
  func admit(_ channel: any Channel) throws(ConnectionRefusal) -> Connection {
    let gate = shared.gate
    let address = PeerAddress(channel.remoteAddress)
    makeRoom()
    if unattached.count >= unattachedMax {
      gate.refused(.unattached, address, now: now)
      throw .unattached
    }
    if let refusal = gate.admit(address) {
      gate.refused(refusal, address, now: now)
      throw refusal
    }
    let connection = Connection(address, channel, since: now)
    unattached.add(connection)
    gate.metrics.unattached.add(1)
    metrics.connectionsTotal.increment()
    metrics.connections.add(1)
    // One callback: a second one costs each connection 100 bytes.
    channel.closeFuture.assumeIsolated().whenComplete { [weak self] _ in
      guard let self else { return }
      self.metrics.connections.add(-1)
      self.hasAttached(connection)
      self.shared.gate.leave(connection.address)
    }
    return connection
  }

  /// Closes the oldest connection on which nobody has attached, where there are too many.
  private func makeRoom() {
    guard unattached.count >= unattachedMax, let oldest = unattached.oldest,
      oldest.since + shared.gate.limits.unattachedKept <= now, let channel = oldest.channel
    else { return }
    shared.gate.refused(.unattached, oldest.address, now: now)
    hasAttached(oldest)
    channel.close(promise: nil)
  }

  /// The connection does not count as one without a device any more.
  func hasAttached(_ connection: Connection) {
    if unattached.remove(connection) { shared.gate.metrics.unattached.add(-1) }
  }

  /// A proxy says whose connection it is.
  /// - Returns: false where that address has too many.
  func identify(_ connection: Connection, as address: PeerAddress) -> Bool {
    guard shared.gate.move(from: connection.address, to: address) else {
      shared.gate.refused(.address, address, now: now)
      return false
    }
    connection.address = address
    return true
  }
}
