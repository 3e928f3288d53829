import NIOCore
import NIOEmbedded
import NIOHTTP1
import NIOWebSocket

/// Lets NIO's server answer an upgrade request, to learn its Sec-WebSocket-Accept.
struct EmbeddedChannelUpgrade {
  let accept: String

  init(key: String) {
    let channel = EmbeddedChannel()
    let upgrader = NIOWebSocketServerUpgrader(
      shouldUpgrade: { channel, _ in channel.eventLoop.makeSucceededFuture([:]) },
      upgradePipelineHandler: { channel, _ in channel.eventLoop.makeSucceededVoidFuture() })
    let headers: HTTPHeaders = [
      "Host": "x", "Upgrade": "websocket", "Connection": "upgrade", "Sec-WebSocket-Version": "13",
      "Sec-WebSocket-Key": key,
    ]
    let head = HTTPRequestHead(version: .http1_1, method: .GET, uri: "/", headers: headers)
    let future = upgrader.buildUpgradeResponse(
      channel: channel, upgradeRequest: head, initialResponseHeaders: [:])
    channel.embeddedEventLoop.run()
    accept = (try? future.wait())?["Sec-WebSocket-Accept"].first ?? ""
  }
}
