package import CallCore
package import CallWire

// The seam between the device's logic and its transport: sockets in an app and a load run, an
// in-memory cluster in tests. Everything happens on one loop, so nothing is shared between
// threads.

/// The time and timers of the loop that devices live on.
package protocol DeviceLoop: AnyObject {
  /// Monotonic, anchored to the wall clock once.
  var now: Timestamp { get }
  /// The latest time at which the bytes being read can have arrived. Later reads of one loop turn
  /// wait for earlier ones, which real devices would not.
  var arrivedAt: Timestamp { get }
  /// Runs an action on this loop at the given time or as soon as possible after it.
  func schedule(at time: Timestamp, _ action: @escaping () -> Void)
}

extension DeviceLoop {
  package var arrivedAt: Timestamp { now }
}

extension DeviceCodec {
  /// Reads a frame of an edge. nil: one of a kind that a later version added. It is not for this client.
  package func serverFrame(_ bytes: UnsafeRawBufferPointer) -> Result<ServerFrame?, LinkClosed> {
    do throws(FrameError) {
      return .success(try decodeServer(bytes))
    } catch {
      guard error.error.code != .unknownCommand else { return .success(nil) }
      return .failure(.protocolError(error.error.message))
    }
  }
}

/// Makes connections to edges.
package protocol DeviceNetwork: AnyObject {
  /// Begins a connection, which reports everything to `delegate`.
  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink
}

/// One connection. Frames that are sent before it is open, or after it closed, are dropped.
package protocol DeviceLink: AnyObject {
  /// Queues a frame for the next `flush`.
  func send(_ frame: ClientFrame)
  func flush()
  /// Closes the connection. The delegate is not called afterwards.
  /// - Parameter abruptly: without a close frame, as a phone that lost its network.
  func close(abruptly: Bool)
}

/// The owner of a connection.
package protocol DeviceLinkDelegate: AnyObject {
  func linkOpened()
  func linkReceived(_ frame: ServerFrame)
  /// The end of a burst: all bytes that had arrived were handled, pings included.
  func linkReadCompleted()
  /// Not called for a connection that its owner closed.
  func linkClosed(_ cause: LinkClosed)
}

/// Why a connection is gone.
package enum LinkClosed: Error, Equatable, Sendable, CustomStringConvertible {
  case connectFailed(String)
  case handshakeFailed(String)
  /// The peer's certificate is not that of a trusted edge.
  case notTrusted(String)
  /// The peer violated the protocol or sent something unreadable.
  case protocolError(String)
  /// The peer does not read what is sent to it.
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

  /// The kind without particulars, for counting.
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
