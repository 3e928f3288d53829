import CallClient
import NIOCore
import NIOPosix

/// Small questions to processes of this machine, over HTTP.
enum LocalHTTP {
  private static let bodyMax = 4 << 20

  /// The answer to `GET path` on 127.0.0.1, or nil where nobody answers within a second. It also asks for a
  /// task that is cancelled: what was done to the cluster is undone then.
  static func get(port: Int, _ path: String) async -> EdgeResponse? {
    await Task {
      try? await EdgeExchange.run(
        EdgeRequest(method: "GET", path: path),
        to: EdgeAddress(host: "127.0.0.1", port: port), timeout: .seconds(1), .system,
        on: MultiThreadedEventLoopGroup.singleton.next(), responseBytesMax: bodyMax)
    }.value
  }
}
