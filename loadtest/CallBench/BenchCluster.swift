import CallClient
import CallCoordinator
import CallCore
import CallJudge
import CallSimulation
import CallTelemetry
import CallWire
import Logging

/// A coordinator and an edge as they are, one after the other on one thread, between a simulated NATS and
/// simulated sockets. The same run takes the same instructions.
final class BenchCluster {
  private static let devicesPerUser = 3
  /// Long enough for everything that a call causes, so that calls do not share turns or messages.
  private static let spacing = Span.milliseconds(25)

  private let world: SimWorld
  private let coordinator: SimNode
  private let edge: SimEdge
  private var users: [(name: String, devices: [SimDevice])] = []
  private var lastCall: UInt64 = 0
  private var links = 0
  private(set) var completed = 0

  init(_ options: SimOptions) {
    world = SimWorld(seed: 1)
    var options = options
    options.intensity = .calm
    options.shardCount = 64
    options.limits = CallLimits()
    let nats = SimNATS(world)
    // As with 64 shards: each has a stream of its own.
    nats.store = SimStore(shardsShareSequence: false)
    edge = SimEdge(name: "edge", nats: nats, options: options)
    var configuration = CoordinatorConfiguration(
      nodeID: "coordinator", cluster: "sim", version: "bench")
    configuration.shardCount = options.shardCount
    configuration.authority = options.authority
    configuration.sessionTickets = .required
    coordinator = world.makeNode("coordinator")
    let program = CoordinatorNode(
      configuration: configuration, bus: nats.connect(node: coordinator),
      clock: coordinator.clock(), metrics: MetricsRegistry(),
      logger: Logger(label: "bench") { _ in SwiftLogNoOpLogHandler() }, incarnation: 1)
    _ = coordinator.start { try? await program.run() }
    edge.start()
    // Those of the simulation's users whose names are plain.
    for number in 5..<24 {
      let name = "u\(number)"
      let devices = (0..<Self.devicesPerUser).map { index in
        SimDevice(
          who: Who(name, "d\(index)"), world: world, edges: [edge], options: options,
          observer: self)
      }
      users.append((name, devices))
    }
  }

  /// Connects all devices and runs some calls, so that tables and caches have their size.
  /// - Returns: how many devices are not attached.
  func warmUp(calls: Int) -> Int {
    world.run(for: .seconds(5))
    for user in users { for device in user.devices { device.start() } }
    world.run(for: .seconds(10))
    run(calls: calls)
    return users.reduce(0) { $0 + $1.devices.count { !$0.isAttached } }
  }

  /// From now on the nodes' work runs inside these.
  func measure(
    edge edgeRunner: @escaping (() -> Void) -> Void,
    coordinator coordinatorRunner: @escaping (() -> Void) -> Void
  ) {
    edge.node?.runner = edgeRunner
    coordinator.runner = coordinatorRunner
  }

  /// Places calls one after the other, each of which three devices ring for and one answers.
  func run(calls: Int) {
    completed = 0
    for _ in 0..<calls {
      place()
      world.run(for: Self.spacing)
    }
    world.run(for: .seconds(2))
  }

  private func place() {
    lastCall += 1
    let number = Int(lastCall)
    // Another pair each time, since calls of one pair are limited. Who is called calls nobody: no two calls cross.
    let half = users.count / 2
    let caller = number % half * 2
    let callee = (number + number / half) % half * 2 + 1
    let call = CallID(high: 0x9E37_79B9_7F4A_7C15 &* lastCall, low: lastCall)
    users[caller].devices[0].submit(
      .place(
        CallAddress(callee: users[callee].name, call: call),
        PlaceRequest(call: call, description: Self.description)))
  }

  /// Acts as people do.
  func told(_ device: SimDevice, _ event: ClientEvent) {
    switch event {
    case .call(let call, .invited):
      device.submit(.call(CallAddress(call: call), .alerting))
      guard device.who.device == "d1" else { return }
      device.after(.milliseconds(100)) {
        device.submit(.call(CallAddress(call: call), .answer(description: Self.description)))
      }
    case .call(let call, .won): device.submit(.call(CallAddress(call: call), .connected))
    case .call(let call, .answered):
      device.submit(.call(device.address(call), .connected))
      device.after(.milliseconds(200)) { device.submit(.call(device.address(call), .hangUp)) }
    case .replied(_, .call(_, .hangUp), .call): completed += 1
    default: break
    }
  }

  /// As long as one for audio that offers two codecs.
  private static let description = String(repeating: "a=rtpmap:111 opus/48000/2\r\n", count: 15)
}

extension BenchCluster: SimDeviceObserver {
  func newLink() -> Int {
    links += 1
    return links
  }
  func started(_ device: SimDevice) {}
  func opened(_ line: SimLine) {}
  func closed(_ line: SimLine) {}
  func disturbed(_ line: SimLine) {}
  func sending(_ frame: ClientFrame, on line: SimLine) -> ClientFrame { frame }
  func receiving(_ frame: ServerFrame, on line: SimLine) -> ServerFrame { frame }
}
