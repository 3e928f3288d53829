internal import CallCore
internal import DequeModule
internal import NIOCore

/// A connection, as the limits of peers count it. It lives as long as its channel.
final class Connection {
  /// The device's address; that of a trusted proxy until the proxy has said whose connection it is.
  var address: PeerAddress?
  let since: Timestamp
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
