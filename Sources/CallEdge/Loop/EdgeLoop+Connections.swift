internal import CallCore
internal import CallTelemetry
internal import DequeModule
internal import NIOCore

/// Which connections the loop takes.
extension EdgeLoop {
  /// Takes a new connection. It is given back when its channel closes.
  /// - Throws: why it is refused.
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
    metrics.unattached.add(1)
    metrics.connectionsTotal.increment()
    metrics.connections.add(1)
    // A single callback, since each costs a connection 100 bytes.
    channel.closeFuture.assumeIsolated().whenComplete { [weak self] _ in
      guard let self else { return }
      self.metrics.connections.add(-1)
      self.hasAttached(connection)
      self.shared.gate.release(connection.address)
    }
    return connection
  }

  /// Closes the oldest connection on which no device has attached, where there are too many.
  private func makeRoom() {
    guard unattached.count >= unattachedMax, let oldest = unattached.oldest,
      oldest.since + shared.gate.limits.unattachedKept <= now, let channel = oldest.channel
    else { return }
    shared.gate.refused(.unattached, oldest.address, now: now)
    hasAttached(oldest)
    channel.close(promise: nil)
  }

  /// A device has attached on the connection, or the connection is closed.
  func hasAttached(_ connection: Connection) {
    if unattached.remove(connection) { metrics.unattached.add(-1) }
  }

  /// Closes a connection that is refused. A bounded number of peers get an answer with the reason.
  /// - Throws: the refusal, so that the initializer of the channel closes it at once.
  func refuse(_ channel: any Channel, _ refusal: ConnectionRefusal) throws {
    let limits = shared.gate.limits
    // With TLS, an answer would take a handshake.
    guard shared.configuration.tls == nil, refusalsOpen < limits.refusalsToldPerLoop,
      let answer = HTTPAnswer(refusal, limits)
    else {
      throw refusal
    }
    refusalsOpen += 1
    channel.closeFuture.assumeIsolated().whenComplete { [weak self] _ in self?.refusalsOpen -= 1 }
    try channel.pipeline.syncOperations.addHandler(RefusedConnection(answer))
  }

  /// The handler that takes the PROXY header off a connection; nil where there is no such header.
  func proxyHeader(of connection: Connection) -> ProxyHeaderHandler? {
    let gate = shared.gate
    guard shared.configuration.proxyProtocol, let proxy = connection.address, gate.isTrusted(proxy)
    else { return nil }
    return ProxyHeaderHandler(bytesMax: gate.limits.proxyHeaderBytesMax) {
      [metrics, weak self] outcome in
      guard case .header(_, let source) = outcome else {
        metrics.count(limit: .proxyHeader)
        return false
      }
      guard let source else { return true }
      return self?.identify(connection, as: source) ?? false
    }
  }

  /// A proxy has given the address of the device whose connection it is.
  /// - Returns: false where that address has too many connections.
  func identify(_ connection: Connection, as address: PeerAddress) -> Bool {
    guard shared.gate.move(from: connection.address, to: address) else {
      shared.gate.refused(.address, address, now: now)
      return false
    }
    connection.address = address
    return true
  }
}

/// A connection, as the limits of peers count it. It lives as long as its channel.
final class Connection {
  /// The device's address; that of a trusted proxy until the proxy has given the device's.
  var address: PeerAddress?
  let since: Timestamp
  /// No credential that comes on it is verified until then; nil: there were not that many bad ones.
  var refusedUntil: Timestamp?
  /// Set while no device has attached.
  var channel: (any Channel)?

  init(_ address: PeerAddress?, _ channel: any Channel, since: Timestamp) {
    self.address = address
    self.channel = channel
    self.since = since
  }
}

/// The connections of one event loop on which no device has attached, by age.
struct UnattachedConnections {
  private var queue: Deque<Connection> = []
  private(set) var count = 0

  mutating func add(_ connection: Connection) {
    queue.append(connection)
    count += 1
  }

  /// - Returns: false where it was removed before.
  mutating func remove(_ connection: Connection) -> Bool {
    guard connection.channel != nil else { return false }
    connection.channel = nil
    count -= 1
    while let first = queue.first, first.channel == nil { queue.removeFirst() }
    // Connections that have attached stay in the queue behind an older one that has not. This bounds them.
    if queue.count > 2 * count + 64 { queue.removeAll { $0.channel == nil } }
    return true
  }

  var oldest: Connection? { queue.first }

  /// Forgets all connections, without closing them.
  mutating func abandon() {
    for connection in queue { connection.channel = nil }
    queue = []
    count = 0
  }
}
