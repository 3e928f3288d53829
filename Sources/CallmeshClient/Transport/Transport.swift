/// Opens WebSockets to edges. It is all that the library needs of the network.
///
/// `URLSessionTransport` (Apple's platforms) and `NIOTransport` (module `CallmeshNIO`) are two; an app may bring its
/// own. Requirements for every transport:
///
/// - Offer exactly the given subprotocol, and fail if the server chooses none.
/// - Report what happens in order, one at a time, and nothing behind `SocketEvent.closed`.
/// - Never report from within `connect`, or from within a method of the socket: the library holds a lock then.
/// - Send messages in order, each as one WebSocket message, and answer pings.
/// - Take messages of up to `messageBytesMax`.
public protocol Transport: Sendable {
  /// Begins a connection.
  /// - Parameters:
  ///   - url: `wss://host:port/path`, or `ws://` without TLS.
  ///   - subprotocol: the only one to offer.
  ///   - report: takes what happens, from any thread.
  func connect(
    to url: String, subprotocol: String, report: @escaping @Sendable (SocketEvent) -> Void
  ) -> any Socket
}

/// The largest message of an edge: a description and its candidates fit with room to spare.
public let messageBytesMax = 4 << 20

/// One WebSocket. Whatever is sent before it is open, or behind its end, is dropped.
public protocol Socket: Sendable {
  func send(_ message: SocketMessage)
  /// Closes the connection. Nothing is reported afterwards.
  /// - Parameter code: for the close frame, behind all messages; nil: the connection breaks without one.
  func close(code: UInt16?)
}

public enum SocketMessage: Sendable, Equatable {
  case text(String)
  case binary([UInt8])
}

/// An event of a WebSocket.
public enum SocketEvent: Sendable, Equatable {
  case opened
  case message(SocketMessage)
  case closed(SocketEnd)
}

/// Why a WebSocket is gone.
public enum SocketEnd: Sendable, Equatable {
  /// The server closed it, with the code of its close frame.
  case code(UInt16)
  /// The server's certificate is not trusted; the text says why.
  case notTrusted(String)
  /// It could not be opened, or broke; the text says why.
  case failed(String)
}
