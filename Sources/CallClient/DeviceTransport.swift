package import CallCore
package import CallWire

// The seam between what devices do and how they are connected: sockets in a load run, an in-memory
// cluster in tests. Everything happens on one loop, so nothing here is shared between threads.

/// The time and timers of the loop that devices live on.
package protocol DeviceLoop: AnyObject {
  /// Monotonic, anchored to the wall clock once.
  var now: Timestamp { get }
  /// When what is being read was there at the latest: devices of one loop take turns, as devices do not.
  var arrivedAt: Timestamp { get }
  /// Runs an action on this loop, at the given time or as soon after it as may be.
  func schedule(at time: Timestamp, _ action: @escaping () -> Void)
}

extension DeviceLoop {
  package var arrivedAt: Timestamp { now }
}

/// Makes connections to edges.
package protocol DeviceNetwork: AnyObject {
  /// Begins a connection. Its owner hears of everything that becomes of it through `delegate`.
  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink
}

/// One connection. Frames that are sent before it is open, or after it closed, are dropped.
package protocol DeviceLink: AnyObject {
  /// Queues a frame for the next `flush`.
  func send(_ frame: ClientFrame)
  func flush()
  /// Closes without a word, as a phone that lost its network would, or after a close frame. The
  /// delegate hears nothing more.
  func close(abruptly: Bool)
}

/// Who owns a connection.
package protocol DeviceLinkDelegate: AnyObject {
  func linkOpened()
  func linkReceived(_ frame: ServerFrame)
  /// All that had arrived was handed over; at the end of each burst, pings included.
  func linkReadCompleted()
  /// Not called for a connection that its owner closed.
  func linkClosed(_ cause: LinkClosed)
}

/// Why a connection is gone.
package enum LinkClosed: Error, Equatable, Sendable, CustomStringConvertible {
  case connectFailed(String)
  case handshakeFailed(String)
  /// Over TLS the other side did not show that it is an edge.
  case notTrusted(String)
  /// The other side broke the protocol, or sent what cannot be read.
  case protocolError(String)
  /// The other side does not read what is sent.
  case writeBufferFull
  case closedByPeer(code: UInt16)
  case broken(String)

  package var description: String {
    switch self {
    case .connectFailed(let what): "connect failed: \(what)"
    case .handshakeFailed(let what): "handshake failed: \(what)"
    case .notTrusted(let what): what
    case .protocolError(let what): "protocol error: \(what)"
    case .writeBufferFull: "the other side does not read"
    case .closedByPeer(let code): "closed by the other side (\(code))"
    case .broken(let what): "connection broken: \(what)"
    }
  }

  /// The same without particulars, for counting.
  package var kind: String {
    switch self {
    case .connectFailed: "connect failed"
    case .handshakeFailed: "handshake failed"
    case .notTrusted(let what): what
    case .protocolError: "protocol error"
    case .writeBufferFull: "write buffer full"
    case .closedByPeer: "closed by edge"
    case .broken: "connection broken"
    }
  }
}
