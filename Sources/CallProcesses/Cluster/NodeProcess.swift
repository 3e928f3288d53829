/// A callnode of a local cluster.
package struct NodeProcess: Sendable {
  package let process: SupervisedProcess
  /// Where devices connect; 0 where none do.
  package let port: Int
  package let metricsPort: Int
  /// Its relay to each nats-server; empty where it connects directly.
  package let relays: [TCPRelay]

  package init(process: SupervisedProcess, port: Int, metricsPort: Int, relays: [TCPRelay]) {
    self.process = process
    self.port = port
    self.metricsPort = metricsPort
    self.relays = relays
  }

  package var name: String { process.name }

  package func isReady() async -> Bool {
    let answer = await HTTPProbe.get("127.0.0.1", metricsPort, "/readyz", seconds: 1)
    if answer.status > 0 { return answer.status == 200 }
    // An edge of an earlier version serves it at its devices' port.
    return port > 0
      ? await HTTPProbe.get("127.0.0.1", port, "/readyz", seconds: 1).status == 200 : false
  }

  package func servedShards() async -> Int? {
    let answer = await HTTPProbe.get("127.0.0.1", metricsPort, "/metrics", seconds: 1)
    guard answer.status == 200 else { return nil }
    let name = "callmesh_coordinator_shards "
    return answer.body.split(separator: "\n").first { $0.hasPrefix(name) }
      .flatMap { Double($0.dropFirst(name.count)) }.map { Int($0) }
  }
}
