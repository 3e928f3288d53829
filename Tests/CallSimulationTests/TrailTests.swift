import CallAuth
import CallBus
import CallClient
import CallCoordinator
import CallCore
import CallEdge
import CallJudge
import CallTelemetry
import CallWire
import Logging
import Synchronization
import Testing

/// "Who searches for a call's id finds it everywhere": a coordinator and an edge on a bus in memory, with
/// devices on real sockets, at level `trace`.
@Suite(.timeLimit(.minutes(2))) struct TrailTests {
  /// The lines of one node.
  private final class Lines: Sendable {
    private let lines = Mutex<[String]>([])
    func add(_ line: String) { lines.withLock { $0.append(line) } }
    func with(_ text: String) -> [String] {
      lines.withLock { $0.filter { $0.contains(text) } }
    }
    var all: String { lines.withLock { $0.joined() } }

    func logger(_ level: Logger.Level) -> Logger {
      Logger(label: "callnode") { label in
        LineLogHandler(label: label, logLevel: level, asJSON: true, write: self.add)
      }
    }
  }

  private struct Cluster {
    var keys: AppKeys
    var port: Int
    var coordinator: Lines
    var edge: Lines

    func device(_ user: String, _ name: String) async throws -> CallDevice {
      let token = try keys.mintToken(
        app: "demo", user: user, device: name, lifetimeSeconds: 3600,
        now: CalendarTime.nowMilliseconds() / 1000)
      let device = CallDevice(
        ClientMachine.Configuration(
          edges: ["ws://127.0.0.1:\(port)"], token: token, device: name))
      device.start()
      return device
    }
  }

  private func withCluster(
    _ level: Logger.Level, _ body: (Cluster) async throws -> Void
  ) async throws {
    let bus = InProcessBus()
    let clock = ClusterClock(wallMicroseconds: CalendarTime.nowMilliseconds() * 1000)
    let (coordinatorLines, edgeLines) = (Lines(), Lines())
    var ofCoordinator = CoordinatorConfiguration(
      nodeID: "c1", cluster: "callmesh", version: "1")
    ofCoordinator.shardCount = 4
    ofCoordinator.settleTime = .milliseconds(50)
    ofCoordinator.sessionTickets = .offered
    let coordinator = CoordinatorNode(
      configuration: ofCoordinator, bus: bus, clock: clock, metrics: MetricsRegistry(),
      logger: coordinatorLines.logger(level))
    let (keys, _) = AppKeys.generateDevelopment(app: "demo")
    var ofEdge = EdgeConfiguration(nodeID: "e1", appKeys: keys)
    ofEdge.cluster = "callmesh"
    ofEdge.shardCount = 4
    let edge = EdgeNode(
      configuration: ofEdge, bus: bus, clock: clock, metrics: MetricsRegistry(),
      logger: edgeLines.logger(level))
    try await withThrowingTaskGroup(of: Void.self) { group in
      group.addTask { try await coordinator.run() }
      group.addTask { _ = try? await edge.run() }
      try await body(
        Cluster(
          keys: keys, port: try await edge.boundPort, coordinator: coordinatorLines,
          edge: edgeLines))
      group.cancelAll()
      while let result = await group.nextResult() { _ = result }
    }
    await bus.close()
  }

  /// One call: placed, alerting, answered, a candidate, hung up.
  private func call(_ cluster: Cluster) async throws -> CallID {
    let call = CallID(high: .random(in: 0 ... .max), low: .random(in: 0 ... .max))
    let ann = try await cluster.device("ann", "a1")
    let bob = try await cluster.device("bob", "b1")
    defer {
      ann.stop()
      bob.stop()
    }
    var anns = ann.events.makeAsyncIterator()
    var bobs = bob.events.makeAsyncIterator()
    while let event = await anns.next() { if case .attached = event { break } }
    while let event = await bobs.next() { if case .attached = event { break } }
    _ = try await ann.place(PlaceRequest(call: call, description: "secret-offer"), to: "bob")
    while let event = await bobs.next() { if case .call(call, .invited) = event { break } }
    try await bob.alerting(call)
    #expect(try await bob.answer(call, description: "secret-answer"))
    while let event = await anns.next() { if case .call(call, .answered) = event { break } }
    try await ann.signal(call, .candidate, "secret-candidate")
    try await ann.hangUp(call)
    while let event = await bobs.next() { if case .call(call, .stopped) = event { break } }
    return call
  }

  @Test("a call's id stands in the lines of coordinator and edge, and no secret does")
  func everywhere() async throws {
    try await withCluster(.trace) { cluster in
      let call = try await call(cluster)
      let decided = cluster.coordinator.with(call.description)
      for words in [
        #""message":"Call placed.""#, #""message":"Call answered.""#, #""message":"Call ended.""#,
        #""message":"Device alerts.""#,
      ] {
        #expect(decided.count { $0.contains(words) } == 1, "\(words): \(decided)")
      }
      #expect(decided.contains { $0.contains(#""reason":"hungUp""#) })
      #expect(decided.contains { $0.contains(#""user":"bob""#) && $0.contains(#""device":"b1""#) })
      let said = cluster.edge.with(call.description)
      for words in [
        "place received", "invite written", "answer received", "answered written",
        "hangUp received", "stop written", "signal received",
      ] {
        let lines = said.filter { $0.contains(#""message":"\#(words)""#) }
        #expect(!lines.isEmpty, "\(words): \(said)")
        #expect(lines.allSatisfy { $0.contains(#""user":""#) && $0.contains(#""device":""#) })
      }
      for lines in [cluster.coordinator.all, cluster.edge.all] {
        #expect(!lines.contains("secret-"))
      }
    }
  }

  @Test("at level info nothing is said of calls") func silentOtherwise() async throws {
    try await withCluster(.info) { cluster in
      let call = try await call(cluster)
      #expect(cluster.coordinator.with(call.description).isEmpty)
      #expect(cluster.edge.with(call.description).isEmpty)
    }
  }
}
