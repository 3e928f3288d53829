package import CallClient
package import CallCore
import CallProcesses
package import CallTestKit
import CallWire

/// The devices of a load and its stages, on one loop: no locks, no tasks. Tests run it against a cluster in
/// memory, in virtual time.
package final class DeviceFleet {
  let options: LoadOptions
  package let roster: Roster
  package let loop: any DeviceLoop
  let network: any DeviceNetwork
  let host: DeviceHost
  let progress: LoadProgress
  /// Distinguishes the call ids of runs with the same seed on the same cluster.
  let nonce: UInt64
  package let sleep: SleepPlan?
  /// Sends a command over HTTP for a device without a session. Called on the loop, and completes there.
  package var actByPush: ((PushAction, @escaping (Result<CallState, CallError>) -> Void) -> Void)?
  /// Makes a group as the app's server does; the error, if the cluster refused it. Called on the loop, and completes
  /// there. nil: nothing can.
  package var setGroup:
    ((_ name: String, CallGroup, _ completion: @escaping (CallError?) -> Void) -> Void)?
  private(set) var devices: [LoadDevice] = []
  var connectedCount = 0
  private(set) var setupFailures: [String: Int] = [:]
  private(set) var ramp: Ramp?
  private(set) lazy var tap = options.events.map { EventTap(self, $0) }
  private(set) lazy var registrations = Registrations(self)
  private(set) lazy var forwarding = Forwarding(self)
  private(set) lazy var groups = Groups(self)
  let planner: CallPlanner
  private(set) var stage: Stage?
  private var stageCount: UInt64 = 0
  private(set) var probes: ShardProbes?
  /// The meter of the processors of the machine with the cluster; nil where no faults are injected, or time is virtual.
  var processors: ProcessorMeter?
  private(set) var isInterrupted = false
  /// An upper bound of when the frame that is being handled arrived.
  var arrivedAt = Timestamp.zero
  private var isTicking = false
  private var ticks = 0

  static let tick: Span = .milliseconds(100)
  /// The time over which devices spread their moves to nearer edges, and how long the load waits for these.
  static let nearerSpread: Span = .seconds(3)
  private static let untilMoved: Span = .seconds(5)

  package init(
    options: LoadOptions, progress: LoadProgress, loop: any DeviceLoop,
    network: any DeviceNetwork, nonce: UInt64
  ) {
    self.options = options
    self.progress = progress
    self.loop = loop
    self.network = network
    self.nonce = nonce
    self.roster = options.roster
    self.sleep = options.sleep.map { [roster] in
      SleepPlan($0, roster: roster, seed: options.ownSeed)
    }
    self.planner = CallPlanner(options: options, roster: roster, nonce: nonce)
    self.host = DeviceHost(loop: loop, network: network, seed: nonce ^ options.ownSeed, ticks: true)
  }

  // MARK: The course of a run

  /// Connects, attaches and registers every device, but for those that register late.
  /// - Throws: what minting a token threw.
  package func connect(_ completion: @escaping () -> Void) throws {
    for index in devices.count..<roster.devices { devices.append(try makeDevice(index)) }
    progress.restart(.connecting, of: devices.count)
    startTicking()
    let ramp = Ramp(self) { [unowned self] in
      // Cannot fail: the devices' tokens were made in the same way.
      try? startProbes()
      let missing = devices.count - connectedCount
      if missing > 0 { setupFailures["device: not connected", default: 0] += missing }
      progress.update { $0.devicesConnected = self.connectedCount }
      (planner.forwarding, planner.groups) = (forwarding, groups)
      forwarding.begin { [unowned self] in groups.begin { [unowned self] in begun(completion) } }
    }
    self.ramp = ramp
    ramp.begin()
  }

  private func begun(_ completion: @escaping () -> Void) {
    for device in devices where device.setup == .connected { device.fallAsleep() }
    guard options.followsNearer else { return completion() }
    loop.schedule(at: loop.now + Self.untilMoved, completion)
  }

  /// Puts load on the connected devices, waits until it has settled, and judges it.
  /// - Parameter rate: of all slices.
  package func load(rate: Double, duration: Double, _ completion: @escaping (RunResult) -> Void) {
    stageCount += 1
    planner.begin(stage: stageCount)
    let calls = options.slice.share(of: max(1, Int((rate * duration).rounded())))
    let stage = Stage(self, calls: calls, duration: duration) { [unowned self] result in
      self.stage = nil
      completion(result)
    }
    self.stage = stage
    startTicking()
    stage.begin()
  }

  package func interrupt() {
    isInterrupted = true
    ramp?.finish()
    stage?.interrupt()
  }

  package func disconnect(_ completion: @escaping () -> Void) {
    progress.begin(.disconnecting, of: devices.count)
    isTicking = false
    probes?.stop()
    leave(from: 0, completion)
  }

  private func leave(from first: Int, _ completion: @escaping () -> Void) {
    let next = min(first + 250, devices.count)
    for device in devices[first..<next] { device.driver.stop() }
    progress.update { $0.done = next }
    guard next < devices.count else {
      progress.update { $0.phase = .done }
      // The last writes need a moment to leave.
      return loop.schedule(at: loop.now + .milliseconds(50), completion)
    }
    loop.schedule(at: loop.now + .milliseconds(5)) { [weak self] in
      self?.leave(from: next, completion)
    }
  }

  package var setupResult: RunResult {
    var result = RunResult()
    result.devicesExpected = roster.devices
    result.devicesConnected = connectedCount
    result.devicesRegistered = registrations.count
    result.registrationsOfUnknownFate = registrations.unknownFate
    result.nearerMoves = devices.reduce(0) { $0 + $1.driver.machine.nearerMoves }
    result.failures = setupFailures
    result.latency = ramp?.book.histograms ?? [:]
    result.rampSeconds = ramp?.seconds ?? 0
    result.interrupted = isInterrupted
    for rule in CorrectnessRule.allCases { result.correctness[rule] = 0 }
    return result
  }

  func count(_ failure: String) {
    if let stage {
      stage.result.failures[failure, default: 0] += 1
    } else {
      setupFailures[failure, default: 0] += 1
    }
  }

  // MARK: Ticks

  private func startTicking() {
    guard !isTicking else { return }
    isTicking = true
    loop.schedule(at: loop.now + Self.tick) { [weak self] in self?.tickNow() }
  }

  /// Since when the machine's processors had nothing left; nil where they had.
  func processorsBusySince(at now: Timestamp) -> Timestamp? {
    processors?.busySince(at: now) {
      ProcessFiles.read("/proc/stat").flatMap { ProcessorMeter.Ticks(stat: $0) }
    }
  }

  private func tickNow() {
    guard isTicking else { return }
    ticks += 1
    let now = loop.now
    host.tick()
    if ticks % 50 == 0 { for device in devices { device.driver.fireIfDue(at: now) } }
    ramp?.tick(at: now)
    stage?.tick(at: now, ticks: ticks)
    tap?.tick(at: now, isDisturbed: stage?.faults.isSettling ?? false)
    loop.schedule(at: now + Self.tick) { [weak self] in self?.tickNow() }
  }

  // MARK: Faults and pushes, from outside

  private func startProbes() throws {
    guard options.isDisturbed, options.shardCount > 0, probes == nil else { return }
    let probes = try ShardProbes(
      options: options, shardCount: options.shardCount, loop: loop, network: network)
    probes.onFinding = { [weak self] in self?.stage?.faults.found($1, of: $0) }
    self.probes = probes
    probes.start()
  }

  package func devices(at edge: Int) -> [Int] {
    devices.filter { $0.edge == edge && $0.isAttached }.map(\.index)
  }

  package func note(_ step: FaultStep) {
    switch step {
    case .begins(let fault): stage?.faults.begins(fault)
    case .happened(let fault): stage?.faults.happened(fault)
    case .widened(let fault, let shards): stage?.faults.widened(fault, by: shards)
    case .lifted(let fault): stage?.faults.lifted(fault)
    case .incident(let what): count(what)
    }
  }

  package func pushArrived(_ push: APNsPush) { stage?.pushes?.arrived(push) }
}
