import FoundationEssentials

/// The monitoring port of a nats-server.
package struct NATSMonitor: Sendable {
  let port: Int

  package struct JetStream: Decodable, Sendable {
    package struct Meta: Decodable, Sendable {
      package var leader: String?
      package var clusterSize: Int?
    }
    /// Bytes of all streams in files.
    package var storage: UInt64
    package var metaCluster: Meta?
  }

  package func jetStream() async -> JetStream? {
    guard let answer = await get("/jsz") else { return nil }
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try? decoder.decode(JetStream.self, from: Data(answer.utf8))
  }

  /// Whether JetStream works, in a cluster with a leader.
  package func isReady(servers: Int) async -> Bool {
    guard await get("/healthz") != nil, let found = await jetStream() else { return false }
    guard servers > 1 else { return true }
    return found.metaCluster?.leader?.isEmpty == false && found.metaCluster?.clusterSize == servers
  }

  /// nil where it does not answer well within a second.
  private func get(_ path: String) async -> String? {
    let answer = await HTTPProbe.send("GET", "127.0.0.1", port, path, version: "1.0", seconds: 1)
    return answer.status == 200 ? answer.body : nil
  }
}
