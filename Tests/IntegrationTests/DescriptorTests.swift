import CallClient
import CallCore
import CallTestKit
import CallWire
import Foundation
import Glibc
import Testing

/// An edge at the end of its file descriptors.
@Suite(.serialized) struct DescriptorTests {
  /// Connections that say nothing.
  private final class Silent {
    private var descriptors: [Int32] = []

    func open(_ count: Int, port: Int) {
      for _ in 0..<count {
        let descriptor = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        descriptors.append(descriptor)
        var name = sockaddr_in()
        name.sin_family = sa_family_t(AF_INET)
        name.sin_port = UInt16(port).bigEndian
        name.sin_addr.s_addr = inet_addr("127.0.0.1")
        _ = withUnsafePointer(to: &name) {
          $0.withMemoryRebound(to: sockaddr.self, capacity: 1) {
            connect(descriptor, $0, socklen_t(MemoryLayout<sockaddr_in>.size))
          }
        }
      }
    }

    func close() {
      for descriptor in descriptors { Glibc.close(descriptor) }
      descriptors = []
    }

    deinit { close() }
  }

  /// It serves those that it has, says what to do, does not spin, and accepts again.
  @Test func theEdgeSurvivesThem() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 0, waits: false)
    defer { cluster.stop() }
    // More connections than descriptors, so that these end first.
    try cluster.startEdge("e1", files: 80, ["--connections-max", "1000", "--event-loops", "2"])
    try await cluster.waitUntilReady("e1")
    #expect(cluster.log("e1").contains("connectionsMax is 1000"), "\(cluster.log("e1"))")
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    let bob = try await cluster.device("bob", "b1", edges: ["e1"])

    let silent = Silent()
    silent.open(200, port: cluster.port("e1"))
    try await cluster.waitForLog("e1", "no file descriptor left")
    // The connections that the edge has go on.
    try await bob.answer(try await alice.place(to: "bob"), of: alice)

    silent.close()
    try await eventually("the edge accepts again") {
      try await cluster.get("e1", "/healthz").status == 200
    }
    // One attempt a second: an edge that spins makes tens of thousands.
    let metrics = try await cluster.ask("e1", "/metrics").body
    let name = #"callmesh_connections_refused_total{reason="descriptors"} "#
    let line = try #require(metrics.split(separator: "\n").first { $0.hasPrefix(name) })
    let attempts = try #require(Double(line.dropFirst(name.count)))
    #expect(attempts >= 1 && attempts < 1000, "\(attempts)")
  }

  /// Where no option says how many connections there may be, some descriptors are left.
  @Test func theDefaultLeavesSome() async throws {
    let cluster = try await TestCluster.start(coordinators: 1, edges: 0, waits: false)
    defer { cluster.stop() }
    try cluster.startEdge("e1", files: 200, ["--event-loops", "2"])
    try await cluster.waitUntilReady("e1")
    let silent = Silent()
    silent.open(300, port: cluster.port("e1"))
    try await cluster.waitForLog("e1", "no device has attached")
    #expect(!cluster.log("e1").contains("no file descriptor left"))
    // The oldest of these give way to a device.
    let alice = try await cluster.device("alice", "a1", edges: ["e1"])
    alice.stop()
  }
}
