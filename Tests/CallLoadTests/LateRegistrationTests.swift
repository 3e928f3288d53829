import CallClient
import CallCore
import CallLoadKit
import CallTestKit
import CallWire
import Testing

/// Under faults some devices register during the load, and these registrations must exist at its end.
@Suite("Registering under faults") struct LateRegistrationTests {
  @Test("one in ten registers during the load, evenly over the time in which faults happen")
  func duringTheLoad() throws {
    let bench = try Bench(devices: 90)
    #expect(bench.twin.registered.count == 81)
    #expect(bench.fleet.setupResult.devicesRegistered == 81)
    bench.begin(seconds: 30)
    // Nine of them in the first 20 s.
    bench.pass(seconds: 9)
    #expect(bench.twin.registered.count == 85)
    bench.pass(seconds: 12)
    #expect(bench.twin.registered.count == 90)
    let result = try bench.end()
    #expect(result.devicesRegistered == 90)
    #expect(result.devicesExpected == 90)
    #expect(result.registrationsOfUnknownFate == 0)
    #expect(result.latency[.register]?.totalCount == 81)
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(Self.wrong(result, found: bench.twin.registered.count) == 0)
    #expect(Self.wrong(result, found: 89) == 1)
    #expect(Self.wrong(result, found: nil) == 90)
  }

  /// The twin forgets the tenth device that registers: here, the one that does so during the load.
  @Test("a registration that is lost under faults is found")
  func lost() throws {
    let bench = try Bench(devices: 10, fault: .losesRegistrations)
    #expect(bench.twin.registered.count == 9)
    #expect(bench.twin.faultsPlayed == 0)
    bench.begin(seconds: 10)
    var result = try bench.end()
    #expect(bench.twin.faultsPlayed == 1)
    #expect(result.devicesRegistered == 10)
    #expect(result.isCorrect)
    result.lost(registrations: bench.twin.registered.count)
    #expect(result.correctness.filter { $0.value > 0 } == [.registrationLost: 1])
    #expect(
      result.examples[.registrationLost] == ["10 devices registered, and the cluster knows 9"])
  }

  @Test(
    "who is refused, or hears nothing, asks until it is told, and the run waits",
    arguments: [false, true])
  func untilAcknowledged(isRefused: Bool) throws {
    let bench = try Bench(devices: 20)
    bench.gate.held = bench.fleet.roster.party(19)
    bench.gate.refuses = isRefused
    bench.gate.until = bench.loop.now + .seconds(50)
    let began = bench.loop.now
    bench.begin(seconds: 10)
    let result = try bench.end()
    let waited = bench.loop.now - began
    #expect(waited > .seconds(50))
    // More often than the client asks by itself.
    #expect(bench.gate.heldBack > 6)
    #expect(result.devicesRegistered == 20)
    #expect(result.registrationsOfUnknownFate == 0)
    #expect(result.failures.isEmpty, "\(result.failures)")
    #expect(Self.wrong(result, found: 20) == 0)
    #expect(Self.wrong(result, found: 19) == 1)
  }

  @Test("who is never told fails the run; the cluster may know it, or not")
  func neverAcknowledged() throws {
    let bench = try Bench(devices: 20, settleSeconds: 15)
    bench.gate.held = bench.fleet.roster.party(19)
    bench.begin(seconds: 10)
    let result = try bench.end()
    #expect(result.devicesRegistered == 19)
    #expect(result.registrationsOfUnknownFate == 1)
    #expect(result.failures == ["register: never acknowledged": 1])
    #expect(result.correctness[.commandLost] == 1)
    for (found, wrong) in [(17, 2), (18, 1), (19, 0), (20, 0), (21, 1)] {
      #expect(Self.wrong(result, found: found) == wrong, "\(found)")
    }
  }

  @Test("who has no session at the end could not be told")
  func awayAtTheEnd() throws {
    let bench = try Bench(devices: 20, settleSeconds: 15)
    bench.gate.held = bench.fleet.roster.party(19)
    bench.begin(seconds: 10)
    // Its call, if it has one, is over.
    bench.pass(seconds: 14)
    bench.gate.cutOff(bench.fleet.roster.party(19))
    let result = try bench.end()
    #expect(result.devicesRegistered == 19)
    #expect(result.registrationsOfUnknownFate == 1)
    #expect(result.failures == ["device: connection broken": 1])
    #expect(result.isCorrect, "\(result.correctness)")
  }

  @Test("without faults all register in the ramp, and so do those that sleep")
  func inTheRamp() throws {
    let calm = try Bench(devices: 90, isDisturbed: false)
    #expect(calm.twin.registered.count == 90)
    let bench = try Bench(devices: 90, sleep: SleepOptions(share: 0.4))
    let sleep = try #require(bench.fleet.sleep)
    for device in 0..<90 {
      let isLate = device % 10 == 9 && !sleep.sleeps(device)
      let isRegistered = bench.twin.registered.contains(bench.fleet.roster.party(device))
      #expect(isRegistered != isLate, "\(device)")
    }
  }

  /// The number of wrong registrations, by the number that the cluster has.
  private static func wrong(_ result: RunResult, found: Int?) -> Int? {
    var result = result
    result.lost(registrations: found)
    return result.correctness[.registrationLost]
  }
}

/// Devices that are connected to the twin, and registered as far as they do so before the load.
private final class Bench {
  let loop: VirtualDeviceLoop
  let twin: FaultyTwin
  let gate: Gate
  let fleet: DeviceFleet
  private var result: RunResult?

  init(
    devices: Int, fault: FaultyTwin.Fault? = nil, sleep: SleepOptions? = nil,
    settleSeconds: Double = 75, isDisturbed: Bool = true
  ) throws {
    let loop = VirtualDeviceLoop()
    let twin = FaultyTwin(loop: loop, fault: fault, seed: 5)
    let gate = Gate(loop, twin)
    var options = LoadOptions(edges: ["ws://twin-1:1", "ws://twin-2:1"]) { user, device in
      FaultyTwin.token(user: user, device: device)
    }
    options.devices = devices
    options.seed = 5
    options.sleep = sleep
    options.isDisturbed = isDisturbed
    options.settleSeconds = settleSeconds
    options.scenario = try #require(Scenario.named("answered"))
    let fleet = DeviceFleet(
      options: options, progress: LoadProgress(), loop: loop, network: gate, nonce: 5)
    self.loop = loop
    self.twin = twin
    self.gate = gate
    self.fleet = fleet
    var isConnected = false
    try fleet.connect { isConnected = true }
    try #require(loop.run(for: .seconds(60), until: { isConnected }))
  }

  func begin(seconds: Double) {
    fleet.load(rate: 1, duration: seconds) { [weak self] in self?.result = $0 }
  }

  func pass(seconds: Int64) { _ = loop.run(for: .seconds(seconds), until: { false }) }

  func end() throws -> RunResult {
    _ = loop.run(for: .seconds(200), until: { self.result != nil })
    return try #require(result)
  }
}

/// Stands between the devices and the twin, and lets one of them not be registered.
private final class Gate: DeviceNetwork {
  final class Link: DeviceLink {
    private unowned let gate: Gate
    private weak var delegate: (any DeviceLinkDelegate)?
    private let behind: any DeviceLink
    private var party: Party?

    init(_ gate: Gate, _ delegate: any DeviceLinkDelegate, _ behind: any DeviceLink) {
      self.gate = gate
      self.delegate = delegate
      self.behind = behind
    }

    func send(_ frame: ClientFrame) {
      if case .attach(let attach) = frame.command {
        let party = Party(user: attach.token, device: DeviceID(attach.device))
        self.party = party
        gate.links[party] = self
      }
      if let party, party == gate.away { return }
      guard case .register = frame.command, let party, gate.holds(party) else {
        return behind.send(frame)
      }
      gate.heldBack += 1
      if gate.refuses { refuse(frame.id) }
    }

    private func refuse(_ request: UInt64) {
      gate.loop.schedule(at: gate.loop.now + .milliseconds(1)) { [weak delegate = self.delegate] in
        delegate?.linkReceived(.reply(id: request, .error(CallError(.tryAgain))))
        delegate?.linkReadCompleted()
      }
    }

    func flush() { behind.flush() }
    func close(abruptly: Bool) { behind.close(abruptly: abruptly) }
    func breakOff() { (behind as? FaultyTwinLink)?.breakOff() }
  }

  let loop: VirtualDeviceLoop
  private let twin: FaultyTwin
  /// The device with a registration that does not get through.
  var held: Party?
  var until = Timestamp.distantFuture
  /// It is asked to try again, in place of silence.
  var refuses = false
  var heldBack = 0
  /// Gets no session from now on.
  private(set) var away: Party?
  fileprivate var links: [Party: Link] = [:]

  init(_ loop: VirtualDeviceLoop, _ twin: FaultyTwin) {
    self.loop = loop
    self.twin = twin
  }

  func connect(to edge: String, delegate: any DeviceLinkDelegate) -> any DeviceLink {
    Link(self, delegate, twin.connect(to: edge, delegate: delegate))
  }

  func holds(_ party: Party) -> Bool { party == held && loop.now < until }

  func cutOff(_ party: Party) {
    away = party
    links[party]?.breakOff()
  }
}
