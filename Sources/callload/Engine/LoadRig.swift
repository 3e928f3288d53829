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
  let progress: LoadProgress
  /// Distinguishes the call ids of runs with the same seed on the same cluster.
  let nonce: UInt64
  var devices: [SimulatedDevice] = []
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
  private let edgeNumbers: [String: Int]
  /// Live calls in which a user takes part, and users that are left alone.
  var liveCalls: [Int32] = []
  var isReserved: [Bool] = []
  private var random: SplitMix64
  /// Apart from the calls', which depend on the seed alone.
  var pingRandom: SplitMix64
  private var buffers: [[ClientMachine.Action]] = []
  private var watched: [SimulatedDevice] = []
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
    self.edgeNumbers = Dictionary(
      options.edges.enumerated().map { ($1, $0) }, uniquingKeysWith: { first, _ in first })
    self.roster = Roster(devices: options.devices, devicesPerUser: options.devicesPerUser)
    self.sleep = options.sleep.map { [roster] in
      SleepPlan($0, roster: roster, seed: options.seed)
    }
    self.random = SplitMix64(seed: nonce ^ options.seed)
    self.pingRandom = SplitMix64(seed: options.seed)
    self.liveCalls = Array(repeating: 0, count: roster.users)
    self.isReserved = Array(repeating: false, count: roster.users)
  }

  // MARK: Machines

  /// Lets a device's machine do something and carries out what it asks for.
  func run(
    _ device: SimulatedDevice,
    _ body: (inout ClientMachine, Timestamp, inout [ClientMachine.Action]) -> Void
  ) {
    var actions = buffers.popLast() ?? []
    body(&device.machine, loop.now, &actions)
    for action in actions { perform(action, device) }
    actions.removeAll(keepingCapacity: true)
    buffers.append(actions)
    if !device.isReading { device.link?.flush() }
    device.next?.link?.flush()
    watch(device)
  }

  private func perform(_ action: ClientMachine.Action, _ device: SimulatedDevice) {
    switch action {
    case .connect(let edge):
      device.link?.close(abruptly: true)
      device.isReading = false
      let url = device.machine.configuration.edges[edge]
      device.edge = edgeNumbers[url] ?? 0
      device.link = network.connect(to: url, delegate: device)
    case .send(let frame):
      stage?.checker.said(device: device.index, frame, at: loop.now)
      device.link?.send(frame)
    case .close:
      device.link?.flush()
      device.link?.close(abruptly: false)
      device.link = nil
      device.isReading = false
    case .connectNext(let edge):
      let url = device.machine.configuration.edges[edge]
      device.nextEdge = edgeNumbers[url] ?? 0
      device.connectNext(to: url, network)
    case .sendNext(let frame):
      stage?.checker.said(device: device.index, frame, at: loop.now)
      device.next?.link?.send(frame)
    case .closeNext:
      device.next?.close(abruptly: false)
      device.next = nil
    case .switchOver:
      device.edge = device.nextEdge
      device.switchOver()
    case .renewToken: renewToken(device)
    case .event(let event): handle(event, device)
    }
  }

  private func renewToken(_ device: SimulatedDevice) {
    let user = roster.userName(roster.user(of: device.index))
    let token = try? options.mintToken(user, roster.deviceName(device.index))
    run(device) { $0.tokenRenewed(token, now: $1, into: &$2) }
  }

  /// Submits a command of a device. A refusal by the device's own bound counts as a failure.
  @discardableResult
  func say(_ command: ClientCommand, _ device: SimulatedDevice) -> UInt64? {
    var request: UInt64?
    run(device) { machine, now, actions in
      request = machine.submit(command, now: now, into: &actions)
    }
    if request == nil { count("device: too many commands wait") }
    return request
  }

  func received(
    _ device: SimulatedDevice, _ frame: ServerFrame, on link: ClientMachine.Link = .current
  ) {
    let now = loop.now
    arrivedAt = loop.arrivedAt
    stage?.checker.told(device: device.index, frame, at: now)
    if case .delivery(let delivery) = frame {
      noticeDelivery(device, delivery, at: now)
      noticeForPushes(device, delivery, at: now)
    }
    var random = self.random
    run(device) { $0.received(frame, on: link, now: $1, random: &random, into: &$2) }
    self.random = random
    if case .delivery(let delivery) = frame { finishIfSettled(delivery.call) }
  }

  func linkClosed(_ device: SimulatedDevice, _ cause: LinkClosed) {
    if !isExcused(device) { count("device: \(cause.kind)") }
    if case .notTrusted = cause { deviceTrustsNobody(device) }
    connectionGone(device)
  }

  /// The connection to which a device was moving is gone; it still has the former one.
  func nextLinkClosed(_ device: SimulatedDevice, _ cause: LinkClosed) {
    count("device, moving: \(cause.kind)")
    var random = self.random
    run(device) { $0.closed(.next, now: $1, random: &random, into: &$2) }
    self.random = random
  }

  /// The device's connection is gone, by accident or because its part says so.
  func connectionGone(_ device: SimulatedDevice) {
    device.ping = nil
    stage?.checker.detached(device: device.index, from: device.calls, at: loop.now)
    if device.machine.isAttached { connectionLost(device) }
    var random = self.random
    run(device) { $0.closed(now: $1, random: &random, into: &$2) }
    self.random = random
  }

  func count(_ failure: String) {
    if stage != nil {
      stage?.failures[failure, default: 0] += 1
    } else {
      setupFailures[failure, default: 0] += 1
    }
  }

  // MARK: Deadlines

  /// Devices whose machines wait for something are looked at ten times a second, the others every
  /// few seconds: a timer per command would cost more than the commands.
  private func watch(_ device: SimulatedDevice) {
    guard !device.isWatched,
      device.machine.pendingCount > 0 || device.machine.isMoving
        || device.machine.state != .attached && device.machine.state != .stopped
    else { return }
    device.isWatched = true
    watched.append(device)
  }

  /// Lets a device's machine do what is due.
  func fire(_ device: SimulatedDevice) {
    var random = self.random
    run(device) { $0.fire(now: $1, random: &random, into: &$2) }
    self.random = random
  }

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
    let due = ticks % 50 == 0 ? devices : watched
    if ticks % 50 != 0 { watched.removeAll(keepingCapacity: true) }
    for device in due {
      if ticks % 50 != 0 { device.isWatched = false }
      if !device.isHeld, let deadline = device.machine.nextDeadline, deadline <= now {
        fire(device)
      } else {
        watch(device)
      }
    }
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
      run(device) { machine, _, actions in machine.stop(into: &actions) }
    }
    progress.update { $0.done = next }
    guard next < devices.count else {
      watched.removeAll()
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
