internal import CallAuth
internal import CallBus
internal import CallCore
internal import CallEdge
internal import CallTelemetry
internal import Logging
internal import NIOCore
internal import NIOEmbedded

extension FuzzTarget {
  /// A whole connection of the edge, from its first byte on: PROXY header, HTTP, WebSocket, session.
  /// First a byte that says whether there is a proxy, and how the rest is cut.
  static let edge = FuzzTarget("edge", bytesMax: 8192) {
    let bus = InProcessBus()
    var configuration = EdgeConfiguration(nodeID: "edge-1", appKeys: try FuzzKeys.apps())
    configuration.allowedOrigins = ["https://app.example"]
    configuration.trustedProxies = AddressRange.list("192.0.2.0/24") ?? []
    let capabilities = PushKeyring(try FuzzKeys.capabilities())
    return { input in
      var bytes = Array(input)
      let choice = bytes.takeChoice()
      configuration.proxyProtocol = choice & 1 != 0
      let loop = EmbeddedEventLoop()
      let edge = EmbeddedEdge(
        configuration: configuration, bus: bus, clock: ClusterClock(wallMicroseconds: FuzzKeys.now),
        secret: EdgeSecret(high: 1, low: 1), eventLoop: loop, metrics: MetricsRegistry(),
        logger: Logger(label: "fuzz") { _ in SwiftLogNoOpLogHandler() }, pushKeys: capabilities)
      let channel = EmbeddedChannel(loop: loop)
      let peer = try SocketAddress(ipAddress: "192.0.2.7", port: 4711)
      channel.remoteAddress = peer
      channel.connect(to: peer, promise: nil)
      try edge.accept(channel)
      let size = [bytes.count, 1, 16, 100][choice >> 1 & 3]
      while !bytes.isEmpty, channel.isActive {
        let piece = ByteBuffer(bytes: bytes.prefix(size))
        bytes.removeFirst(min(size, bytes.count))
        _ = try? channel.writeInbound(piece)
        loop.run()
      }
      channel.close(promise: nil)
      loop.run()
      defer { edge.abandon() }
      try promise(edge.openCount == 0, "\(edge.openCount) are open, and nobody is connected")
    }
  }

  /// The parts of a request that the edge reads.
  static let httpParts = FuzzTarget("http-parts") { bytes in
    let text = bytes.text
    for method in ["GET", "POST", "DELETE", "HEAD"] {
      _ = try? HTTPRoute.find(method: method, path: text[...])
    }
    _ = HTTPRoute.parameter("device", query: text[...])
    _ = ForwardedFor.device(text.split(separator: "\n").map(String.init)) { $0.isTrusted }
    _ = AllowedOrigins(["https://app.example"]).allows(text)
    if let address = PeerAddress(text) {
      try promise(PeerAddress(address.description) == address, "\(address) is another")
      try promise(AddressRange(text)?.contains(address) == true, "\(address) is not in itself")
    }
    _ = AddressRange.list(text)
    bytes.withUnsafeBytes { _ = ProxyHeader.read($0, bytesMax: 1024) }
  }
}

extension PeerAddress {
  fileprivate var isTrusted: Bool { AddressRange("10.0.0.0/8")?.contains(self) ?? false }
}

extension FuzzTarget {
  /// Answers of apps' servers to a question about a call.
  static let hookAnswers = FuzzTarget("hook-answers") { bytes in
    switch HookAnswer.read(bytes) {
    case .success(.allow(let name, _)):
      try promise(
        name.map { $0 == DisplayName.shown($0) && !$0.isEmpty } ?? true,
        "\(name ?? "") is not shown")
    case .success(.refuse(let error)):
      try promise(
        [.refusedByApp, .unknownUser, .userUnavailable].contains(error.code), "refused by \(error)")
      try promise(
        !error.message.isEmpty && error.message.utf8.count <= DisplayName.bytesMax,
        "no story, or a long one: \(error)")
    case .failure(let failure): try promise(failure == .unreadable, "it failed by \(failure)")
    }
  }
}
