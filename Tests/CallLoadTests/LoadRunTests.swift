import CallClient
import CallCore
import CallLoadKit
import CallTestKit
import CallWire
import Testing

@Suite struct LoadRunTests {
  private func fleet(
    _ loop: VirtualDeviceLoop, _ network: any DeviceNetwork, devices: Int = 30
  ) -> DeviceFleet {
    var options = LoadOptions(edges: ["ws://twin:1"]) { user, _ in user }
    options.devices = devices
    options.seed = 3
    options.rampTimeoutSeconds = 20
    return DeviceFleet(
      options: options, progress: LoadProgress(), loop: loop, network: network, nonce: 5)
  }

  @Test func severalStagesRunOnTheSameDevices() throws {
    let loop = VirtualDeviceLoop()
    let fleet = fleet(loop, FaultyTwin(loop: loop))
    var isConnected = false
    try fleet.connect { isConnected = true }
    #expect(loop.run(for: .seconds(30)) { isConnected })
    for rate in [2.0, 5.0] {
      var result: RunResult?
      fleet.load(rate: rate, duration: 10) { result = $0 }
      #expect(loop.run(for: .seconds(120)) { result != nil })
      #expect(result?.callsCompleted == Int(rate * 10))
      #expect(result?.loadSeconds == 10)
      #expect(result?.isCorrect == true)
    }
    var isDisconnected = false
    fleet.disconnect { isDisconnected = true }
    #expect(loop.run(for: .seconds(5)) { isDisconnected })
  }

  @Test func aRunThatIsEndedEarlyReportsWhatThereIs() throws {
    let loop = VirtualDeviceLoop()
    let fleet = fleet(loop, FaultyTwin(loop: loop))
    var isConnected = false
    try fleet.connect { isConnected = true }
    #expect(loop.run(for: .seconds(30)) { isConnected })
    var result: RunResult?
    fleet.load(rate: 5, duration: 100) { result = $0 }
    let soon = loop.now + .seconds(10)
    _ = loop.run(for: .seconds(20)) { loop.now >= soon }
    fleet.interrupt()
    #expect(loop.run(for: .seconds(10)) { result != nil })
    let found = try #require(result)
    #expect(found.interrupted)
    #expect(found.callsExpected == 500)
    #expect(found.callsPlaced > 20 && found.callsPlaced < 80)
    #expect(found.isCorrect)
    #expect(found.callsCompleted + (found.failures["ended early"] ?? 0) == found.callsPlaced)
  }

  /// Without an edge that answers, the ramp ends in time and counts the devices.
  @Test func devicesThatCannotConnectAreCounted() throws {
    let loop = VirtualDeviceLoop()
    let network = DeadNetwork(loop: loop)
    let fleet = fleet(loop, network)
    var isConnected = false
    try fleet.connect { isConnected = true }
    #expect(loop.run(for: .seconds(40)) { isConnected })
    let result = fleet.setupResult
    #expect(result.devicesConnected == 0)
    #expect(result.failures["device: not connected"] == 30)
    #expect((result.failures["device: connect failed"] ?? 0) > 30)
    _ = network
  }

  @Test func theSameSeedGivesTheSameCalls() throws {
    let first = try #require(try TwinRun(durationSeconds: 10).outcome()).result
    let second = try #require(try TwinRun(durationSeconds: 10).outcome()).result
    #expect(first.callsByPart == second.callsByPart)
    let other = try #require(try TwinRun(durationSeconds: 10, seed: 8).outcome()).result
    #expect(first.callsByPart != other.callsByPart)
  }

  @Test(arguments: [1, 2, 5]) func usersMayHaveAnyNumberOfDevices(count: Int) throws {
    let loop = VirtualDeviceLoop()
    var options = LoadOptions(edges: ["ws://twin:1"]) { user, _ in user }
    options.devices = 61
    options.devicesPerUser = count
    let fleet = DeviceFleet(
      options: options, progress: LoadProgress(), loop: loop, network: FaultyTwin(loop: loop),
      nonce: 5)
    var isConnected = false
    try fleet.connect { isConnected = true }
    #expect(loop.run(for: .seconds(30)) { isConnected })
    var result: RunResult?
    fleet.load(rate: 5, duration: 20) { result = $0 }
    #expect(loop.run(for: .seconds(120)) { result != nil })
    #expect(result?.callsCompleted == 100, "\(result?.failures ?? [:])")
    #expect(result?.isCorrect == true)
  }
}

/// A network in which every connection fails.
final class DeadNetwork: DeviceNetwork {
  private final class Link: DeviceLink {
    func send(_ frame: ClientFrame) {}
    func flush() {}
    func close(abruptly: Bool) {}
  }
  private let loop: VirtualDeviceLoop
  init(loop: VirtualDeviceLoop) { self.loop = loop }

  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    loop.schedule(at: loop.now + .milliseconds(1)) {
      delegate.linkClosed(.connectFailed("refused"))
    }
    return Link()
  }
}
