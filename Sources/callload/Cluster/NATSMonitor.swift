import FoundationEssentials

/// What a nats-server says of itself on its monitoring port.
package struct NATSMonitor: Sendable {
  let port: Int

  package struct JetStream: Decodable, Sendable {
    package struct Meta: Decodable, Sendable {
      package var leader: String?
      package var cluster_size: Int?
    }
    /// Bytes of all streams in files.
    package var storage: UInt64
    package var messages: UInt64?
    package var meta_cluster: Meta?
  }

  package func jetStream() async -> JetStream? {
    guard let answer = await LocalHTTP.get(port: port, "/jsz"), answer.status == 200 else {
      return nil
    }
    return try? JSONDecoder().decode(JetStream.self, from: Data(answer.body))
  }

  /// Whether JetStream works, in a cluster with a leader.
  package func isReady(servers: Int) async -> Bool {
    guard await LocalHTTP.get(port: port, "/healthz")?.status == 200,
      let found = await jetStream()
    else { return false }
    guard servers > 1 else { return true }
    return found.meta_cluster?.leader?.isEmpty == false
      && found.meta_cluster?.cluster_size == servers
  }
}
