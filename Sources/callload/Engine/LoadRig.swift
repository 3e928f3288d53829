package import CallClient
package import CallCore
import CallWire

/// The simulated devices and the calls that they make, on one loop: no locks, no tasks.
///
/// What drives time and connections comes from outside, so that tests run it against a cluster in
/// memory, in no time at all.
package final class LoadRig {
  let options: LoadOptions
  package let roster: Roster
  package let loop: any DeviceLoop
  /// When the frame that is being taken was there at the latest.
  var arrivedAt = Timestamp(microseconds: 0)
  let network: any DeviceNetwork
  let host: DeviceHost
  let progress: LoadProgress
  /// Distinguishes the call ids of runs with the same seed on the same cluster.
  let nonce: UInt64
  var devices: [LoadDevice] = []
  var ramp: Ramp?
  var stage: Stage?
  var setupBook = LatencyBook()
  var setupFailures: [String: Int] = [:]
  var rampSeconds: Double = 0
  var connectedCount = 0
  var registeredCount = 0
  /// Nothing before the load, and without faults.
  var lateRegistering: LateRegistering?
  var isInterrupted = false
  /// Each stage has calls of its own.
  var stageCount: UInt64 = 0
  var recentPairs = PairLimiter()
  var probes: ShardProbes?
  /// Which devices sleep.
  package let sleep: SleepPlan?
  /// Says over HTTP what a device without a session has to say. Called on the loop, and answers there.
  package var actByPush: ((PushAction, @escaping (Result<CallState, CallError>) -> Void) -> Void)?
  var httpRequests: UInt64 = 0
  /// Live calls in which a user takes part, and users that are left alone.
  var liveCalls: [Int32] = []
  var isReserved: [Bool] = []
  /// Apart from the calls', which depend on the seed alone.
  var pingRandom: SplitMix64
  private var isTicking = false
  private var ticks = 0

  static let tick: Span = .milliseconds(100)

  package init(
    options: LoadOptions, progress: LoadProgress, loop: any DeviceLoop,
    network: any DeviceNetwork, nonce: UInt64
  ) {
    self.options = options
    self.progress = progress
    self.loop = loop
    self.network = network
    self.nonce = nonce
    self.roster = Roster(devices: options.devices, devicesPerUser: options.devicesPerUser)
    self.sleep = options.sleep.map { [roster] in
      SleepPlan($0, roster: roster, seed: options.seed)
    }
    self.host = DeviceHost(
      loop: loop, network: network, seed: nonce ^ options.seed, ticks: true)
    self.pingRandom = SplitMix64(seed: options.seed)
    self.liveCalls = Array(repeating: 0, count: roster.users)
    self.isReserved = Array(repeating: false, count: roster.users)
  }

  // MARK: Devices

  func token(of device: Int) -> String? {
    try? options.mintToken(roster.userName(roster.user(of: device)), roster.deviceName(device))
  }

  /// Submits a command of a device. A refusal by the device's own bound counts as a failure.
  @discardableResult
  func say(_ command: ClientCommand, _ device: LoadDevice) -> UInt64? {
    let request = device.driver.submit(command)
    if request == nil { count("device: too many commands wait") }
    return request
  }

  func said(_ device: LoadDevice, _ frame: ClientFrame) {
    stage?.checker.said(device: device.index, frame, at: loop.now)
  }

  func received(_ device: LoadDevice, _ frame: ServerFrame) {
    let now = loop.now
    arrivedAt = loop.arrivedAt
    stage?.checker.told(device: device.index, frame, at: now)
    if case .delivery(let delivery) = frame {
      noticeDelivery(device, delivery, at: now)
      noticeForPushes(device, delivery, at: now)
    }
  }

  func processed(_ frame: ServerFrame) {
    if case .delivery(let delivery) = frame { finishIfSettled(delivery.call) }
  }

  func linkClosed(_ device: LoadDevice, _ link: ClientMachine.Link, _ cause: LinkClosed) {
    switch link {
    case .current:
      if !isExcused(device) { count("device: \(cause.kind)") }
      if device.isAttached { connectionLost(device) }
      connectionGone(device)
    // It still has the connection that it was to move from.
    case .next: count("device, moving: \(cause.kind)")
    }
  }

  /// The device is about to lose its connection, by accident or because its part says so.
  func connectionGone(_ device: LoadDevice) {
    device.ping = nil
    stage?.checker.detached(device: device.index, from: device.calls, at: loop.now)
  }

  func count(_ failure: String) {
    if stage != nil {
      stage?.failures[failure, default: 0] += 1
    } else {
      setupFailures[failure, default: 0] += 1
    }
  }

  // MARK: Deadlines

  func startTicking() {
    guard !isTicking else { return }
    isTicking = true
    loop.schedule(at: loop.now + Self.tick) { [weak self] in self?.tickNow() }
  }

  func stopTicking() { isTicking = false }

  private func tickNow() {
    guard isTicking else { return }
    ticks += 1
    let now = loop.now
    host.tick()
    if ticks % 50 == 0 { for device in devices { device.driver.fireIfDue(at: now) } }
    rampTick(at: now)
    stageTick(at: now, ticks: ticks)
    loop.schedule(at: now + Self.tick) { [weak self] in self?.tickNow() }
  }

  // MARK: Ending early

  package func interrupt() {
    isInterrupted = true
    if ramp != nil { finishRamp() }
    interruptStage()
  }

  /// Detaches all devices, some at a time.
  package func disconnect(_ completion: @escaping () -> Void) {
    progress.update {
      $0.phase = .disconnecting
      $0.done = 0
      $0.total = devices.count
    }
    stopTicking()
    probes?.stop()
    leave(from: 0, completion)
  }

  private func leave(from first: Int, _ completion: @escaping () -> Void) {
    let next = min(first + 250, devices.count)
    for device in devices[first..<next] {
      device.driver.stop()
    }
    progress.update { $0.done = next }
    guard next < devices.count else {
      progress.update { $0.phase = .done }
      // What was written last has a moment to leave.
      return loop.schedule(at: loop.now + .milliseconds(50), completion)
    }
    loop.schedule(at: loop.now + .milliseconds(5)) { [weak self] in
      self?.leave(from: next, completion)
    }
  }
}

/// Keeps calls of one user to another below the cluster's limit of 10 a minute.
struct PairLimiter {
  private struct Window {
    var begins: Timestamp
    var count: Int
  }
  private var windows: [UInt64: Window] = [:]
  private var sweepAt = Timestamp(microseconds: 0)

  static let span: Span = .seconds(61)
  static let most = 5

  /// Whether one more call fits, counted if so. Two windows may meet, so each takes half.
  mutating func take(_ caller: Int, _ callee: Int, at now: Timestamp) -> Bool {
    if sweepAt < now {
      sweepAt = now + Self.span
      windows = windows.filter { now < $0.value.begins + Self.span }
    }
    let key = UInt64(caller) << 32 | UInt64(callee)
    guard let window = windows[key], now < window.begins + Self.span else {
      windows[key] = Window(begins: now, count: 1)
      return true
    }
    guard window.count < Self.most else { return false }
    windows[key]?.count += 1
    return true
  }
}
