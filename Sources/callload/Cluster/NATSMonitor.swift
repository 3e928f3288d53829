import CallClient
import FoundationEssentials
import NIOCore
import NIOPosix

/// What a nats-server says of itself on its monitoring port.
package struct NATSMonitor: Sendable {
  let port: Int

  package struct JetStream: Decodable, Sendable {
    package struct Meta: Decodable, Sendable {
      package var leader: String?
      package var clusterSize: Int?
      enum CodingKeys: String, CodingKey {
        case leader
        case clusterSize = "cluster_size"
      }
    }
    /// Bytes of all streams in files.
    package var storage: UInt64
    package var messages: UInt64?
    package var metaCluster: Meta?
    enum CodingKeys: String, CodingKey {
      case storage, messages
      case metaCluster = "meta_cluster"
    }
  }

  package func jetStream() async -> JetStream? {
    guard let answer = await LocalHTTP.get(port: port, "/jsz"), answer.status == 200 else {
      return nil
    }
    return try? JSONDecoder().decode(JetStream.self, from: Data(answer.body))
  }

  /// Whether JetStream works, in a cluster with a leader.
  package func isReady(servers: Int) async -> Bool {
    guard await LocalHTTP.get(port: port, "/healthz")?.status == 200, let found = await jetStream()
    else { return false }
    guard servers > 1 else { return true }
    return found.metaCluster?.leader?.isEmpty == false && found.metaCluster?.clusterSize == servers
  }
}

/// Small questions to processes of this machine, over HTTP.
enum LocalHTTP {
  private static let bodyMax = 4 << 20

  /// The answer to `GET path` on 127.0.0.1, or nil after a second; also for a task that is cancelled.
  static func get(port: Int, _ path: String) async -> EdgeResponse? {
    await Task {
      try? await EdgeExchange.run(
        EdgeRequest(method: "GET", path: path),
        to: EdgeAddress(host: "127.0.0.1", port: port), timeout: .seconds(1), .system,
        on: MultiThreadedEventLoopGroup.singleton.next(), responseBytesMax: bodyMax)
    }.value
  }
}
