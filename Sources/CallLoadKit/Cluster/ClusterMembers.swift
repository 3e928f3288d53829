import CallClient
import FoundationEssentials
import NIOCore
import NIOPosix

package struct NATSMember: Sendable {
  package let process: SupervisedProcess
  package let url: String
  package let port: Int
  package let monitor: NATSMonitor
}

package struct NodeMember: Sendable {
  package let process: SupervisedProcess
  /// Where devices connect; 0 where none do.
  package let port: Int
  package let metricsPort: Int
  /// Its relay to each nats-server; empty where it connects directly.
  package let relays: [TCPRelay]

  package var name: String { process.name }

  /// The names of the roles of the process, as the cluster knows them.
  var roleNames: [String] {
    process.role == .node ? [ChaosFault.coordinator(of: name), "\(name)-edge"] : [name]
  }

  package func isReady() async -> Bool {
    if let answer = await LocalHTTP.get(port: metricsPort, "/readyz") {
      return answer.status == 200
    }
    // An edge of an earlier version serves it at its devices' port.
    return port > 0 ? await LocalHTTP.get(port: port, "/readyz")?.status == 200 : false
  }

  package func servedShards() async -> Int? {
    guard let answer = await LocalHTTP.get(port: metricsPort, "/metrics"), answer.status == 200
    else { return nil }
    let name = "callmesh_coordinator_shards "
    return String(decoding: answer.body, as: UTF8.self).split(separator: "\n")
      .first { $0.hasPrefix(name) }
      .flatMap { Double($0.dropFirst(name.count)) }.map { Int($0) }
  }
}

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
    guard let answer = await LocalHTTP.get(port: port, "/jsz"), answer.status == 200 else {
      return nil
    }
    let decoder = JSONDecoder()
    decoder.keyDecodingStrategy = .convertFromSnakeCase
    return try? decoder.decode(JetStream.self, from: Data(answer.body))
  }

  /// Whether JetStream works, in a cluster with a leader.
  package func isReady(servers: Int) async -> Bool {
    guard await LocalHTTP.get(port: port, "/healthz")?.status == 200, let found = await jetStream()
    else { return false }
    guard servers > 1 else { return true }
    return found.metaCluster?.leader?.isEmpty == false && found.metaCluster?.clusterSize == servers
  }
}

/// HTTP requests to processes of this machine.
private enum LocalHTTP {
  private static let bodyMax = 4 << 20

  /// The answer to `GET path` on 127.0.0.1, or nil after a second; also in a cancelled task.
  static func get(port: Int, _ path: String) async -> EdgeResponse? {
    await Task {
      try? await EdgeExchange.run(
        EdgeRequest(method: "GET", path: path),
        to: EdgeAddress(host: "127.0.0.1", port: port), timeout: .seconds(1), .system,
        on: MultiThreadedEventLoopGroup.singleton.next(), responseBytesMax: bodyMax)
    }.value
  }
}
