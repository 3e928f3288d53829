import CallClient
import CallCore
import CallLoadKit
import CallProcesses
import CallTestKit
import Testing

/// The devices that lose their sessions by a fault, and when the last of them is back.
@Suite("Devices that a fault disconnects") struct FaultCourseTests {
  private static let devices = 30

  /// All edges die three seconds into the load.
  /// - Parameters:
  ///   - backSeconds: when they are up again, after that; nil: never.
  ///   - duration: of the load, in seconds.
  ///   - next: when another fault of the same kind is there, in seconds after the first one.
  ///   - silently: the present connections stay open, but pass nothing on.
  private func course(
    backSeconds: Int64?, lostEdges: [Int] = [0, 1], kind: ChaosKind = .killAllEdges,
    duration: Double = 20, silently: Bool = false, next: ClosedRange<Int64>? = nil
  ) throws -> RunResult? {
    let loop = VirtualDeviceLoop()
    let twin = FaultyTwin(loop: loop)
    twin.shardCount = 4
    var options = LoadOptions(edges: ["ws://twin-1:1", "ws://twin-2:1"]) { user, device in
      FaultyTwin.token(user: user, device: device)
    }
    options.devices = Self.devices
    // No part of it drops a connection.
    options.scenario = try #require(Scenario.named("answered"))
    options.isDisturbed = true
    options.shardCount = 4
    options.settleSeconds = 75
    let fleet = DeviceFleet(
      options: options, progress: LoadProgress(), loop: loop, network: twin, nonce: 5)
    var isConnected = false
    try fleet.connect { isConnected = true }
    try #require(loop.run(for: .seconds(60)) { isConnected })
    var result: RunResult?
    fleet.load(rate: 1, duration: duration) { result = $0 }
    let fault = ChaosFault(id: 1, kind: kind, node: "all", role: .edge, edges: lostEdges)
    let killAt = loop.now + .seconds(3)
    loop.schedule(at: killAt) {
      fleet.note(.begins(fault))
      twin.isDown = !silently
      for link in Array(twin.sessions.values) {
        if silently { link.isSilent = true } else { link.breakOff() }
      }
      fleet.note(.happened(fault))
    }
    loop.schedule(at: killAt + .seconds(backSeconds ?? 2)) { twin.isDown = backSeconds == nil }
    // A fault that has another one behind it is lifted at once, and no device can come back.
    let liftedAt = killAt + .seconds(next == nil ? backSeconds ?? 2 : 2)
    loop.schedule(at: liftedAt) { fleet.note(.lifted(fault)) }
    if let next {
      let other = ChaosFault(id: 2, kind: kind, node: "all", role: .edge, edges: lostEdges)
      loop.schedule(at: killAt + .seconds(next.lowerBound)) {
        fleet.note(.begins(other))
        fleet.note(.happened(other))
      }
      loop.schedule(at: killAt + .seconds(next.upperBound)) { fleet.note(.lifted(other)) }
    }
    _ = loop.run(for: .seconds(300)) { result != nil }
    return result
  }

  @Test("all come back, and the last one counts") func back() throws {
    let result = try #require(try course(backSeconds: 4))
    let chaos = try #require(result.chaos)
    let course = try #require(chaos.courses.first)
    #expect(chaos.courses.count == 1)
    #expect(course.disconnected == Self.devices)
    #expect(course.neverBack == 0)
    #expect((2_900...3_000).contains(Int(course.atSeconds * 1_000)))
    #expect(course.liftedSeconds.map { Int(($0 - course.atSeconds).rounded()) } == 4)
    // Not before the edges are up. Devices wait no longer than for some failed attempts.
    #expect((4_000_000...9_000_000).contains(course.allBackMicroseconds))
    // A histogram rounds up, by a thousandth.
    #expect(course.allBackMicroseconds + course.allBackMicroseconds / 999 >= chaos.reconnect.max)
    #expect(chaos.injected == [.killAllEdges: 1])
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(result.isCorrect, "\(result.examples)")
  }

  @Test("devices that stay away are a failure of the run") func neverBack() throws {
    let result = try #require(try course(backSeconds: nil))
    #expect(result.chaos?.neverBack == Self.devices)
    let verdict = Verdict(
      RunReport(settings: RunSettings(), machine: MachineFacts(), result: result))
    #expect(verdict.problems.contains("30 devices never came back after a fault"))
  }

  @Test("time in which another fault is in the way does not count") func nextFault() throws {
    let back: Int64 = 100
    for (next, lost) in [(10...80, 0), (10...20, Self.devices)] as [(ClosedRange<Int64>, Int)] {
      let result = try #require(try course(backSeconds: back, duration: 30, next: next))
      #expect(result.chaos?.neverBack == lost, "\(next)")
    }
  }

  /// No link is closed by its edge: only the device says that its session is over.
  @Test("a device that gives a silent connection up has lost its session") func silent() throws {
    let result = try course(
      backSeconds: 75, kind: .freezeAllEdges, duration: 100, silently: true)
    let course = try #require(result?.chaos?.courses.first)
    #expect(course.disconnected == Self.devices)
    #expect(course.neverBack == 0)
  }

  @Test("devices of other edges are not counted") func oneEdge() throws {
    let course = try #require(
      try course(backSeconds: 1, lostEdges: [1], kind: .killEdge)?.chaos?.courses.first)
    #expect(course.disconnected > 0)
    #expect(course.disconnected < Self.devices)
  }
}
