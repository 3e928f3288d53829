internal import CallMachine
internal import CallWire

/// Makes a driver's connections of a transport's sockets: encodes and decodes frames, and gives each event to the
/// connection that it is of.
final class CoreNetwork: DeviceNetwork {
  private let transport: any Transport
  private let codec: DeviceCodec
  /// Takes a socket's events to the lock, with the socket's number.
  private let report: @Sendable (Int, SocketEvent) -> Void
  private var links: [Int: CoreLink] = [:]
  private var lastNumber = 0

  init(
    _ transport: any Transport, _ codec: DeviceCodec,
    report: @escaping @Sendable (Int, SocketEvent) -> Void
  ) {
    (self.transport, self.codec, self.report) = (transport, codec, report)
  }

  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    lastNumber += 1
    let (number, report) = (lastNumber, report)
    let url = EdgeAddress(edge).map(\.description) ?? edge
    let socket = transport.connect(to: url, subprotocol: codec.subprotocol) { report(number, $0) }
    let link = CoreLink(socket, codec, delegate) { [weak self] in self?.links[number] = nil }
    links[number] = link
    return link
  }

  /// Passes on an event of a socket. An event of a connection that the driver has closed is ignored.
  func happened(_ event: SocketEvent, to number: Int) { links[number]?.happened(event) }
}

/// One connection of a device.
final class CoreLink: DeviceLink {
  private let socket: any Socket
  private let codec: DeviceCodec
  private let forget: () -> Void
  /// The driver owns it as long as the connection.
  private weak var delegate: (any DeviceLinkDelegate)?

  init(
    _ socket: any Socket, _ codec: DeviceCodec, _ delegate: any DeviceLinkDelegate,
    forget: @escaping () -> Void
  ) {
    (self.socket, self.codec, self.delegate, self.forget) = (socket, codec, delegate, forget)
  }

  func send(_ frame: ClientFrame) {
    let bytes = codec.encode(frame)
    switch codec {
    case .protobuf: socket.send(.binary(bytes))
    case .json: socket.send(.text(String(decoding: bytes, as: UTF8.self)))
    }
  }

  /// Sockets send what they are given.
  func flush() {}

  func close(abruptly: Bool) {
    forget()
    // 1001, going away: the session may resume on another connection.
    socket.close(code: abruptly ? nil : 1001)
  }

  func happened(_ event: SocketEvent) {
    switch event {
    case .opened: delegate?.linkOpened()
    case .message(let message): received(message)
    case .closed(let end): fail(LinkClosed(end))
    }
  }

  private func received(_ message: SocketMessage) {
    let bytes: [UInt8]
    switch message {
    case .binary(let binary): bytes = binary
    case .text(let text): bytes = Array(text.utf8)
    }
    switch bytes.withUnsafeBytes({ codec.serverFrame($0) }) {
    case .success(let frame):
      guard let frame else { return }
      delegate?.linkReceived(frame)
      // Each message is a burst of its own: a transport does not say what else has arrived.
      delegate?.linkReadCompleted()
    case .failure(let cause):
      socket.close(code: 1002)
      fail(cause)
    }
  }

  private func fail(_ cause: LinkClosed) {
    forget()
    delegate?.linkClosed(cause)
  }
}

extension LinkClosed {
  fileprivate init(_ end: SocketEnd) {
    switch end {
    case .code(let code): self = .closedByPeer(code: code)
    case .notTrusted(let problem): self = .notTrusted(problem)
    case .failed(let problem): self = .broken(problem)
    }
  }
}
