import CallCore
import CallPush
import CallTelemetry
import CallTestKit
import Crypto
import NIOCore
import NIOPosix
import Testing

@Suite("APNs: the sender against a strict server", .serialized)
struct APNsSimulatorTests {
  /// A fault and its permitted consequences.
  struct Fault: Sendable, CustomTestStringConvertible {
    let name: String
    let script: APNsScript
    /// The fate of some attempts is unknown: these may reach a device twice, with the same id.
    var mayDouble = false
    /// Whether it is noticed because something takes too long.
    var isSilence = false
    /// One, where the server cuts a line once it holds so many requests: with two it might hold fewer on each until its
    /// time is up, and then cut those that are sent again, too.
    var connections = 2
    /// The metrics by which the sender must have noticed the fault.
    var noticed: @Sendable (APNsMetrics) -> Bool = { _ in true }
    var testDescription: String { name }
  }

  private static func rule(_ fault: APNsFault, from: Int = 20, every: Int = 1, times: Int? = nil)
    -> APNsScript
  {
    APNsScript([.init(fault, from: from, every: every, times: times)])
  }

  /// A fault that leaves the fate unknown strikes each of these pushes once. A rule that counts requests might strike a
  /// repetition as well, and a push of unknown fate is repeated only once.
  private static func first(_ fault: APNsFault, of pushes: Int...) -> APNsScript {
    APNsScript(pushes.map { .init(fault, tokens: [SimulatedAPNs.token($0)], times: 1) })
  }

  static let faults: [Fault] = [
    Fault(name: "none", script: APNsScript()),
    Fault(
      name: "GOAWAY, this one the last", script: rule(.goAway(.init(reason: .shutdown)), every: 60),
      noticed: { $0.goAways.value > 0 }),
    Fault(
      name: "GOAWAY before this one",
      script: rule(.goAway(.init(reason: .shutdown, last: .before)), every: 60),
      noticed: { $0.requeued.value > 0 }),
    Fault(
      name: "GOAWAY, nothing in flight is answered",
      script: rule(.goAway(.init(last: .zero)), every: 60), noticed: { $0.requeued.value > 0 }),
    Fault(
      name: "GOAWAY in two phases",
      script: rule(.goAway(.init(last: .before, warning: .milliseconds(30))), every: 100),
      noticed: { $0.goAways.value >= 2 }),
    Fault(
      name: "GOAWAY, closing left to us", script: rule(.goAway(.init(closes: false)), every: 100),
      noticed: { $0.goAways.value > 0 }),
    Fault(
      name: "GOAWAY with an error", script: rule(.goAway(.init(code: 2, last: .before)), times: 1),
      mayDouble: true, noticed: { $0.goAways.value > 0 }),
    Fault(
      name: "GOAWAY and a TCP reset",
      script: rule(.goAway(.init(abruptly: true)), times: 1), mayDouble: true),
    Fault(
      name: "many in flight at a GOAWAY",
      script: APNsScript([
        .init(
          .gather(40, within: .seconds(2), then: .goAway(reason: .shutdown, answering: 10)),
          from: 20,
          times: 80)
      ]), noticed: { $0.requeued.value >= 30 }),
    Fault(
      name: "many in flight when the line is cut",
      script: APNsScript([
        .init(.gather(40, within: .seconds(30), then: .cut(answering: 10)), from: 20, times: 40)
      ]), mayDouble: true, connections: 1, noticed: { $0.repeated.value >= 1 }),
    Fault(name: "TCP reset", script: rule(.cut, times: 1), mayDouble: true),
    Fault(
      name: "REFUSED_STREAM, each fifth", script: rule(.refuse, from: 1, every: 5),
      noticed: { $0.requeued.value >= 50 }),
    Fault(
      name: "more resets than HTTP/2 libraries bear", script: rule(.refuse, from: 2, times: 280),
      noticed: { $0.requeued.value >= 250 }),
    Fault(
      name: "a storm of resets of one stream",
      script: rule(.reset(code: 7, times: 300), times: 1), mayDouble: true),
    Fault(
      name: "resets that tell nothing", script: first(.reset(code: 2), of: 19, 69, 119, 169),
      mayDouble: true, noticed: { $0.repeated.value == 4 }),
    Fault(name: "SETTINGS to and fro", script: rule(.flipSettings(400), times: 2)),
    Fault(name: "one stream for a while", script: rule(.limitStreams(1), times: 1)),
    Fault(name: "answers delayed", script: rule(.delay(.milliseconds(40)), every: 3)),
    Fault(
      name: "answers in reverse",
      script: rule(.gather(20, within: .milliseconds(200), then: .reversed), every: 1)),
    Fault(
      name: "answers in every shape",
      script: APNsScript([
        .init(.shape([.splitBody, .padding, .continuation, .emptyEnd]), every: 2),
        .init(.answer(.serviceUnavailable), from: 5, every: 61),
      ])),
    Fault(
      name: "no answer to some", script: first(.noAnswer, of: 19, 99), mayDouble: true,
      isSilence: true,
      noticed: { $0.overdue.value + $0.repeated.value >= 1 }),
    Fault(
      name: "delivered, but not answered", script: first(.deliverWithoutAnswer, of: 19, 99),
      mayDouble: true, isSilence: true, noticed: { $0.repeated.value >= 1 }),
    Fault(name: "500", script: rule(.answer(.internalServerError), every: 40, times: 4)),
    Fault(name: "503 Shutdown", script: rule(.answer(.shutdown), every: 80, times: 3)),
    Fault(
      name: "IdleTimeout as an answer", script: rule(.answer(.idleTimeout), every: 80, times: 2)),
    Fault(
      name: "429 for a device", script: rule(.answer(.tooManyRequests), every: 80, times: 3)),
    Fault(
      name: "UnrelatedKeyIdInToken",
      script: rule(.answer(.unrelatedKeyIDInToken), every: 90, times: 1)),
    Fault(
      name: "ExpiredProviderToken",
      script: rule(.answer(.expiredProviderToken), every: 90, times: 1)),
    Fault(
      name: "the first connection is refused in TLS",
      script: APNsScript(connections: [(1...1, .silent)]), isSilence: true),
    Fault(
      name: "the first two are cut", script: APNsScript(connections: [(1...2, .cut)])),
    Fault(
      name: "the first sends no SETTINGS",
      script: APNsScript(connections: [(1...1, .noSettings)]), isSilence: true),
    Fault(
      name: "the first is a black hole",
      script: APNsScript(connections: [(1...1, .blackHole)]), isSilence: true,
      noticed: { $0.repeated.value >= 1 }),
  ]

  @Test("no push is lost, none doubled but where its fate was unknown", arguments: faults)
  func survives(_ fault: Fault) async throws {
    var options = APNsSimulatorOptions()
    options.script = fault.script
    var limits = fault.isSilence ? SimulatedAPNs.limits : SimulatedAPNs.patientLimits
    limits.connections = fault.connections
    let world = try await SimulatedAPNs(options, limits: limits)
    let count = 300
    world.registerVoIP(count)
    let outcomes = await world.send((0..<count).map { SimulatedAPNs.message($0) })
    let delivered = world.deliveredByID
    for index in 0..<count {
      let id = SimulatedAPNs.id(index)
      #expect(outcomes[id] == .accepted, "push \(index): \(String(describing: outcomes[id]))")
      let times = delivered[id, default: 0]
      #expect(times >= 1, "push \(index) reached no device")
      #expect(times <= (fault.mayDouble ? 2 : 1), "push \(index) was delivered \(times) times")
    }
    let metrics = try #require(world.sender.metrics(of: "test"))
    #expect(fault.noticed(metrics))
    #expect(metrics.queueFull.value == 0)
    try await finish(world)
  }

  @Test("a server that ends each connection after 40 requests: all of 200 rings are sent")
  func fortyRequestsForEachConnection() async throws {
    var options = APNsSimulatorOptions()
    options.script = APNsScript([.init(.cut, from: 41, perConnection: true)])
    var limits = SimulatedAPNs.patientLimits
    // No more answers are lost with a connection than it has pushes under way.
    limits.inFlightPerConnection = 10
    let world = try await SimulatedAPNs(options, limits: limits)
    world.registerVoIP(200)
    let outcomes = await world.send((0..<200).map { SimulatedAPNs.message($0) })
    let unsent = outcomes.filter { $0.value != .accepted }
    #expect(outcomes.count == 200 && unsent.isEmpty, "\(unsent.values)")
    #expect(world.deliveredByID.count == 200)
    let metrics = try #require(world.sender.metrics(of: "test"))
    #expect(metrics.connectionsOpened.value >= 5)
    try await finish(world)
  }

  /// Closes everything, and checks the violations that the server counted.
  func finish(
    _ world: SimulatedAPNs, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws {
    await world.stop()
    let report = world.apns.report
    #expect(
      report.violationsTotal == 0, "\(report.violations) \(report.remarks)",
      sourceLocation: sourceLocation)
    #expect(report.abandoned == 0, sourceLocation: sourceLocation)
    for statistics in world.sender.statistics {
      #expect(statistics.status.inFlight == 0, sourceLocation: sourceLocation)
      #expect(statistics.status.connected == 0, sourceLocation: sourceLocation)
    }
    for index in 0..<400 {
      #expect(!world.log.all.contains(SimulatedAPNs.token(index)))
    }
    #expect(!world.log.all.contains("bearer"))
  }
}
